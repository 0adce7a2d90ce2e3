"""What a picture is known by, wherever it lies and whatever it is called.

A file is its bytes, so that copies and renamed files are one picture and a changed file is another.
A picture in memory is what it shows: its mode, its size and its pixels, and what turns or colours
them when it is shown.
"""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

from prototag.images.decode import in_memory, orientation, read_bytes, told_as_image_errors

if TYPE_CHECKING:
    from PIL import Image

    from prototag.images.decode import Source

LENGTH = 20  # bytes of a digest


def digest(source: Source) -> bytes:
    """The identity of a picture: 20 bytes, equal for equal content and for nothing else.

    Parameters
    ----------
    source : path, bytes, PIL image or array
        Of a path or bytes it is the file that is known, which need not be a picture; of an image or
        an array its pixels. A file and the picture decoded from it are two things.
    """
    if isinstance(source, str | os.PathLike):
        source = read_bytes(source)
    if isinstance(source, bytes):
        return hashlib.blake2b(source, digest_size=LENGTH).digest()
    with told_as_image_errors():
        return _of_pixels(in_memory(source))


def _of_pixels(image: Image.Image) -> bytes:
    pixels = image.tobytes()  # loads it: before, a TIFF has not yet been turned
    palette = image.getpalette("RGBA") if image.mode in ("P", "PA") else None
    info = [image.info.get(name) for name in ("transparency", "icc_profile")]
    shown = repr((image.mode, image.size, orientation(image), palette, info)).encode()
    found = hashlib.blake2b(pixels, digest_size=LENGTH, person=b"pixels")  # unlike any file's
    found.update(shown)
    return found.digest()
