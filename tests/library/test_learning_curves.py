"""How well tags were learned, point by point."""

from __future__ import annotations

import pytest

import tagged
from history import undo_last
from prototag.library import learning_curves, schema
from prototag.library.library import Library
from prototag.library.types import CurvePoint


def view(library, name):
    return next(tag for tag in library.tags() if tag.name == name)


def agrees(library, name) -> bool:
    """Whether the last point is what the tag says of itself now."""
    tag, last = view(library, name), library.learning_curves(name)[name][-1]
    return (last.examples, last.precision, last.recall) == (
        tag.pictures,
        tag.precision,
        tag.recall or 0,
    )


def test_learning_all_writes_a_point_for_every_tag_that_it_learned(learned):
    found = learned.learning_curves()
    assert {*tagged.TAGS} >= {*found} > set()
    for name, points in found.items():
        assert [point.model for point in points] == [1]
        assert agrees(learned, name)
    assert learned.learning_curves("RED") == {"red": found["red"]}


def test_decisions_add_points_and_undoing_takes_them_away(learned):
    before = learned.learning_curves("striped")["striped"]
    learned.accept([one.picture for one in learned.suggest("striped", limit=3)], ["striped"])
    learned.learn(full=False)
    after = learned.learning_curves("striped")["striped"]
    assert after[:1] == before
    assert [point.examples for point in after] == [before[0].examples, before[0].examples + 3]
    undo_last(learned)
    learned.learn(full=False)
    again = learned.learning_curves("striped")["striped"]
    assert [point.examples for point in again] == [before[0].examples]
    assert again[0].recall == pytest.approx(before[0].recall, abs=0.05)


def test_hard_pictures_that_join_do_not_lower_the_curve(learned):
    """All points are measured on the pictures that were labeled at the first one."""
    before = learned.learning_curves("striped")["striped"][0]
    assert before.examples >= learning_curves.MIN_TEST_PICTURES
    assert before.precision == before.recall == 1  # the test's pictures are easy
    plain = [
        number
        for number in learned.pictures(state="untagged", limit=60)
        if "striped" not in tagged.tags_of(int(learned.picture(number).files[0].stem))
    ]
    learned.accept(plain[:6], ["striped"])  # which nobody can see
    learned.learn(full=False)
    last = learned.learning_curves("striped")["striped"][-1]
    assert last.examples == before.examples + 6
    assert view(learned, "striped").recall < 0.95  # of all labeled pictures
    assert last.recall > view(learned, "striped").recall
    assert last.recall >= 0.95
    learned.learn(full=True)
    again = learned.learning_curves("striped")["striped"][-1]
    assert again.recall > view(learned, "striped").recall


def test_a_new_tag_has_a_curve_from_its_first_review_batch_on(learned):
    learned.accept(learned.pictures(limit=4), ["mine"])
    learned.learn(full=False)
    assert [point.examples for point in learned.learning_curves("mine")["mine"]] == [4]


def test_a_renamed_tag_keeps_its_curve_and_a_joined_one_loses_it(learned):
    points = learned.learning_curves("striped")["striped"]
    learned.rename("striped", "stripes")
    assert learned.learning_curves("stripes") == {"stripes": points}
    learned.rename("stripes", "dotted")
    assert "stripes" not in learned.learning_curves()
    assert learned.check() == []


def test_an_older_library_starts_with_the_figures_of_its_model(tmp_path):
    path = tmp_path / "old.library"
    path.touch()
    conn = schema.connect(path, new=True, migrations=schema.MIGRATIONS[:1])
    conn.execute("INSERT INTO pictures (id, digest, added) VALUES (1, 'a', 0), (2, 'b', 0)")
    conn.execute(
        "INSERT INTO tags (id, name, key, learned, precision, recall) "
        "VALUES (1, 'cat', 'cat', 1, 0.8, 0.6), (2, 'dog', 'dog', 0, NULL, NULL)"
    )
    conn.execute("INSERT INTO labels VALUES (1, 1, 1, 'found', 1), (2, 1, 1, 'found', 1)")
    conn.execute("INSERT INTO labels VALUES (1, 2, 1, 'found', 1)")
    conn.execute("INSERT INTO models VALUES (1, 5.0, 2, 2, 0.5, 0, 1, NULL)")
    conn.close()
    with Library(path, cache=None) as library:
        assert library.learning_curves() == {"cat": [CurvePoint(2, 0.8, 0.6, 1, 5.0)]}


def test_many_points_are_thinned_evenly_by_doublings_and_the_ends_stay():
    points = [CurvePoint(number, 0.5, 0.5, 1, 0.0) for number in range(1, 1025)]
    kept = [point.examples for point in learning_curves._thinned(points)]
    assert kept[0] == 1
    assert kept[-1] == 1024
    assert len(kept) <= learning_curves.MAX_POINTS
    assert sum(number <= 32 for number in kept) >= len(kept) // 3
