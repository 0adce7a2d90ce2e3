"""Decoding of files, bytes, PIL images or arrays to upright sRGB pictures, and their digests.

Decoders are selected from an allowlist by the first bytes of a file, never by its name. A file that
cannot be decoded completely is an :class:`~prototag.errors.ImageError` with the reason: a truncated
file is not padded with gray, and a picture above the pixel limit is refused before it is decoded.

The digest of a file covers its visible parts as they are encoded. Copies, renamed files and files
with other keywords are therefore one picture; other pixels, orientation or color profile make
another picture. The digest of a picture in memory covers its mode, size, pixels, orientation and
color profile.
"""

from __future__ import annotations

import hashlib
import io
import os
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from prototag.arrays import Array
from prototag.errors import ImageError
from prototag.storage.sqlite_lock_guard import close_descriptor, open_descriptor

if TYPE_CHECKING:
    from PIL import Image, ImageCms

    Source = str | os.PathLike[str] | bytes | Image.Image | Array

Pixels = npt.NDArray[np.uint8]
Parts = list[bytes | memoryview]  # of a file
Size = tuple[int, int]  # width and height
VERSION = 2  # of the pixels that this package produces; a new version invalidates cached vectors
MAX_PIXELS = 200_000_000  # phones make pictures of 200 megapixels
MAX_BYTES = 1 << 30
# Limit against decompression bombs: a blank page is the densest honest file.
FREE_PIXELS = 40_000_000  # allowed in a file of any size; an A4 page at 600 dpi has 35 megapixels
MAX_PIXELS_PER_BYTE = 1000  # allowed beyond these
DIGEST_BYTES = 20
SUPPORTED_FORMATS = (
    "JPEG, PNG, WebP, GIF, TIFF, BMP and AVIF are read, HEIC with prototag[heif], and the previews "
    "inside NEF, CR2, CR3, ARW, DNG, ORF, RW2, RAF, PEF and SRW"
)

# First bytes, module and class of the decoder. Of several pictures in a JPEG the first is decoded.
_DECODERS = (
    (b"\xff\xd8\xff", "PIL.JpegImagePlugin", "JpegImageFile"),
    (b"\x89PNG\r\n\x1a\n", "PIL.PngImagePlugin", "PngImageFile"),
    (b"GIF8", "PIL.GifImagePlugin", "GifImageFile"),
    (b"BM", "PIL.BmpImagePlugin", "BmpImageFile"),
    (b"II*\0", "PIL.TiffImagePlugin", "TiffImageFile"),
    (b"MM\0*", "PIL.TiffImagePlugin", "TiffImageFile"),
    (b"II+\0", "PIL.TiffImagePlugin", "TiffImageFile"),
    (b"MM\0+", "PIL.TiffImagePlugin", "TiffImageFile"),
)
_WEBP = "PIL.WebPImagePlugin", "WebPImageFile"
_AVIF = "PIL.AvifImagePlugin", "AvifImageFile"
_HEIF = "pillow_heif", "HeifImageFile"
_INSTALL = {
    _AVIF[0]: "AVIF needs a Pillow that decodes it: pip install --upgrade pillow",
    _HEIF[0]: "HEIC needs a decoder that is not installed: pip install 'prototag[heif]'",
}
# First bytes of raw files and of TIFF files, which may be raw files; CR3 is detected by its brand.
_MAY_BE_RAW = {b"II*\0", b"MM\0*", b"IIRO", b"IIRS", b"MMOR", b"IIU\0", b"FUJI"}

_ORIENTATION = (
    0x0112  # EXIF tag; its values 2 to 8 are the transpositions that make a picture upright
)
_TRANSPOSITIONS = (
    "FLIP_LEFT_RIGHT",
    "ROTATE_180",
    "FLIP_TOP_BOTTOM",
    "TRANSPOSE",
    "ROTATE_270",
    "TRANSVERSE",
    "ROTATE_90",
)
# JPEG segments that do not affect the display, except for the orientation in them.
_JPEG_METADATA = {*range(0xE1, 0xEE), 0xEF, 0xFE}  # EXIF, XMP, IPTC and others; comments
MAX_PARTS = 200_000  # segments or chunks per file, against endless loops

_PLAIN = {"L", "RGB", "CMYK", "LAB"}  # modes that need no conversion before they are averaged
# Pictures other than JPEG are first reduced by an integer factor, to at least this many times the
# requested size. The exact resize that follows then gives nearly the same pixels as from the full
# picture. (A JPEG is reduced in the frequency domain, where a margin of 1 suffices.)
_REDUCTION_MARGIN = 2
# Decoded pixels of all threads together, at about four bytes each during conversion. Pictures wait
# until there is room; a larger picture is decoded alone.
_MAX_DECODED_PIXELS = 100_000_000


class _PixelBudget:
    """Semaphore that limits the number of pixels that are decoded at the same time."""

    def __init__(self, pixels: int) -> None:
        self._total = self._free = pixels
        self._changed = threading.Condition()

    @contextmanager
    def reserved(self, pixels: int) -> Iterator[None]:
        pixels = min(pixels, self._total)
        with self._changed:
            self._changed.wait_for(lambda: self._free >= pixels)
            self._free -= pixels
        try:
            yield
        finally:
            with self._changed:
                self._free += pixels
                self._changed.notify_all()


_budget = _PixelBudget(_MAX_DECODED_PIXELS)


def read_bytes(path: str | os.PathLike[str], *, max_bytes: int = MAX_BYTES) -> bytes:
    """Read a regular file; a FIFO, device or directory is refused without blocking."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        handle = open_descriptor(path, flags)
        try:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                raise ImageError(f"is {_kind(status.st_mode)}, not a regular file")
            if status.st_size > max_bytes:
                raise ImageError(f"has {status.st_size:,} bytes; the limit is {max_bytes:,}")
            with open(handle, "rb", buffering=0, closefd=False) as file:
                return file.readall()
        finally:
            close_descriptor(handle)
    except OSError as error:
        if os.path.isdir(path):
            raise ImageError("is a folder, not a picture") from None
        raise ImageError(f"cannot be read: {error.strerror or error}") from None
    except ValueError as error:  # ImageError from above, or a NUL inside the name
        raise ImageError(str(error)) from None


def _kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "a folder"
    kinds = ((stat.S_ISFIFO, "a FIFO"), (stat.S_ISSOCK, "a socket"))
    return next((name for test, name in kinds if test(mode)), "a device")


def open_image(
    source: Source,
    *,
    at_least: Size | Callable[[Size], Size] = (0, 0),
    max_pixels: int = MAX_PIXELS,
) -> Image.Image:
    """Decode a picture: upright, in sRGB, with transparency on white.

    Parameters
    ----------
    source : path, bytes, PIL image or array
        Arrays are h x w, h x w x 3 or h x w x 4, of uint8, uint16, bool, or floats in [0, 1].
    at_least : (width, height), or a function that returns them for the size of the picture
        A larger picture may be reduced to sides no less than these, because this is faster. (0, 0)
        keeps every pixel.
    max_pixels : int
        A picture with more pixels is refused.
    """
    if isinstance(source, str | os.PathLike):
        source = read_bytes(source)
    with translate_decoder_errors():
        if isinstance(source, bytes):
            image = identify(source)
        else:
            from prototag.images.in_memory import to_image

            image = to_image(source)
        _check_size(image, max_pixels)
        if isinstance(source, bytes):
            _check_density(image, len(source))
        size = at_least(upright_size(image)) if callable(at_least) else at_least
        if isinstance(source, bytes):
            _draft_jpeg(image, size)
        return _upright_srgb(image, size)


@contextmanager
def translate_decoder_errors() -> Iterator[None]:
    """Translate exceptions of decoders into :class:`~prototag.errors.ImageError`.

    Their messages are not passed on, because some quote bytes of the file, and a client of the
    service may name files that it must not read.
    """
    try:
        yield
    except ImageError:
        raise
    except Exception as error:  # decoders raise whatever a hostile file makes them raise
        is_short = "truncated" in str(error).lower()
        reason = (
            "the file is truncated" if is_short else "the file is damaged or of an unknown kind"
        )
        raise ImageError(f"cannot be decoded: {reason}") from error


def digest(source: Source) -> bytes:
    """Compute the digest that identifies a picture: 20 bytes of BLAKE2b.

    Parameters
    ----------
    source : path, bytes, PIL image or array
        For paths and bytes the digest covers the file, which need not be a picture: encoded
        pixels, orientation and color profile of a JPEG, PNG or WebP, and all bytes of other files.
        For images and arrays it covers the pixels. A file and the picture decoded from it have
        different digests.
    """
    if isinstance(source, str | os.PathLike):
        source = read_bytes(source)
    if isinstance(source, bytes):
        return _file_digest(source)
    from prototag.images.in_memory import pixel_digest, to_image

    with translate_decoder_errors():
        return pixel_digest(to_image(source))


def _file_digest(data: bytes) -> bytes:
    view: memoryview = memoryview(data)
    parts: Parts | None = None
    if data.startswith(b"\xff\xd8\xff"):
        parts = _visible_jpeg_parts(view)
    elif data.startswith((b"\x89PNG\r\n\x1a\n", b"RIFF")):
        from prototag.images.digest_png_webp import visible_parts

        parts = visible_parts(view)
    if parts is None:  # another format, or not parsable
        return hashlib.blake2b(data, digest_size=DIGEST_BYTES).digest()
    checksum = hashlib.blake2b(digest_size=DIGEST_BYTES, person=b"seen")
    for part in parts:
        checksum.update(len(part).to_bytes(8, "little"))
        checksum.update(part)
    return checksum.digest()


def _visible_jpeg_parts(data: memoryview) -> Parts | None:
    parts: Parts = []
    at = 2
    has_metadata = False
    for _ in range(MAX_PARTS):
        head = bytes(data[at : at + 16])
        if len(head) < 4 or head[0] != 0xFF or head[1] < 0xC0 or 0xD0 <= head[1] <= 0xD9:
            return None
        if head[1] == 0xFF:  # fill bytes
            at += 1
            continue
        if head[1] == 0xDA:  # start of scan: only pixels follow
            value = file_orientation(data) if has_metadata else 1
            return [*parts, data[at:], bytes([value])]
        end = at + 2 + int.from_bytes(head[2:4], "big")
        if not at + 4 <= end <= len(data):
            return None
        if (
            head[1] == 0xE0
        ):  # JFIF: its presence decides the color space, its resolution does not matter
            parts.append(data[at : at + 9])
        elif head[1] not in _JPEG_METADATA or head[4:] == b"ICC_PROFILE\0":
            parts.append(data[at:end])
        has_metadata |= head[1] == 0xE1
        at = end
    return None


def file_orientation(data: memoryview) -> int:
    """Return the orientation that the decoder finds, 1 if it finds none."""
    try:
        return orientation(identify(bytes(data)))
    except Exception:  # whatever a hostile file makes a decoder raise
        return 1


def identify(data: bytes) -> Image.Image:
    """Open a picture: its header is parsed, its pixels are not decoded."""
    if not data:
        raise ImageError("is empty")
    if data[:4] in _MAY_BE_RAW or data[4:12] == b"ftypcrx ":
        from prototag.images.raw_preview import preview

        embedded = preview(data)
        if embedded is not None:
            image = identify(embedded.data)  # a JPEG
            if embedded.orientation is not None:
                image.getexif()[_ORIENTATION] = embedded.orientation
            return image
    decoder = next((names for head, *names in _DECODERS if data.startswith(head)), None)
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        decoder = [*_WEBP]
    elif data[4:8] == b"ftyp":
        brands = data[8 : min(64, int.from_bytes(data[:4], "big"))]
        decoder = [*(_AVIF if b"avi" in brands else _HEIF)]
    if decoder is None:
        raise ImageError(f"is not a picture ({SUPPORTED_FORMATS})")
    try:
        module = import_module(decoder[0])
        if not getattr(module, "SUPPORTED", True):  # Pillow was built without it
            raise ImportError
        opened: Callable[[io.BytesIO], Image.Image] = getattr(module, decoder[1])
        return opened(io.BytesIO(data))
    except ImportError:
        raise ImageError(_INSTALL[decoder[0]]) from None


def _check_size(image: Image.Image, max_pixels: int) -> None:
    width, height = image.size
    if width * height > max_pixels:
        raise ImageError(
            f"has {width} x {height} pixels; the limit is {max_pixels:,} (max_pixels sets it)"
        )
    if min(width, height) < 1:
        raise ImageError(f"has no pixels: {width} x {height}")


def _check_density(image: Image.Image, n_bytes: int) -> None:
    width, height = image.size
    if width * height > FREE_PIXELS + MAX_PIXELS_PER_BYTE * n_bytes:
        raise ImageError(
            f"has {width} x {height} pixels in {n_bytes:,} bytes; above {FREE_PIXELS:,} pixels "
            f"a byte may hold {MAX_PIXELS_PER_BYTE:,}"
        )


def upright_size(image: Image.Image) -> Size:
    """Return width and height of the upright picture."""
    width, height = image.size
    return (height, width) if orientation(image) > 4 else (width, height)


def _draft_jpeg(image: Image.Image, at_least: Size) -> None:
    """Decode a JPEG at 1/2, 1/4 or 1/8 of its size if that suffices."""
    width, height = at_least[::-1] if orientation(image) > 4 else at_least
    if min(width, height) > 0:
        image.draft(image.mode, (width, height))


def _upright_srgb(image: Image.Image, at_least: Size) -> Image.Image:
    from PIL.Image import Transpose

    with _budget.reserved(image.width * image.height):
        image.load()
        value = orientation(image)  # read again: loading turns a TIFF upright
        size = at_least[::-1] if value > 4 else at_least
        image = _srgb(_reduced(image, size))
    return image.transpose(Transpose[_TRANSPOSITIONS[value - 2]]) if value > 1 else image


def orientation(image: Image.Image) -> int:
    """Return the EXIF orientation, 1 if the picture is upright."""
    try:
        value = image.getexif().get(_ORIENTATION, 1)
    except Exception:  # damaged metadata does not make the pixels unreadable
        return 1
    return value if isinstance(value, int) and 1 <= value <= 8 else 1


def _reduction_factor(size: Size, at_least: Size) -> int:
    """Return the largest integer factor that keeps ``_REDUCTION_MARGIN`` times a size."""
    if min(at_least) < 1:
        return 1
    pairs = zip(size, at_least, strict=True)
    return max(1, min(side // (_REDUCTION_MARGIN * least) for side, least in pairs))


def _reduced(image: Image.Image, at_least: Size) -> Image.Image:
    """Convert a picture to L, RGB, CMYK or LAB, and reduce it with a box filter."""
    factor = _reduction_factor(image.size, at_least)
    if image.mode in _PLAIN and "transparency" not in image.info:
        small = image.reduce(factor) if factor > 1 else image
        small.info = image.info
        return small
    from prototag.images.convert_8bit import to_8bit

    return to_8bit(image, factor)


def _srgb(image: Image.Image) -> Image.Image:
    profile = image.info.get("icc_profile")
    transform = _transform(profile, image.mode) if profile or image.mode == "LAB" else None
    if transform is not None:
        return transform.apply(image)
    return image if image.mode == "RGB" else image.convert("RGB")


@lru_cache(maxsize=32)
def _transform(profile: bytes | None, mode: str) -> ImageCms.ImageCmsTransform | None:
    """Return the transform from a profile to sRGB; None if not needed or not possible."""
    from PIL import ImageCms

    try:
        source: Any = ImageCms.createProfile("LAB")
        if profile:
            source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
            if mode == "RGB" and "srgb" in ImageCms.getProfileDescription(source).lower():
                return None
        return ImageCms.buildTransform(source, ImageCms.createProfile("sRGB"), mode, "RGB")
    except (ImageCms.PyCMSError, OSError, ValueError):
        return None
