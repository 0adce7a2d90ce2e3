"""Folders and lists of tagged pictures, and one picture with tags in several places."""

from __future__ import annotations

import pytest
from PIL import Image

from prototag.errors import InputError, MetadataError
from prototag.metadata import apply, collect, plan, plan_untag, read_keywords
from prototag.metadata.xmp.packet_editor import merge

from .shapes import GOLDEN, found, picture


def test_auto_takes_every_kind_but_folders(mixed):
    seen = []
    result = collect(mixed, progress=seen.append)
    assert found(result, mixed) == {
        "a.jpg": ["nature|coast", "pier"],
        "b.JPG": ["lake", "places|Bavaria"],
        "c.jpg": ["Animals|Cat", "garden", "People|Zoë & Max", "one", "two, too"],
        "sub/d.png": ["one", "two"],
        "sub/e.webp": ["three"],
        "sub/untagged.gif": [],
    }
    assert list(found(result, mixed)) == sorted(found(result, mixed))
    assert result.counts == {"xmp": 2, "embedded": 1, "listing": 2, "text": 2}
    assert result.problems == []
    assert result.notes[0] == (
        "6 pictures, 5 with tags: 2 from XMP sidecars, 1 from keywords inside files, "
        "2 from a list, 2 from text files."
    )
    assert [event[:3] for event in seen] == [("Reading tags", i, 6) for i in range(1, 7)]
    assert len(result.tagged().images) == result.n_tagged == 5


@pytest.mark.parametrize(
    ("kind", "tagged"),
    [
        ("xmp", {"a.jpg", "b.JPG"}),
        ("embedded", {"c.jpg"}),
        ("listing", {"sub/d.png", "sub/e.webp"}),
        ("text", {"c.jpg", "sub/d.png"}),
        ("folders", {"sub/d.png", "sub/e.webp", "sub/untagged.gif"}),
        (["xmp", "text"], {"a.jpg", "b.JPG", "c.jpg", "sub/d.png"}),
    ],
)
def test_kinds_can_be_chosen(mixed, kind, tagged):
    result = collect(mixed, kind=kind)
    assert {name for name, tags in found(result, mixed).items() if tags} == tagged


def test_folders_are_tags_where_nothing_else_is(tmp_path):
    picture(tmp_path / "animal" / "big cat" / "1.jpg")
    picture(tmp_path / "2.jpg")
    result = collect(tmp_path)
    assert found(result, tmp_path) == {"2.jpg": [], "animal/big cat/1.jpg": ["animal", "big cat"]}
    assert result.counts == {"folders": 1}
    assert "folder names are used as tags" in " ".join(result.notes)
    (tmp_path / "2.txt").write_text("cat")
    assert found(collect(tmp_path), tmp_path)["animal/big cat/1.jpg"] == []


def test_tags_that_prototag_added_are_not_learnt_from(mixed):
    before = collect(mixed)
    for image in before.images:
        apply(plan(image, ["fox", "animal|owl", "pier", "garden"]))
    after = collect(mixed)
    assert (after.images, after.tags, after.counts) == (before.images, before.tags, before.counts)


def test_a_column_that_is_asked_for_must_be_there(tmp_path):
    picture(tmp_path / "cat" / "1.png")
    (tmp_path / "metadata.csv").write_text("file_name,tags\ncat/1.png,fox\n")
    assert collect(tmp_path).tags == [["fox"]]
    with pytest.raises(MetadataError, match="'species' is missing among 'file_name', 'tags'"):
        collect(tmp_path, column="species")


def test_many_tags_with_paths_take_one_line(tmp_path):
    for name in ("1", "2"):
        picture(tmp_path / f"{name}.png")
        words = [f"{'top|' if name == '1' else ''}tag {number}" for number in range(36)]
        (tmp_path / f"{name}.txt").write_text("\n".join(words))
    notes = collect(tmp_path).notes
    assert len(notes) == 2
    assert notes[1].count(" as ") == 3
    assert notes[1].endswith(" and 33 more.")


def test_several_sources_are_one_collection(tmp_path):
    for name in ("a/1.png", "b/2.png", "b/3.png"):
        picture(tmp_path / name)
    (tmp_path / "a" / "1.txt").write_text("cat")
    (tmp_path / "list.csv").write_text("file_name,tags\nb/2.png,dog\na/1.png,tame\n")
    result = collect([tmp_path / "a", tmp_path / "b", tmp_path / "list.csv"])
    assert found(result, tmp_path) == {
        "a/1.png": ["tame", "cat"],
        "b/2.png": ["dog"],
        "b/3.png": [],
    }
    twice = collect([tmp_path / "a", tmp_path / "a", f"{tmp_path}/b/../a"])
    assert [path.name for path in twice.images] == ["1.png"]
    with pytest.raises(MetadataError, match="gone does not exist"):
        collect([tmp_path / "a", tmp_path / "gone"])


def test_a_column_needs_a_list(tmp_path):
    picture(tmp_path / "a" / "1.png")
    (tmp_path / "a" / "1.txt").write_text("cat")
    with pytest.raises(MetadataError, match="'species' was asked for, but there is no list"):
        collect(tmp_path, column="species")
    (tmp_path / "list.csv").write_text("file_name,species\na/1.png,lynx\n")
    assert collect([tmp_path / "a", tmp_path / "list.csv"], column="species").tags == [
        ["lynx", "cat"]
    ]


def test_tags_can_be_ignored_or_chosen(tmp_path):
    rows = ("Natur|Bäume, sky", "Sky, todo", "todo", "")
    for number, tags in enumerate(rows):
        picture(tmp_path / f"{number}.png")
        (tmp_path / f"{number}.txt").write_text(tags)
    whole = collect(tmp_path)
    assert whole.restricted(ignore=["todo"]).tags == [["Natur|Bäume", "sky"], ["Sky"], [], []]
    assert whole.restricted(only=["baume, SKY"]).tags == [["Natur|Bäume", "sky"], ["Sky"], [], []]
    assert whole.restricted(only=["sky"], ignore=["todo"]).tags == [["sky"], ["Sky"], [], []]
    assert whole.restricted() == whole
    with pytest.raises(InputError, match=r"the pictures have no tag 'tudo': did you mean 'todo'\?"):
        whole.restricted(ignore=["tudo"])


def test_hierarchies_are_settled_over_the_collection(tmp_path):
    for name, tags in {"1": "animal|cat", "2": "Cat", "3": "a|x", "4": "b|x", "5": "x"}.items():
        picture(tmp_path / f"{name}.png")
        (tmp_path / f"{name}.txt").write_text(tags)
    result = collect(tmp_path)
    assert result.tags == [["animal|cat"], ["animal|cat"], ["a|x"], ["b|x"], ["x"]]
    assert "Taken for the tag with its path: 'Cat' as 'animal|cat'." in result.notes
    assert "Left without a path, because there are several: 'x' ('a|x' or 'b|x')." in result.notes
    assert collect(tmp_path, hierarchy="leaf").tags == [["cat"], ["Cat"], ["x"], ["x"], ["x"]]


def test_unreadable_files_are_reported_and_skipped(tmp_path):
    picture(tmp_path / "a.jpg")
    (tmp_path / "a.jpg.xmp").write_bytes(b"<broken")
    (tmp_path / "a.txt").write_bytes(b"\xff\xfa")
    picture(tmp_path / "b.jpg")
    (tmp_path / "b.txt").write_text("0 0.5 0.5 0.1 0.2\n12 0.25 .5 0.1 0.2")
    picture(tmp_path / "c.jpg")
    (tmp_path / "c.txt").write_text("cat")
    (tmp_path / "metadata.csv").write_text("file_name,tags\ngone.jpg,x\n../c.jpg,y\nc.jpg,z\n")
    (tmp_path / "metadata.jsonl").write_text('{"file_name": "c.jpg", "text": "a caption"}')
    result = collect(tmp_path)
    assert result.tags == [[], [], ["z", "cat"]]
    problems = "\n".join(result.problems)
    for part in (
        "a.jpg.xmp is not well-formed XML",
        "a.txt is not UTF-8 text",
        "b.txt contains numbers",
        "line 2: gone.jpg does not exist",
        "line 3: ../c.jpg is outside its folder",
        "'tags' is missing among 'file_name', 'text', and 'text' is 'a caption'",
        "holds 0 or 1. It was skipped.",
    ):
        assert part in problems
    assert len(result.problems) == 6
    with pytest.raises(MetadataError, match="'tags' is missing"):
        collect(tmp_path, kind="listing")


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


def test_what_a_person_left_standing_is_accepted(tmp_path):
    """Touched: ours that stand are learned, removed ones are not. Untouched: nothing is."""
    for name in ("touched", "removed", "alone"):
        picture(tmp_path / f"{name}.jpg")
        apply(plan(tmp_path / f"{name}.jpg", ["sky", "sea"]))
    item = "<rdf:li>{}</rdf:li>"
    changes = {
        "touched": (item.format("sky"), item.format("sky") + item.format("mine")),
        "removed": (item.format("sea"), ""),
    }
    for name, (old, new) in changes.items():
        path = tmp_path / f"{name}.jpg.xmp"
        path.write_text(path.read_text().replace(old, new, 1))
    result = collect(tmp_path)
    tags = {path.stem: sorted(row) for path, row in zip(result.images, result.tags, strict=True)}
    assert tags == {"touched": ["mine", "sea", "sky"], "removed": ["sky"], "alone": []}
    ruled_out = {p.stem: gone for p, gone in zip(result.images, result.ruled_out, strict=True)}
    assert ruled_out == {"touched": [], "removed": ["sea"], "alone": None}
    assert result.tagged().ruled_out == [ruled_out["removed"], ruled_out["touched"]]
