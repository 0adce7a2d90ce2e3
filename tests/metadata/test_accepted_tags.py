"""Tags that a person accepted elsewhere: theirs in the sidecar, and taken back exactly."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from prototag import metadata
from prototag.metadata import apply, plan, plan_own, plan_untag, read_keywords, removed_tags


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    path = tmp_path / "photo.jpg"
    Image.new("RGB", (8, 8)).save(path)
    return path


def sidecar(photo: Path) -> Path:
    return photo.with_name("photo.jpg.xmp")


def written(photo, tags, removed=()):
    return apply(plan_own(photo, tags, removed=removed))


def test_they_are_the_persons(photo):
    change = written(photo, ["animal|cat", "sofa"])
    assert change.added == ("animal|cat", "sofa")
    found = read_keywords(photo)
    assert (found.tags, found.added, found.touched) == (("animal|cat", "sofa"), (), False)
    text = sidecar(photo).read_text()
    assert text.count("<rdf:li>animal/cat<") == text.count("<rdf:li>animal|cat<") == 1
    assert metadata.collect(photo.parent).tags == [["animal|cat", "sofa"]]
    assert metadata.collect(photo.parent).ruled_out == [None]


def test_the_second_time_nothing_changes(photo):
    written(photo, ["animal|cat", "sofa"])
    assert not plan_own(photo, ["sofa", "animal|cat"])
    assert not plan_own(photo, ["SOFA"])
    apply(plan(photo, ["lamp"]))
    assert not plan_own(photo, ["sofa"])


def test_what_goes_leaves_no_trace(photo):
    written(photo, ["cat", "sofa"])
    change = written(photo, ["cat"], removed=["sofa"])
    assert change.removed == ("sofa",)
    assert read_keywords(photo).tags == ("cat",)
    written(photo, [], removed=["cat"])
    assert not sidecar(photo).exists()


def test_beside_what_the_person_has(photo):
    golden = Path(__file__).parent / "golden"
    for name in sorted(golden.glob("*.xmp")):
        sidecar(photo).write_bytes(name.read_bytes())
        try:
            before = read_keywords(photo)
        except metadata.collect_tags.MetadataError:
            continue
        written(photo, ["zebra", "animal|gnu"])
        after = read_keywords(photo)
        assert {*before.tags, "zebra", "animal|gnu"} == {*after.tags}, name
        assert (after.added, after.rejected) == (before.added, before.rejected)
        assert after.touched == before.touched
        assert not plan_own(photo, ["zebra", "animal|gnu"]), name
        written(photo, [], removed=["zebra", "animal|gnu"])
        assert {*read_keywords(photo).tags} == {*before.tags}, name


def test_other_marks_stay_and_nothing_counts_as_touched(photo):
    apply(plan(photo, ["lamp", "cat"]))
    written(photo, ["cat", "sofa"])
    found = read_keywords(photo)
    assert ({*found.tags}, found.added, found.touched) == ({"cat", "sofa"}, ("lamp",), False)
    apply(plan(photo, ["lamp"]))  # a later run takes back none of them
    assert {*read_keywords(photo).tags} == {"cat", "sofa"}
    apply(plan_untag(photo))
    assert {*read_keywords(photo).tags} == {"cat", "sofa"}


def test_what_was_refused_once_may_be_accepted(photo):
    apply(plan(photo, ["cat", "lamp"]))
    text = sidecar(photo).read_text()
    sidecar(photo).write_text(text.replace("<rdf:li>cat</rdf:li>", "", 1))
    assert read_keywords(photo).rejected == ("cat",)
    written(photo, ["cat"])
    found = read_keywords(photo)
    assert (found.tags, found.rejected) == (("cat",), ())
    assert not plan_own(photo, ["cat"])


def test_a_tag_that_shares_an_entry_stays(photo):
    written(photo, ["toy|cat", "animal|cat"])
    written(photo, ["toy|cat"], removed=["animal|cat"])
    assert read_keywords(photo).tags == ("toy|cat",)
    assert "<rdf:li>cat</rdf:li>" in sidecar(photo).read_text()


@pytest.mark.parametrize("entry", ["cat</", "animal/cat</", "animal|cat</"])
def test_gone_from_any_list_is_taken_away(photo, entry):
    tags = ["animal|cat", "sofa"]
    written(photo, tags)
    assert removed_tags(photo, tags) == []
    text = sidecar(photo).read_text()
    assert f"<rdf:li>{entry}rdf:li>" in text
    sidecar(photo).write_text(text.replace(f"<rdf:li>{entry}rdf:li>", ""))
    assert removed_tags(photo, tags) == ["animal|cat"]


def test_a_dropped_list_and_a_deleted_sidecar_reject_no_tag(photo):
    import re

    tags = ["cat", "sofa"]
    written(photo, tags)
    text = sidecar(photo).read_text()
    cut = re.sub(r"<digiKam:TagsList.*?</digiKam:TagsList>", "", text, flags=re.S)
    assert cut != text
    sidecar(photo).write_text(cut)
    assert removed_tags(photo, tags) == []
    sidecar(photo).unlink()
    assert removed_tags(photo, tags) == []
