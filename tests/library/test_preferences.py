"""Preferences are stored in the library, and scans, batches and suggestions follow them."""

from __future__ import annotations

import pytest
from PIL import Image

import tagged
from prototag import Library
from prototag.errors import InputError, PrototagError
from prototag.library.preferences import FILE_TYPES
from prototag.metadata.find_files import PICTURES


def test_every_suffix_of_a_picture_has_a_file_type():
    named = [suffix for suffixes in FILE_TYPES.values() for suffix in suffixes]
    assert sorted(named) == sorted(PICTURES)


def test_file_types_that_are_not_wanted_are_not_scanned(tmp_path):
    folder = tmp_path / "photos"
    tagged.collection(folder, 4)
    Image.new("RGB", (60, 40), "green").save(folder / "drawing.png")
    with Library.create(folder, crops="fast", cache=None) as library:
        library.scan()
        assert library.count() == 5
        drawing = library.numbers([folder / "drawing.png"])[0]
        library.accept([drawing], ["mine"])
        library.set_file_types(["JPEG"])
        assert library.preferences().file_types == ["JPEG"]
        library.scan()
        assert library.picture(drawing).missing
        assert library.picture(drawing).tags == ["mine"]
        library.set_file_types([*FILE_TYPES])
        library.scan()
        assert not library.picture(drawing).missing


def test_tags_are_read_from_the_chosen_sources_only(tmp_path):
    folder = tmp_path / "photos"
    tagged.collection(folder, 4)
    with Library.create(folder, crops="fast", cache=None) as library:
        library.scan()
        assert library.status().tagged == 4
        library.set_sources(["xmp", "embedded"])
        assert library.preferences().sources == ["xmp", "embedded"]
        library.scan()
        assert library.status().tagged == 0
        library.set_sources([])
        library.scan()
        assert library.status().tagged == 4


def test_a_higher_precision_preselects_fewer_pictures(learned):
    learned.set_precision(0.95)
    assert learned.review_batch("red").threshold == 1  # the model is not loaded yet
    learned.set_precision(None)
    learned.update_model()
    usual = learned.review_batch("red").threshold
    learned.set_precision(0.95)
    assert learned.preferences().precision == 0.95
    strict = learned.review_batch("red").threshold
    points = learned.annotator().operating_points
    assert strict == min(max(points.threshold_for(0.95), 0.3), 1.0)
    learned.set_precision(None)
    assert learned.preferences().precision is None
    assert learned.review_batch("red").threshold == usual


@pytest.mark.parametrize("value", [0.0, 0.49, 1.0])
def test_a_precision_out_of_range_is_refused(learned, value):
    with pytest.raises(InputError, match=r"give a number from 0\.5 to 0\.99"):
        learned.set_precision(value)


def test_unknown_names_are_refused(learned):
    with pytest.raises(InputError, match="give some of JPEG"):
        learned.set_file_types(["JPG"])
    with pytest.raises(InputError, match="give some of JPEG"):
        learned.set_file_types([])
    with pytest.raises(PrototagError, match="xmp"):
        learned.set_sources(["sidecars"])


def test_a_word_can_be_hidden_before_it_is_a_tag(learned):
    with pytest.raises(PrototagError):
        learned.hide("unwanted")
    learned.hide("unwanted", new=True)
    assert [tag.name for tag in learned.tags() if tag.hidden] == ["unwanted"]
    learned.hide("unwanted", False)
    assert not [tag for tag in learned.tags() if tag.hidden]
