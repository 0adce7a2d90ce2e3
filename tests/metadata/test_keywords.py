"""One picture, several places."""

from __future__ import annotations

from PIL import Image

from prototag.metadata import apply, plan, plan_untag, read_keywords
from prototag.metadata.xmp.merge import merge

from .shapes import GOLDEN


def test_sidecars_and_the_file_are_united(tmp_path):
    image = tmp_path / "a.jpg"
    Image.new("RGB", (8, 8)).save(image, xmp=(GOLDEN / "darktable.xmp").read_bytes())
    (tmp_path / "a.jpg.xmp").write_bytes((GOLDEN / "lightroom.xmp").read_bytes())
    (tmp_path / "a.xmp").write_bytes((GOLDEN / "digikam.xmp").read_bytes())
    assert read_keywords(image).tags == (
        *("nature|coast", "pier"),
        *("Animals|Cat", "garden", "People|Zoë & Max"),
        *("lake", "places|Bavaria"),
    )


def test_keywords_inside_stay_visible_and_a_persons(tmp_path):
    image = tmp_path / "a.jpg"
    Image.new("RGB", (8, 8)).save(image, xmp=(GOLDEN / "darktable.xmp").read_bytes())
    before = read_keywords(image)
    change = apply(plan(image, ["fox", "lake"]))
    keywords = read_keywords(image)
    assert keywords.tags == before.tags == ("lake", "places|Bavaria")
    assert keywords.added == ("fox",)
    assert keywords.copied == ("lake", "places|Bavaria")
    assert b"Bavaria" in change.new
    assert b"Bavaria" not in plan(image, ["fox"], inside=False).new
    assert apply(plan_untag(image)).new is None


def test_a_name_inside_stays_a_persons_beside_a_path_of_ours(tmp_path):
    image = tmp_path / "a.jpg"
    xmp = merge(None, ["owl"]).data.replace(b"prototag:ns", b"other:ns")
    Image.new("RGB", (8, 8)).save(image, xmp=xmp)
    apply(plan(image, ["animal|owl"]))
    assert read_keywords(image).tags == ("owl",)
    (tmp_path / "a.jpg.xmp").write_bytes((GOLDEN / "lightroom.xmp").read_bytes())
    apply(plan(image, ["animal|owl"]))  # into a list that was there
    assert read_keywords(image).tags == ("nature|coast", "pier", "owl")
    assert not plan(image, ["animal|owl"])
    assert apply(plan(image, [])).new == (GOLDEN / "lightroom.xmp").read_bytes()


def test_our_tags_that_a_program_copied_into_the_file_are_still_ours(tmp_path):
    image = tmp_path / "a.jpg"
    Image.new("RGB", (8, 8)).save(image)
    apply(plan(image, ["fox", "animal|owl"]))
    unmarked = merge(None, ["fox", "owl", "home"]).data.replace(b"prototag:ns", b"other:ns")
    Image.new("RGB", (8, 8)).save(image, xmp=unmarked)
    assert read_keywords(image).tags == ("home",)
