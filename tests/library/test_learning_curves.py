"""How well tags were learned, point by point."""

from __future__ import annotations

import pytest

import tagged
from history import undo_last
from prototag.library import learning_curves
from prototag.library.library import Library
from prototag.library.types import CurvePoint


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


def test_learning_all_writes_a_point_for_every_tag_that_it_learned(learned):
    found = learned.curves()
    assert {*tagged.TAGS} >= {*found} > set()
    for name, points in found.items():
        assert [point.model for point in points] == [1]
        assert agrees(learned, name)
    assert learned.curves("RED") == {"red": found["red"]}


def test_decisions_add_points_and_undoing_takes_them_away(learned):
    before = learned.curves("striped")["striped"]
    learned.accept([one.picture for one in learned.suggest("striped", limit=3)], ["striped"])
    learned.learn(full=False)
    after = learned.curves("striped")["striped"]
    assert after[:1] == before
    assert [point.examples for point in after] == [before[0].examples, before[0].examples + 3]
    assert agrees(learned, "striped")
    undo_last(learned)
    learned.learn(full=False)
    again = learned.curves("striped")["striped"]
    assert [point.examples for point in again] == [before[0].examples]
    assert again[0].recall == pytest.approx(before[0].recall, abs=0.05)


def test_a_new_tag_has_a_curve_from_its_first_sheet_on(learned):
    learned.accept(learned.pictures(limit=4), ["mine"])
    learned.learn(full=False)
    assert [point.examples for point in learned.curves("mine")["mine"]] == [4]


def test_a_renamed_tag_keeps_its_curve_and_a_joined_one_loses_it(learned):
    points = learned.curves("striped")["striped"]
    learned.rename("striped", "stripes")
    assert learned.curves("stripes") == {"stripes": points}
    learned.rename("stripes", "dotted")
    assert "stripes" not in learned.curves()
    assert learned.check() == []


def test_an_older_library_begins_with_what_its_model_says(learned):
    found = learned.curves()
    with learned.store.write() as base:
        base.execute("DROP TABLE curves")
        base.execute("DROP TRIGGER decisions_batches")
        base.execute("DELETE FROM counts WHERE name = 'batches'")
        base.execute("PRAGMA user_version = 1")
    learned.close()
    with Library(learned.path, cache=None) as again:
        known = {name for name in found if view(again, name).learned}
        assert {*again.curves()} == known
        assert all(agrees(again, name) for name in known)


def test_many_points_are_thinned_evenly_by_doublings_and_the_ends_stay():
    points = [CurvePoint(number, 0.5, 0.5, 1, 0.0) for number in range(1, 1025)]
    kept = [point.examples for point in learning_curves._fewer(points)]
    assert kept[0] == 1
    assert kept[-1] == 1024
    assert len(kept) <= learning_curves.MOST
    assert sum(number <= 32 for number in kept) >= len(kept) // 3
