"""The largest JPEG of a raw file is found and turned as it says; hostile files are survived."""

import io
import struct
from contextlib import suppress

import numpy as np
import pytest
from PIL import Image

from prototag.errors import ImageError
from prototag.images.decode import open_image
from prototag.images.raw_preview import preview

from .. import raws
from ..pictures import encoded, scene

LARGE = encoded(scene(640, 480), "JPEG", quality=92)
SMALL = encoded(scene(160, 120, seed=1), "JPEG")


def difference(one: Image.Image, other: Image.Image) -> float:
    return float(np.abs(np.asarray(one, float) - np.asarray(other, float)).mean())


@pytest.mark.parametrize("turn", [1, 3, 6, 8])
@pytest.mark.parametrize("kind", raws.MAKERS)
def test_the_largest_jpeg_is_taken_and_turned(kind: str, turn: int) -> None:
    data = raws.MAKERS[kind](LARGE, SMALL, turn)
    exif = Image.Exif()
    exif[0x0112] = turn
    expected = open_image(encoded(scene(640, 480), "JPEG", quality=92, exif=exif))
    upright = open_image(data)
    assert upright.size == ((480, 640) if turn > 4 else (640, 480))
    assert difference(upright, expected) < 0.5
    assert open_image(data, at_least=(100, 100)).size < upright.size  # it is decoded small, too


@pytest.mark.parametrize("kind", ["nef", "dng"])
def test_both_byte_orders(kind: str) -> None:
    for order in "<>":
        found = preview(raws.MAKERS[kind](LARGE, SMALL, 8, order=order))
        assert found == (LARGE, 8)


def test_the_note_of_newer_olympus_cameras() -> None:
    assert preview(raws.orf(LARGE, SMALL, 1, head=b"OM SYSTEM\0\0\0II\4\0")) == (LARGE, 1)


def test_the_turn_of_the_raw_file_goes_before_that_of_the_jpeg() -> None:
    exif = Image.Exif()
    exif[0x0112] = 3
    turned = encoded(scene(640, 480), "JPEG", exif=exif)
    assert open_image(raws.arw(turned, SMALL, 6)).size == (480, 640)


def test_a_tiff_that_is_no_raw_file_is_a_tiff() -> None:
    for order in "<>":
        plain = encoded(scene(), "TIFF")
        assert preview(plain) is None
        file = raws.Tiff(order)
        assert preview(file.close(file.directory({0x0112: (raws.SHORT, 1)}))) is None
    assert np.array_equal(open_image(encoded(scene(), "TIFF")), scene())
    assert preview(LARGE) is None
    assert preview(b"") is None


@pytest.mark.parametrize("kind", raws.MAKERS)
def test_a_raw_file_without_a_jpeg_is_reported(kind: str) -> None:
    data = raws.MAKERS[kind](raws.LOSSLESS, b"no picture", 1)
    with pytest.raises(ImageError, match="without a JPEG inside, and raw files are not developed"):
        open_image(data)


@pytest.mark.parametrize("kind", raws.MAKERS)
def test_damaged_files_end_in_words(kind: str) -> None:
    """Cut anywhere, or with bytes changed anywhere: a picture, or an error that says why."""
    data = raws.MAKERS[kind](LARGE, SMALL, 6)
    rng = np.random.default_rng(0)
    heads = [i for i in range(len(data)) if i < 400 or i > len(data) - 3000]
    damaged = [data[: int(share * len(data))] for share in np.linspace(0, 1, 12)]
    for _ in range(60):
        changed = bytearray(data)
        for place in rng.choice(heads, 6):
            changed[place] = rng.choice([0, 1, 255, rng.integers(256)])
        damaged.append(bytes(changed))
    for hostile in damaged:
        with suppress(ImageError):  # and no other
            assert min(open_image(hostile, at_least=(64, 64)).size) > 0


def test_directories_in_a_circle_end() -> None:
    file = raws.Tiff()
    place = len(file.data)
    entries = {0x014A: (raws.LONG, place), 0x8769: (raws.LONG, place), 0x0106: (raws.SHORT, 32803)}
    assert file.directory(entries, following=place) == place
    with pytest.raises(ImageError, match="without a JPEG"):
        open_image(file.close(place))


def test_many_directories_and_boxes_are_not_all_visited() -> None:
    file = raws.Tiff()
    following = file.directory({**raws._jpeg(file, LARGE), 0x0106: (raws.SHORT, 32803)})
    for _ in range(5000):
        following = file.directory({0x0106: (raws.SHORT, 32803)}, following)
    with pytest.raises(ImageError, match="without a JPEG"):
        open_image(file.close(following))
    boxes = raws._box(b"ftyp", b"crx \0\0\0\1") + raws._box(b"uuid", bytes(16)) * 200_000
    with pytest.raises(ImageError, match="without a JPEG"):
        open_image(boxes)
    nested = b""
    for _ in range(3000):
        nested = raws._box(b"moov", nested)
    with pytest.raises(ImageError, match="without a JPEG"):
        open_image(raws._box(b"ftyp", b"crx \0\0\0\1") + nested)


def test_a_jpeg_whose_head_never_ends_is_none() -> None:
    endless = b"\xff\xd8" + b"\xff\xe0\0\2" * 100_000
    with pytest.raises(ImageError, match="without a JPEG"):
        open_image(raws.nef(endless, b"", 1))
    filler = b"\xff\xd8" + b"\xff" * 100_000
    with pytest.raises(ImageError, match="without a JPEG"):
        open_image(raws.nef(filler, b"", 1))


def test_a_place_beyond_the_file_is_not_read() -> None:
    head = b"FUJIFILMCCD-RAW ".ljust(84, b"\0") + struct.pack(">II", 2**32 - 1, 2**32 - 1)
    for data in (head, head[:90]):
        with pytest.raises(ImageError, match="without a JPEG"):
            open_image(data)


def test_a_jpeg_in_a_raw_file_is_held_to_the_limit_of_pixels() -> None:
    with pytest.raises(ImageError, match="limit is 1,000"):
        open_image(raws.raf(LARGE, SMALL, 1), max_pixels=1000)
    assert Image.open(io.BytesIO(LARGE)).size == (640, 480)
