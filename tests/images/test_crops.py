"""The regions are the paper's, and pooling averages inside groups only.

Small copies: their size, what they leave behind, and where a row of them ends.
"""

import io

import numpy as np
import pytest
from PIL import Image, ImageCms

from prototag.errors import InputError
from prototag.images.crops import (
    CROPS,
    FIVE,
    LARGE_SIZES,
    MAX_ASPECT_RATIO,
    TEN,
    THUMBNAIL_SIDE,
    WHOLE,
    InputSpec,
    Plan,
    ThumbnailBudget,
    View,
    crops_by_name,
    thumbnail,
)
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
    pixels = crops_by_name("five").view(image.size, (32, 32)).cut(image, "bilinear")
    for row, region in zip(pixels[1:], FIVE[1:], strict=True):
        box = tuple(round(f * side) for f, side in zip(region[:4], (96, 66, 96, 66), strict=True))
        cropped = image.crop(box).resize((32, 32), Image.Resampling.BILINEAR)
        inner = slice(2, -2)  # at the rim the filter may look across the border of the region
        gap = np.abs(row[inner, inner].astype(int) - np.asarray(cropped, int)[inner, inner])
        assert gap.max() <= 1


def test_whole_is_the_picture_and_ten_has_mirrors() -> None:
    image = scene(90, 60)
    whole = crops_by_name("fast").view(image.size, (30, 20)).cut(image, "bicubic")
    assert np.array_equal(whole[0], image.resize((30, 20), Image.Resampling.BICUBIC))
    ten = crops_by_name("ten").view(image.size, (30, 20)).cut(image, "bilinear")
    assert np.array_equal(ten[:5, :, ::-1], ten[5:])
    assert len(TEN) == 10


def test_pool_averages_in_groups_and_joins_across() -> None:
    vectors = np.random.default_rng(0).random((6, 4), np.float32)
    pooled = crops_by_name("paper").view((1, 1), (8, 8)).pool(vectors)
    assert pooled.shape == (2, 4)
    assert np.array_equal(pooled[0], vectors[0])
    np.testing.assert_allclose(pooled[1], vectors[1:].mean(axis=0))
    assert crops_by_name("five").view((1, 1), (8, 8)).pool(vectors[1:]).shape == (1, 4)


def test_size_needed_leaves_no_region_enlarged() -> None:
    assert crops_by_name("fast").view((1, 1), (224, 200)).at_least() == (224, 200)
    assert crops_by_name("five").view((1, 1), (224, 224)).at_least() == (336, 672)


@pytest.mark.parametrize(
    ("picture", "shape"),
    [
        ((480, 360), (448, 336)),
        ((360, 480), (336, 448)),
        ((4000, 3000), (448, 336)),
        ((480, 320), (448, 336)),  # 3:2
        ((320, 480), (336, 448)),
        ((1000, 1000), (384, 384)),
        ((1920, 1080), (512, 288)),
        ((1080, 1920), (288, 512)),
        ((2200, 1000), (576, 256)),
        ((1, 1), (384, 384)),
    ],
)
def test_a_large_pass_keeps_the_shape(picture, shape) -> None:
    view = crops_by_name("large").view(picture, (224, 224), LARGE_SIZES)
    assert view == View(shape, ((WHOLE,),))
    assert view.at_least() == shape


def test_shapes_of_a_large_pass_have_about_the_same_area() -> None:
    areas = [width * height for width, height in LARGE_SIZES]
    assert max(areas) / min(areas) < 1.03
    assert {(height, width) for width, height in LARGE_SIZES} == {*LARGE_SIZES}


@pytest.mark.parametrize("ratio", [2.61, 3.0, 5.19, 5.21, 7.9, 30.0, 10_000.0])
@pytest.mark.parametrize("upright", [False, True])
def test_panoramas_are_cut_into_parts_of_bearable_length(ratio: float, upright: bool) -> None:
    picture = (1000, round(1000 * ratio)) if upright else (round(1000 * ratio), 1000)
    view = crops_by_name("large").view(picture, (224, 224), LARGE_SIZES)
    (parts,) = view.groups
    assert len(parts) == (2 if ratio <= 5.2 else 3)
    for group in parts:
        width = (group.right - group.left) * picture[0]
        height = (group.bottom - group.top) * picture[1]
        assert 1 < (height / width if upright else width / height) <= MAX_ASPECT_RATIO + 1e-9
        assert width / height == pytest.approx(view.size[0] / view.size[1], rel=0.16)
    along = [(group.top, group.bottom) if upright else (group.left, group.right) for group in parts]
    assert along[0][0] == 0
    assert along[-1][1] == pytest.approx(1)
    shares = sum(end - start for start, end in along)
    assert shares == pytest.approx(1) or ratio > 3 * MAX_ASPECT_RATIO


def test_a_network_of_one_size_sees_the_whole_at_that_size() -> None:
    for picture in ((480, 360), (9000, 100)):
        assert crops_by_name("large").view(picture, (224, 224)) == View((224, 224), ((WHOLE,),))


GIVEN = {"last": (5, "a"), "inner": (3, "a")}
INPUT_SPEC = InputSpec((8, 8), (), "bilinear")


def test_blocks_lie_side_by_side_in_the_order_asked_for() -> None:
    plan = Plan.build(
        crops_by_name("paper"), INPUT_SPEC, GIVEN, ["five.inner", "last", "five.last"]
    )
    assert [(group.name, group.width) for group in plan.groups] == [
        ("five.inner", 3),
        ("last", 5),
        ("five.last", 5),
    ]
    assert plan.outputs == ["inner", "last"]
    groups = np.arange(16.0).reshape(2, 8)  # whole and five: inner, last of each
    vector = plan.join(groups)
    assert vector.tolist() == [*groups[1, :3], *groups[0, 3:], *groups[1, 3:]]
    split = {group.name: columns.tolist() for group, columns in plan.split(vector[None])}
    assert split["last"] == [[3, 4, 5, 6, 7]]


def test_only_the_regions_that_a_block_needs_are_shown() -> None:
    plan = Plan.build(crops_by_name("paper"), INPUT_SPEC, GIVEN, ["five.last"])
    assert plan.view((10, 10)).groups == (FIVE,)
    assert plan.join(np.arange(5.0)[None]).tolist() == [0, 1, 2, 3, 4]


def test_crops_have_default_feature_groups() -> None:
    usual = {
        name: [group.name for group in Plan.build(crops_by_name(name), INPUT_SPEC, GIVEN).groups]
        for name in CROPS
    }
    assert usual == {
        "large": ["last", "inner"],
        "fast": ["last"],
        "paper": ["last", "five.last"],
        "five": ["last"],
        "ten": ["last"],
    }


def test_a_block_has_a_recipe_of_its_own() -> None:
    plans = [
        Plan.build(crops_by_name(name), INPUT_SPEC, GIVEN, ["last", "inner"]) for name in CROPS
    ]
    plans += [Plan.build(crops_by_name("large"), INPUT_SPEC._replace(shapes=LARGE_SIZES), GIVEN)]
    plans += [Plan.build(crops_by_name("large"), INPUT_SPEC, {**GIVEN, "last": (5, "b")}, ["last"])]
    recipes = [group.recipe for plan in plans for group in plan.groups]
    assert len({*recipes}) == len(recipes) == 13
    # The same computation is the same recipe, whatever stands beside it.
    alone = Plan.build(crops_by_name("paper"), INPUT_SPEC, GIVEN, ["five.last"])
    assert (
        alone.groups[0].recipe
        == Plan.build(crops_by_name("paper"), INPUT_SPEC, GIVEN).groups[1].recipe
    )
    assert alone.at_least((9, 9)) == Plan.build(crops_by_name("paper"), INPUT_SPEC, GIVEN).at_least(
        (9, 9)
    )


@pytest.mark.parametrize("wanted", [["first"], [], ["last", "last"], "last"])
def test_blocks_that_there_are_not_are_refused(wanted) -> None:
    with pytest.raises(InputError, match=r"selected_groups=.*: give some of 'last', 'inner'"):
        Plan.build(crops_by_name("large"), INPUT_SPEC, GIVEN, wanted)


def test_unknown_crops_are_named() -> None:
    with pytest.raises(ValueError, match="'seven' is unknown: give one of 'large', 'fast'"):
        crops_by_name("seven")
    assert crops_by_name("whole") is crops_by_name("fast")
    assert crops_by_name("whole+five") is crops_by_name("paper")


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ((400, 300), (THUMBNAIL_SIDE, THUMBNAIL_SIDE * 3 // 4)),
        ((300, 400), (THUMBNAIL_SIDE * 3 // 4, THUMBNAIL_SIDE)),
        ((40, 30), (40, 30)),  # never enlarged
        ((2000, 3), (THUMBNAIL_SIDE, 1)),
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
    budget = ThumbnailBudget(max_bytes=5)
    assert [budget.accept(small) for small in (b"abc", b"", b"de")] == [b"abc", b"", b"de"]
    assert not budget.is_full
    assert budget.accept(b"f") == b""
    assert budget.is_full
    budget = ThumbnailBudget(max_bytes=5)
    assert [budget.accept(small) for small in (b"abc", b"def", b"g")] == [b"abc", b"", b""]
