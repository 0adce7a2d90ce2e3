"""Small copies: their size, what they leave behind, and where a row of them ends."""

import io

import numpy as np
import pytest
from PIL import Image, ImageCms

from prototag.images.decode import open_image
from prototag.images.thumbnails import SIDE, Album, thumbnail

from ..pictures import encoded, scene


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ((400, 300), (SIDE, SIDE * 3 // 4)),
        ((300, 400), (SIDE * 3 // 4, SIDE)),
        ((40, 30), (40, 30)),  # never enlarged
        ((2000, 3), (SIDE, 1)),
    ],
)
def test_they_fit_and_keep_their_proportions(size, expected) -> None:
    made = Image.open(io.BytesIO(thumbnail(scene(*size))))
    assert made.format == "WEBP"
    assert made.size == expected


def test_they_show_the_picture() -> None:
    image = scene(400, 300)
    made = Image.open(io.BytesIO(thumbnail(image))).convert("RGB")
    plain = image.resize(made.size, Image.Resampling.BICUBIC)
    assert np.abs(np.asarray(made, float) - np.asarray(plain, float)).mean() < 8


def test_the_picture_itself_stays_and_what_was_written_into_it_is_left_behind() -> None:
    exif = Image.Exif()
    exif[0x010E] = "at home with the children"
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    image = open_image(encoded(scene(400, 300), "JPEG", exif=exif, icc_profile=profile))
    made = thumbnail(image)
    assert image.size == (400, 300)
    assert "icc_profile" in image.info
    assert b"children" not in made
    assert not {"exif", "icc_profile", "xmp"} & Image.open(io.BytesIO(made)).info.keys()


def test_an_album_is_full_for_good() -> None:
    album = Album(max_bytes=5)
    assert [album.take(small) for small in (b"abc", b"", b"de")] == [b"abc", b"", b"de"]
    assert not album.full
    assert album.take(b"f") == b""
    assert album.full
    album = Album(max_bytes=5)
    assert [album.take(small) for small in (b"abc", b"def", b"g")] == [b"abc", b"", b""]
