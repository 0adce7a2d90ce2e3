"""How well tags were learned, point by point."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

import tagged
from prototag.library import curves
from prototag.library.library import Library
from prototag.library.results import CurvePoint

TAGGED, EVERY = 45, 60


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """Learned once: the first pictures are tagged, the others are not."""
    folder = tmp_path_factory.mktemp("photos")
    tagged.collection(folder, EVERY, listed=False)
    lines = [
        json.dumps({"file_name": f"{number:03}.jpg", "tags": tagged.tags_of(number)})
        for number in range(TAGGED)
    ]
    (folder / "metadata.jsonl").write_text("\n".join(lines) + "\n")
    with Library.create(folder, crops="fast", cache=None) as library:
        library.scan()
        library.learn()
    return folder / "prototag.library"


@pytest.fixture
def library(made, tmp_path):
    """A copy of its own, whose pictures stay where they are."""
    base, copy = sqlite3.connect(made), sqlite3.connect(tmp_path / "copy.library")
    base.backup(copy)
    copy.execute("UPDATE roots SET path = ?", (str(made.parent).encode(),))
    copy.commit()
    base.close(), copy.close()
    with Library(tmp_path / "copy.library", cache=None) as found:
        yield found


def view(library, name):
    return next(tag for tag in library.tags() if tag.name == name)


def agrees(library, name) -> bool:
    """Whether the last point is what the tag says of itself now."""
    tag, last = view(library, name), library.curves(name)[name][-1]
    return (last.examples, last.precision, last.recall) == (
        tag.own,
        tag.precision,
        tag.recall or 0,
    )


def test_learning_all_writes_a_point_for_every_tag_that_it_learned(library):
    found = library.curves()
    assert {*tagged.TAGS} >= {*found} > set()
    for name, points in found.items():
        assert [point.model for point in points] == [1]
        assert agrees(library, name)
    assert library.curves("RED") == {"red": found["red"]}


def test_decisions_add_points_and_undoing_takes_them_away(library):
    before = library.curves("striped")["striped"]
    library.accept([one.picture for one in library.suggest("striped", limit=3)], ["striped"])
    library.learn(full=False)
    after = library.curves("striped")["striped"]
    assert after[:1] == before
    assert [point.examples for point in after] == [before[0].examples, before[0].examples + 3]
    assert agrees(library, "striped")
    library.undo()
    library.learn(full=False)
    again = library.curves("striped")["striped"]
    assert [point.examples for point in again] == [before[0].examples]
    assert again[0].recall == pytest.approx(before[0].recall, abs=0.05)


def test_a_new_tag_has_a_curve_from_its_first_sheet_on(library):
    library.accept(library.pictures(limit=4), ["mine"])
    library.learn(full=False)
    assert [point.examples for point in library.curves("mine")["mine"]] == [4]


def test_a_renamed_tag_keeps_its_curve_and_a_joined_one_loses_it(library):
    points = library.curves("striped")["striped"]
    library.rename("striped", "stripes")
    assert library.curves("stripes") == {"stripes": points}
    library.rename("stripes", "dotted")
    assert "stripes" not in library.curves()
    assert library.check() == []


def test_an_older_library_begins_with_what_its_model_says(library):
    found = library.curves()
    with library.store.write() as base:
        base.execute("DROP TABLE curves")
        base.execute("PRAGMA user_version = 1")
    library.close()
    with Library(library.path, cache=None) as again:
        known = {name for name in found if view(again, name).learned}
        assert {*again.curves()} == known
        assert all(agrees(again, name) for name in known)


def test_many_points_are_thinned_evenly_by_doublings_and_the_ends_stay():
    points = [CurvePoint(number, 0.5, 0.5, 1, 0.0) for number in range(1, 1025)]
    kept = [point.examples for point in curves._fewer(points)]
    assert kept[0] == 1
    assert kept[-1] == 1024
    assert len(kept) <= curves.MOST
    assert sum(number <= 32 for number in kept) >= len(kept) // 3
