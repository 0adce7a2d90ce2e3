"""Pictures before any network sees them.

``decode`` opens files, bytes, images and arrays as upright sRGB pictures and says what a picture is
known by, ``crops`` cuts the regions that a network is shown and makes small copies. Nothing here
learns, and nothing writes to the picture.
"""
