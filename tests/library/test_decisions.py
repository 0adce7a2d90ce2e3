"""Decisions: what each means, and that undoing brings back exactly what was."""

from __future__ import annotations

import random

import pytest

from prototag.errors import InputError
from prototag.library.results import ACCEPTED, CLEARED, COMPLETE, INCOMPLETE, REJECTED

ALL = (ACCEPTED, REJECTED, CLEARED)


def find_tag(library, name):
    return next((tag for tag in library.tags() if tag.name == name), None)


def suggest(library, picture, tag, probability=0.5, model=1):
    with library.store.write() as base:
        base.execute("INSERT OR IGNORE INTO tags (name, key) VALUES (?1, ?1)", (tag,))
        base.execute(
            "INSERT INTO suggestions SELECT id, ?, ?, ?, -1 FROM tags WHERE name = ?",
            (picture, probability, model, tag),
        )


def test_accepted_is_the_persons_own(planted):
    assert planted.accept([1, 2], ["cat"]) == 2
    view = planted.picture(1)
    assert (view.tags, view.accepted, view.rejected) == (["cat"], ["cat"], [])
    assert find_tag(planted, "cat")[:5] == ("cat", 2, 2, 0, 0)
    assert planted.status().unwritten == 2


def test_rejected_is_no_tag_and_stays_known(planted):
    planted.accept([1], ["cat"])
    assert planted.reject([1, 2], ["cat"]) == 2
    assert planted.picture(1).tags == []
    assert planted.picture(1).rejected == ["cat"]
    assert find_tag(planted, "cat")[:5] == ("cat", 0, 0, 2, 0)


def test_cleared_is_undecided_again(planted, everything):
    before = everything(planted)
    planted.accept([1], ["cat"])
    assert planted.clear([1], ["cat"]) == 1
    assert everything(planted) == before
    assert planted.clear([1], ["cat"]) == 0


def test_what_changes_nothing_is_not_written_down(planted):
    planted.accept([1], ["cat"])
    assert planted.accept([1], ["Cat"]) == 0
    assert len(planted.history()) == 1


def test_a_decision_takes_its_suggestion_and_undoing_brings_it_back(planted, everything):
    suggest(planted, 1, "cat", 0.8)
    before = everything(planted)
    planted.reject([1], ["cat"])
    assert planted.status().waiting == 0
    planted.undo()
    assert everything(planted) == before
    assert planted.picture(1).suggestions[0][:3] == (1, "cat", 0.8)


def test_a_suggestion_of_an_earlier_model_does_not_come_back(planted):
    suggest(planted, 1, "cat", model=1)
    planted.reject([1], ["cat"])
    with planted.store.write() as base:
        base.execute("INSERT INTO models VALUES (2, 0, 6, 1, 0.5, 1, 1, NULL)")
    planted.undo()
    assert planted.status().waiting == 0


def test_undo_restores_exactly(planted, everything):
    rng = random.Random(0)
    for picture in range(1, 7):
        suggest(planted, picture, rng.choice("abc"))
    planted.accept([1, 2], ["a"])  # so that there are such tags
    planted.reject([3], ["a"])
    planted.accept([4], ["b", "c"])
    states = []
    for _ in range(60):
        rows = [
            (rng.randint(1, 6), rng.choice("abc"), rng.choice(ALL))
            for _ in range(rng.randint(1, 4))
        ]
        rows += [(rng.randint(1, 6), None, rng.choice([COMPLETE, INCOMPLETE]))]
        state = everything(planted)
        if planted.decide(rows):
            states.append(state)
    while len(states) > 3:
        planted.undo()
        assert everything(planted) == states.pop()
    planted.undo(3)
    assert everything(planted) == states[0]


def test_batches_are_undone_together_the_last_first(planted):
    planted.accept([1, 2, 3], ["cat"])
    planted.accept([4], ["dog"], by="label-studio")
    undone = planted.undo()
    assert [(d.picture, d.tag, d.by, d.undone) for d in undone] == [
        (4, "dog", "label-studio", True)
    ]
    assert [d.picture for d in planted.undo()] == [3, 2, 1]
    assert planted.undo() == []
    assert planted.status().decisions == 0


def test_the_history_is_in_pages_the_last_first(planted):
    for picture in range(1, 7):
        planted.accept([picture], ["cat"])
    first = planted.history(4)
    assert [d.picture for d in first] == [6, 5, 4, 3]
    assert [d.picture for d in planted.history(4, before=first[-1].number)] == [2, 1]
    planted.undo()
    assert planted.history(1)[0].undone


def test_all_or_nothing(planted, everything):
    before = everything(planted)
    with pytest.raises(InputError, match="no picture 99"):
        planted.decide([(1, "cat", ACCEPTED), (99, "cat", ACCEPTED)])
    with pytest.raises(InputError, match="'maybe' cannot be said of a tag: accepted or"):
        planted.decide([(1, "cat", ACCEPTED), (1, "cat", "maybe")])
    assert everything(planted) == before
    assert planted.history() == []


def test_only_what_is_accepted_may_be_new(planted):
    planted.accept([1], ["café"])
    with pytest.raises(InputError, match="the library has no tag 'caffe': did you mean 'café'"):
        planted.reject([2], ["caffe"])
    planted.reject([2], ["CAFE"])
    assert planted.picture(2).rejected == ["café"]
    with pytest.raises(InputError, match="no characters"):
        planted.accept([1], ["\0"])


def test_the_end_of_a_path_means_it_where_only_one_ends_so(planted):
    planted.accept([1], ["animal|cat"])
    planted.accept([2], ["Cat"])
    assert planted.picture(2).tags == ["animal|cat"]
    planted.accept([3], ["toy|cat"])
    planted.accept([4], ["cat"])
    assert planted.picture(4).tags == ["cat"]
    planted.accept([5], ["a|dog", "b|dog"])
    with pytest.raises(InputError, match="may mean"):
        planted.reject([5], ["dog"])


def test_complete_pictures(planted):
    assert planted.mark_complete([1, 2]) == 2
    assert planted.mark_complete([1]) == 0
    assert planted.pictures(state="complete") == [1, 2]
    planted.mark_complete([1], False)
    assert not planted.picture(1).complete
    planted.undo()
    assert planted.picture(1).complete
