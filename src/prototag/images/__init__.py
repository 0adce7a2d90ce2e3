"""Decoding of pictures, before feature extraction.

``decode`` opens files, bytes, images and arrays as upright sRGB pictures, and computes the digest
that identifies a picture. ``crops`` cuts the input of a backbone and makes thumbnails. Pictures are
never changed.
"""
