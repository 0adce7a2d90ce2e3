"""What a picture is known by: its content, not its name, its place or the way it was given."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from prototag.errors import ImageError
from prototag.images.identity import LENGTH, digest

from ..pictures import encoded, png_header, scene


def test_copies_share_it_and_a_changed_file_does_not(tmp_path: Path) -> None:
    file = tmp_path / "one.jpg"
    file.write_bytes(encoded(scene(), "JPEG"))
    first = digest(file)
    assert len(first) == LENGTH == 20
    copy = shutil.copy(file, tmp_path / "two.jpg")
    assert digest(copy) == digest(str(file)) == digest(file.read_bytes()) == first
    data = bytearray(file.read_bytes())
    data[-40] ^= 1
    file.write_bytes(bytes(data))
    assert digest(file) != first


def test_an_image_and_its_array_are_one_picture() -> None:
    image = scene()
    assert digest(image) == digest(np.asarray(image)) == digest(image.copy())
    assert len(digest(image)) == LENGTH
    grey = image.convert("L")
    assert digest(grey) == digest(np.asarray(grey)) == digest(np.asarray(grey)[:, :, None])
    assert digest(image) == digest(np.asarray(image)[::-1][::-1])  # whatever its strides


def test_mode_shape_and_pixels_tell_pictures_apart() -> None:
    flat = np.zeros((4, 6, 3), np.uint8)
    other = flat.copy()
    other[3, 5, 2] = 1
    turned = flat.reshape(6, 4, 3)  # the same bytes
    grey = flat.reshape(4, 18)
    found = {digest(values) for values in (flat, other, turned, grey)}
    assert len(found) == 4
    assert digest(flat.tobytes()) not in found  # a file of the same bytes


def test_what_changes_the_look_counts() -> None:
    image = scene().convert("P", palette=Image.Palette.ADAPTIVE)
    other = image.copy()
    other.putpalette(image.getpalette()[::-1])
    assert digest(image) != digest(other)
    upright, turned = scene(), scene()
    turned.getexif()[0x0112] = 6
    assert digest(upright) != digest(turned)


def test_opening_a_picture_does_not_change_it() -> None:
    import io

    from prototag.images.decode import open_image

    for kind in ("JPEG", "PNG", "TIFF"):
        exif = Image.Exif()
        exif[0x0112] = 6
        image = Image.open(io.BytesIO(encoded(scene(), kind, exif=exif)))
        before = digest(image)
        open_image(image, at_least=(10, 10))
        assert digest(image) == before


def test_what_has_none_says_why(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match="cannot be read: No such file"):
        digest(tmp_path / "missing.jpg")
    with pytest.raises(ImageError, match="cannot come from int"):
        digest(3)
    with pytest.raises(ImageError, match=r"shape \(2,\) is no picture"):
        digest(np.zeros(2, np.uint8))
    import io

    with Image.open(io.BytesIO(png_header(20, 20))) as torn, pytest.raises(ImageError):
        digest(torn)
