"""Pictures in memory: PIL images and arrays."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

from prototag.arrays import Array
from prototag.errors import ImageError
from prototag.images import convert_8bit
from prototag.images.decode import DIGEST_BYTES, orientation

if TYPE_CHECKING:
    from PIL import Image


def to_image(source: Image.Image | Array) -> Image.Image:
    """Return a PIL image or an array as a PIL image."""
    if isinstance(source, np.ndarray):
        return from_array(source)
    if not hasattr(source, "convert"):
        raise ImageError(
            f"a picture cannot come from {type(source).__name__}: give a path, bytes, a PIL image "
            "or an array"
        )
    return source


def from_array(values: Array) -> Image.Image:
    """Convert h x w, h x w x 3 or h x w x 4 of uint8, uint16, bool or floats in [0, 1]."""
    from PIL import Image as pil

    if values.ndim == 3 and values.shape[2] == 1:
        values = values[:, :, 0]
    if (
        values.ndim not in (2, 3)
        or (values.ndim == 3 and values.shape[2] not in (3, 4))
        or not values.size
    ):
        raise ImageError(
            f"an array of shape {values.shape} is not a picture: give h x w, h x w x 3 or h x w x 4"
        )
    if values.dtype == bool:
        values = values * np.uint8(255)
    elif values.dtype == np.uint16:
        values = convert_8bit.samples_to_8bit(values, convert_8bit.sample_range(values))
    elif values.dtype.kind == "f":
        if not np.isfinite(values).all() or values.min() < 0 or values.max() > 1:
            raise ImageError("an array of floats must lie in [0, 1]; divide by 255 or give uint8")
        values = convert_8bit.round_to_uint8(values * 255)
    elif values.dtype != np.uint8:
        raise ImageError(
            f"an array of {values.dtype} is not a picture: give uint8, uint16, bool or floats in "
            "[0, 1]"
        )
    return pil.fromarray(np.ascontiguousarray(values))


def pixel_digest(image: Image.Image) -> bytes:
    """Compute the digest of a picture in memory: its pixels, and what affects their display."""
    pixels = image.tobytes()  # loads the image, which turns a TIFF upright
    palette = image.getpalette("RGBA") if image.mode in ("P", "PA") else None
    info = [image.info.get(name) for name in ("transparency", "icc_profile")]
    display = repr((image.mode, image.size, orientation(image), palette, info)).encode()
    # The personalization separates these digests from those of files.
    checksum = hashlib.blake2b(pixels, digest_size=DIGEST_BYTES, person=b"pixels")
    checksum.update(display)
    return checksum.digest()
