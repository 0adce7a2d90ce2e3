"""The regions are the paper's, and pooling averages inside groups only.

Small copies: their size, what they leave behind, and where a row of them ends.
"""

import io

import numpy as np
import pytest
from PIL import Image, ImageCms

from prototag.images.crops import CROPS, FIVE, SIDE, TEN, Album, named, thumbnail
from prototag.images.decode import open_image

from ..pictures import encoded, scene


def test_five_are_the_centre_and_the_corners_of_the_paper() -> None:
    centre, *corners = FIVE
    area = (centre.right - centre.left) * (centre.bottom - centre.top)
    assert area == pytest.approx(2 / 3)
    assert centre.left + centre.right == pytest.approx(1)
    assert centre.top + centre.bottom == pytest.approx(1)
    assert centre.right - centre.left == pytest.approx(centre.bottom - centre.top)
    for corner in corners:
        assert corner.right - corner.left == pytest.approx(2 / 3)
        assert corner.bottom - corner.top == pytest.approx(1 / 3)
    places = {(corner.left == 0, corner.top == 0) for corner in corners}
    assert len(places) == 4
    assert all(0 in (c.left, 1 - c.right) and 0 in (c.top, 1 - c.bottom) for c in corners)


def test_cut_is_crop_then_resize() -> None:
    """On a picture whose thirds are whole pixels, a region is what cropping first would give."""
    image = scene(96, 66)
    pixels = named("five").cut(image, (32, 32), "bilinear")
    for row, region in zip(pixels[1:], FIVE[1:], strict=True):
        box = tuple(round(f * side) for f, side in zip(region[:4], (96, 66, 96, 66), strict=True))
        cropped = image.crop(box).resize((32, 32), Image.Resampling.BILINEAR)
        inner = slice(2, -2)  # at the rim the filter may look across the border of the region
        gap = np.abs(row[inner, inner].astype(int) - np.asarray(cropped, int)[inner, inner])
        assert gap.max() <= 1


def test_whole_is_the_picture_and_ten_has_mirrors() -> None:
    image = scene(90, 60)
    whole = named("whole").cut(image, (30, 20), "bicubic")
    assert np.array_equal(whole[0], image.resize((30, 20), Image.Resampling.BICUBIC))
    ten = named("ten").cut(image, (30, 20), "bilinear")
    assert np.array_equal(ten[:5, :, ::-1], ten[5:])
    assert len(TEN) == 10


def test_pool_averages_in_groups_and_joins_across() -> None:
    vectors = np.random.default_rng(0).random((3, 6, 4), np.float32)
    pooled = named("whole+five").pool(vectors)
    assert pooled.shape == (3, 8)
    assert np.array_equal(pooled[:, :4], vectors[:, 0])
    np.testing.assert_allclose(pooled[:, 4:], vectors[:, 1:].mean(axis=1))
    assert named("five").pool(vectors[:, 1:]).shape == (3, 4)


def test_size_needed_leaves_no_region_enlarged() -> None:
    assert named("whole").at_least(224, 200) == (224, 200)
    assert named("five").at_least(224, 224) == (336, 672)


def test_unknown_crops_are_named() -> None:
    with pytest.raises(ValueError, match="crops='seven' is unknown: 'whole', 'five', 'ten'"):
        named("seven")
    assert list(CROPS) == ["whole", "five", "ten", "whole+five"]


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
