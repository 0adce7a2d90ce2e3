"""Where tags of a picture are written: sidecar, file or neither, and what becomes of each."""

from __future__ import annotations

import pytest
from PIL import Image

from prototag.metadata import read_keywords
from prototag.metadata.write_policy import (
    Outcome,
    WritePolicy,
    apply_change,
    plan_accepted,
    plan_removal,
)


@pytest.fixture
def jpeg(tmp_path):
    Image.new("RGB", (8, 8)).save(tmp_path / "photo.jpg")
    return tmp_path / "photo.jpg"


@pytest.fixture
def png(tmp_path):
    Image.new("RGB", (8, 8)).save(tmp_path / "drawing.png")
    return tmp_path / "drawing.png"


def written(policy, image, tags):
    return policy.apply(policy.plan(image, tags))


def test_sidecars_are_written_for_every_format(jpeg, png):
    before = [path.read_bytes() for path in (jpeg, png)]
    for image in (jpeg, png):
        write = written(WritePolicy(), image, ["sea"])
        assert (write.outcome, write.embedded) == (Outcome.CHANGED, False)
        assert image.with_name(f"{image.name}.xmp").exists()
    assert [path.read_bytes() for path in (jpeg, png)] == before


def test_only_jpeg_files_are_embedded_into(jpeg, png):
    policy = WritePolicy("file")
    write = written(policy, jpeg, ["sea"])
    assert (write.outcome, write.embedded) == (Outcome.CHANGED, True)
    assert written(policy, png, ["sea"]).outcome is Outcome.NOT_JPEG
    assert sorted(path.name for path in jpeg.parent.iterdir()) == ["drawing.png", "photo.jpg"]


def test_other_pictures_get_sidecars_where_both_are_asked_for(jpeg, png):
    policy = WritePolicy("file or sidecar")
    assert written(policy, jpeg, ["sea"]).embedded
    assert not written(policy, png, ["sea"]).embedded
    assert sorted(p.suffix for p in jpeg.parent.iterdir()) == [".jpg", ".png", ".xmp"]


def test_a_plan_writes_nothing(jpeg):
    before = jpeg.read_bytes()
    for place in ("sidecar", "file"):
        assert WritePolicy(place).plan(jpeg, ["sea"]).outcome is Outcome.CHANGED
    assert jpeg.read_bytes() == before
    assert [*jpeg.parent.iterdir()] == [jpeg]


@pytest.mark.parametrize("place", ["sidecar", "file"])
def test_unchanged_sidecars_and_pictures_without_tags_are_counted_separately(jpeg, place):
    policy = WritePolicy(place)
    assert written(policy, jpeg, []).outcome is Outcome.NO_TAGS
    assert written(policy, jpeg, ["sea"]).outcome is Outcome.CHANGED
    assert written(policy, jpeg, ["sea"]).outcome is Outcome.UNCHANGED
    assert written(policy, jpeg, []).outcome is Outcome.CHANGED  # of the earlier run


def test_a_failure_is_an_outcome_with_its_reason(jpeg):
    jpeg.with_name("photo.jpg.xmp").write_text("no XML")
    write = written(WritePolicy(), jpeg, ["sea"])
    assert write.outcome is Outcome.FAILED
    assert "photo.jpg.xmp" in write.problem


def test_accepted_tags_are_the_persons_own_and_stay_beside_the_picture(jpeg):
    write = plan_accepted(jpeg, ["sea"], removed=[])
    assert apply_change(write.change).outcome is Outcome.CHANGED
    assert [write.change.removed for write in plan_removal(jpeg, None, keep=False)] == [()]
    assert [*read_keywords(jpeg).tags] == ["sea"]


def test_removal_finds_sidecar_and_file(jpeg):
    for place in ("sidecar", "file"):
        assert written(WritePolicy(place), jpeg, [f"in the {place}"]).outcome is Outcome.CHANGED
    writes = plan_removal(jpeg, None, keep=False)
    assert [write.embedded for write in writes] == [False, True]
    for write in writes:
        assert apply_change(write.change).outcome is Outcome.CHANGED
    assert plan_removal(jpeg, None, keep=False) == []
