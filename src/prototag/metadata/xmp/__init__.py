"""XMP packets: keywords read from one, and tags written into one without touching another byte.

``markup`` finds the elements of a packet and splices its bytes, ``packet`` reads keywords and
marks, ``editor`` decides what a run adds and takes back, and writes it.
"""
