"""EXIF of a picture: when, with which camera and lens, and where it was taken."""

from __future__ import annotations

import math
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from prototag.images.decode import identify

if TYPE_CHECKING:
    from PIL import Image

MAX_NAME_LENGTH = 100  # characters of a camera or lens
FIRST_YEAR = 1826  # of the oldest photograph; clocks that were not set say 0000
DIRECTORY = 0x8769  # the inner directory
MAKE = 0x010F
MODEL = 0x0110
TAKEN = 0x9003
_DIGITIZED = 0x9004
_LENS_MODEL = 0xA434
_POSITION = 0x8825  # directory of the position
_LATITUDE = 2  # entries of it: the letter N, S, E or W is the entry before the degrees
_LONGITUDE = 4
_TIFF_VARIANTS = {b"IIRO": b"II*\0", b"IIRS": b"II*\0", b"MMOR": b"MM\0*", b"IIU\0": b"II*\0"}
_TIFF_HEADS = {b"II*\0", b"MM\0*", *_TIFF_VARIANTS}


class Capture(NamedTuple):
    """When, with what and where a picture was taken; None for what its file does not say."""

    taken_at: str | None = None  # by the camera's clock: 2023-05-17T14:03:22
    camera: str | None = None
    lens: str | None = None
    latitude: float | None = None  # degrees north
    longitude: float | None = None  # degrees east


def read_capture(data: bytes) -> Capture:
    """Read the EXIF of a picture file; a damaged or missing record says nothing."""
    try:
        image = _tiff(data) if data[:4] in _TIFF_HEADS else identify(data)
        return _capture(image)
    except Exception:  # whatever a hostile file makes a decoder raise
        return Capture()


def metadata_of(image: Image.Image) -> dict[int, Any]:
    """Return the EXIF entries of an opened picture; none if they are damaged."""
    try:
        exif = image.getexif()
        return {**exif, **exif.get_ifd(DIRECTORY)}
    except Exception:  # damaged metadata does not make the pixels unreadable
        return {}


class _TiffMetadata:
    """EXIF of a TIFF file or of a raw file, whose preview may lack it."""

    def __init__(self, exif: Image.Exif) -> None:
        self.exif = exif

    def getexif(self) -> Image.Exif:
        return self.exif


def _tiff(data: bytes) -> Any:
    from PIL.Image import Exif

    exif = Exif()
    exif.load(_TIFF_VARIANTS.get(data[:4], data[:4]) + data[4:])
    return _TiffMetadata(exif)


def _capture(image: Any) -> Capture:
    metadata = metadata_of(image)
    position = _position(image)
    return Capture(
        _time(metadata.get(TAKEN)) or _time(metadata.get(_DIGITIZED)),
        _camera(_text(metadata.get(MAKE)), _text(metadata.get(MODEL))),
        _text(metadata.get(_LENS_MODEL)),
        *position,
    )


def _time(value: Any) -> str | None:
    try:
        time = datetime.strptime(str(value)[:19], "%Y:%m:%d %H:%M:%S")
    except ValueError:
        return None
    return time.isoformat() if time.year >= FIRST_YEAR else None


def _text(value: Any) -> str | None:
    if isinstance(value, bytes):
        value = value.decode("latin-1")
    if not isinstance(value, str):
        return None
    text = "".join(one if one.isprintable() else " " for one in value.partition("\0")[0])
    return " ".join(text.split())[:MAX_NAME_LENGTH].rstrip() or None


def _camera(make: str | None, model: str | None) -> str | None:
    """Return the model after its maker, unless the model begins with the maker's name."""
    if make is None or model is None:
        return model or make
    first = make.split()[0]
    return model if model.casefold().startswith(first.casefold()) else f"{make} {model}"


def _position(image: Any) -> tuple[float | None, float | None]:
    try:
        entries = image.getexif().get_ifd(_POSITION)
    except Exception:  # damaged metadata does not make the rest unreadable
        return None, None
    latitude = _degrees(entries, _LATITUDE, "S", 90)
    longitude = _degrees(entries, _LONGITUDE, "W", 180)
    if latitude is None or longitude is None or latitude == longitude == 0:
        return None, None  # receivers without a signal write zeros
    return latitude, longitude


def _degrees(entries: Any, tag: int, negative: str, largest: float) -> float | None:
    try:
        degrees, minutes, seconds = (float(part) for part in entries[tag])
        value = degrees + minutes / 60 + seconds / 3600
        letter = str(entries[tag - 1]).strip("\0 ").upper()
    except (ArithmeticError, KeyError, TypeError, ValueError):
        return None
    if not math.isfinite(value) or not 0 <= value <= largest:
        return None
    return round(-value if letter == negative else value, 6)
