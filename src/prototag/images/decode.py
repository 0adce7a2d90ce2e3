"""Files, bytes, PIL images or arrays -> upright sRGB pictures, and what a picture is known by.

Only the decoders named here ever see a file, chosen by its first bytes and never by its name. What
cannot be decoded whole is an :class:`~prototag.errors.ImageError` with its reason: a truncated file
is not padded with grey, and a picture over the pixel limit is refused before it is decoded.

A file is known by the part of it that is seen, as it is encoded, so that copies, renamed files and
files with other keywords are one picture, and a file with other pixels, turned or coloured in
another way is another. A picture in memory is known by its mode, its size and its pixels, and what
turns or colours them when it is shown.
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
VERSION = 2  # of everything here that shapes a pixel: raise it and cached vectors are made anew
MAX_PIXELS = 200_000_000  # phones make pictures of 200 megapixels
MAX_BYTES = 1 << 30
# A file may hold this many pixels whatever its size, and so many more for each of its bytes: what
# is packed more densely than a blank page is made to keep a program busy.
FREE_PIXELS = 40_000_000  # a page of A4 at 600 dots an inch has 35
PIXELS_A_BYTE = 1000
DIGEST_BYTES = 20
READS = (
    "JPEG, PNG, WebP, GIF, TIFF, BMP and AVIF are read, HEIC with prototag[heif], and the previews "
    "inside NEF, CR2, CR3, ARW, DNG, ORF, RW2, RAF, PEF and SRW"
)

# First bytes, module and class of the decoder. A JPEG with several pictures gives its first.
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
# First bytes of raw files and of TIFF files, which may be raw files; Canon's latest are told below.
_MAY_BE_RAW = {b"II*\0", b"MM\0*", b"IIRO", b"IIRS", b"MMOR", b"IIU\0", b"FUJI"}

_ORIENTATION = 0x0112  # the EXIF tag; its values 2 to 8 name the turn that makes a picture upright
_TURNS = (
    "FLIP_LEFT_RIGHT",
    "ROTATE_180",
    "FLIP_TOP_BOTTOM",
    "TRANSPOSE",
    "ROTATE_270",
    "TRANSVERSE",
    "ROTATE_90",
)
# What says nothing of the pixels of a JPEG. From what is left out only the turn is read.
_JPEG_WORDS = {*range(0xE1, 0xEE), 0xEF, 0xFE}  # EXIF, XMP, IPTC and others; comments
MAX_PARTS = 200_000  # segments or chunks that are looked at

_PLAIN = {"L", "RGB", "CMYK", "LAB"}  # modes that can be averaged as they are
# A picture other than a JPEG is first shrunk by whole factors to no less than this many times what
# is asked for; the exact resize that follows gives nearly the same pixels as from the full picture.
# (A JPEG is decoded smaller by whole frequencies: there once what is asked for is enough.)
_SPARE = 2
# Pixels that all threads together hold decoded at a time, at about four bytes each while they are
# converted: pictures wait for room, and one that is larger goes alone.
_ROOM = 100_000_000


class _Room:
    """Lets so many pixels in at a time."""

    def __init__(self, pixels: int) -> None:
        self._total = self._free = pixels
        self._changed = threading.Condition()

    @contextmanager
    def taken(self, pixels: int) -> Iterator[None]:
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


_room = _Room(_ROOM)


def read_bytes(path: str | os.PathLike[str], *, max_bytes: int = MAX_BYTES) -> bytes:
    """Content of a regular file; a FIFO, a device or a directory is refused and not waited for."""
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
    """The picture upright, in sRGB, transparency on white.

    Parameters
    ----------
    source : path, bytes, PIL image or array
        Arrays are h x w, h x w x 3 or h x w x 4, of uint8, uint16, bool, or floats in [0, 1].
    at_least : (width, height), or a function that gives them for the size of the picture
        A larger picture may come back reduced, with sides no less than these, because decoding and
        resizing less is faster. (0, 0) keeps every pixel.
    max_pixels : int
        A picture with more is refused.
    """
    if isinstance(source, str | os.PathLike):
        source = read_bytes(source)
    with told_as_image_errors():
        if isinstance(source, bytes):
            image = _identify(source)
        else:
            from prototag.images.in_memory import in_memory

            image = in_memory(source)
        _check_size(image, max_pixels)
        if isinstance(source, bytes):
            _check_density(image, len(source))
        wanted = at_least(upright_size(image)) if callable(at_least) else at_least
        if isinstance(source, bytes):
            _ask_for_less(image, wanted)
        return _upright_srgb(image, wanted)


@contextmanager
def told_as_image_errors() -> Iterator[None]:
    """Whatever a decoder raises inside becomes an :class:`~prototag.errors.ImageError`.

    Its words are not repeated, because some quote bytes of the file, which a client of the service
    may name but not read.
    """
    try:
        yield
    except ImageError:
        raise
    except Exception as error:  # decoders raise whatever a hostile file makes them raise
        is_short = "truncated" in str(error).lower()
        what = "the file is truncated" if is_short else "the file is damaged or of an unknown kind"
        raise ImageError(f"cannot be decoded: {what}") from error


def digest(source: Source) -> bytes:
    """The identity of a picture: 20 bytes, equal for what looks equal bit by bit, and nothing else.

    Parameters
    ----------
    source : path, bytes, PIL image or array
        Of a path or bytes it is the file that is known, which need not be a picture: of a JPEG, PNG
        or WebP its encoded pixels, turn and colour profile, without keywords and other words; of
        any other file all bytes. Of an image or an array it is the pixels. A file and the
        picture decoded from it are two things.
    """
    if isinstance(source, str | os.PathLike):
        source = read_bytes(source)
    if isinstance(source, bytes):
        return _of_file(source)
    from prototag.images.in_memory import in_memory, of_pixels

    with told_as_image_errors():
        return of_pixels(in_memory(source))


def _of_file(data: bytes) -> bytes:
    view: memoryview = memoryview(data)
    parts: Parts | None = None
    if data.startswith(b"\xff\xd8\xff"):
        parts = _seen_in_jpeg(view)
    elif data.startswith((b"\x89PNG\r\n\x1a\n", b"RIFF")):
        from prototag.images.digest_png_webp import seen

        parts = seen(view)
    if parts is None:  # another kind, or too odd to tell its parts
        return hashlib.blake2b(data, digest_size=DIGEST_BYTES).digest()
    found = hashlib.blake2b(digest_size=DIGEST_BYTES, person=b"seen")
    for part in parts:
        found.update(len(part).to_bytes(8, "little"))
        found.update(part)
    return found.digest()


def _seen_in_jpeg(data: memoryview) -> Parts | None:
    parts: Parts = []
    at = 2
    is_turned = False
    for _ in range(MAX_PARTS):
        head = bytes(data[at : at + 16])
        if len(head) < 4 or head[0] != 0xFF or head[1] < 0xC0 or 0xD0 <= head[1] <= 0xD9:
            return None
        if head[1] == 0xFF:  # fill bytes
            at += 1
            continue
        if head[1] == 0xDA:  # all that follows are pixels
            turn = turn_of(data) if is_turned else 1
            return [*parts, data[at:], bytes([turn])]
        end = at + 2 + int.from_bytes(head[2:4], "big")
        if not at + 4 <= end <= len(data):
            return None
        if head[1] == 0xE0:  # that it is there tells colours, not its resolution
            parts.append(data[at : at + 9])
        elif head[1] not in _JPEG_WORDS or head[4:] == b"ICC_PROFILE\0":
            parts.append(data[at:end])
        is_turned |= head[1] == 0xE1
        at = end
    return None


def turn_of(data: memoryview) -> int:
    """As the decoder will find it; a file that has none cannot be shown."""
    try:
        return orientation(_identify(bytes(data)))
    except Exception:  # whatever a hostile file makes a decoder raise
        return 1


def _identify(data: bytes) -> Image.Image:
    """The picture with its header read and its pixels not yet decoded."""
    if not data:
        raise ImageError("is empty")
    if data[:4] in _MAY_BE_RAW or data[4:12] == b"ftypcrx ":
        from prototag.images.raw_preview import preview

        found = preview(data)
        if found is not None:
            image = _identify(found.data)  # a JPEG
            if found.orientation is not None:
                image.getexif()[_ORIENTATION] = found.orientation
            return image
    decoder = next((names for head, *names in _DECODERS if data.startswith(head)), None)
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        decoder = [*_WEBP]
    elif data[4:8] == b"ftyp":
        brands = data[8 : min(64, int.from_bytes(data[:4], "big"))]
        decoder = [*(_AVIF if b"avi" in brands else _HEIF)]
    if decoder is None:
        raise ImageError(f"is not a picture ({READS})")
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
    if width * height > FREE_PIXELS + PIXELS_A_BYTE * n_bytes:
        raise ImageError(
            f"has {width} x {height} pixels in {n_bytes:,} bytes; above {FREE_PIXELS:,} pixels "
            f"a byte may hold {PIXELS_A_BYTE:,}"
        )


def upright_size(image: Image.Image) -> Size:
    """Width and height once it is turned."""
    width, height = image.size
    return (height, width) if orientation(image) > 4 else (width, height)


def _ask_for_less(image: Image.Image, at_least: Size) -> None:
    """Let a JPEG be decoded at 1/2, 1/4 or 1/8 where that is enough."""
    width, height = at_least[::-1] if orientation(image) > 4 else at_least
    if min(width, height) > 0:
        image.draft(image.mode, (width, height))


def _upright_srgb(image: Image.Image, at_least: Size) -> Image.Image:
    from PIL.Image import Transpose

    with _room.taken(image.width * image.height):
        image.load()
        turn = orientation(image)  # read again: a TIFF turns itself while it loads
        wanted = at_least[::-1] if turn > 4 else at_least
        image = _srgb(_reduced(image, wanted))
    return image.transpose(Transpose[_TURNS[turn - 2]]) if turn > 1 else image


def orientation(image: Image.Image) -> int:
    """The EXIF value that says how a picture must be turned; 1 where it stands upright."""
    try:
        value = image.getexif().get(_ORIENTATION, 1)
    except Exception:  # damaged metadata says nothing about the pixels
        return 1
    return value if isinstance(value, int) and 1 <= value <= 8 else 1


def _factor(size: Size, wanted: Size) -> int:
    """The largest whole factor that leaves ``_SPARE`` times the wanted size."""
    if min(wanted) < 1:
        return 1
    return max(1, min(side // (_SPARE * want) for side, want in zip(size, wanted, strict=True)))


def _reduced(image: Image.Image, wanted: Size) -> Image.Image:
    """Without transparency, palette or deep samples (L, RGB, CMYK or LAB), and box-filtered."""
    factor = _factor(image.size, wanted)
    if image.mode in _PLAIN and "transparency" not in image.info:
        small = image.reduce(factor) if factor > 1 else image
        small.info = image.info
        return small
    from prototag.images.convert_8bit import flat

    return flat(image, factor)


def _srgb(image: Image.Image) -> Image.Image:
    profile = image.info.get("icc_profile")
    transform = _transform(profile, image.mode) if profile or image.mode == "LAB" else None
    if transform is not None:
        return transform.apply(image)
    return image if image.mode == "RGB" else image.convert("RGB")


@lru_cache(maxsize=32)
def _transform(profile: bytes | None, mode: str) -> ImageCms.ImageCmsTransform | None:
    """From the profile to sRGB; None where nothing needs or can be done."""
    from PIL import ImageCms

    try:
        given: Any = ImageCms.createProfile("LAB")
        if profile:
            given = ImageCms.ImageCmsProfile(io.BytesIO(profile))
            if mode == "RGB" and "srgb" in ImageCms.getProfileDescription(given).lower():
                return None
        return ImageCms.buildTransform(given, ImageCms.createProfile("sRGB"), mode, "RGB")
    except (ImageCms.PyCMSError, OSError, ValueError):
        return None
