"""Decisions: what each means, and that undoing brings back exactly what was."""

from __future__ import annotations

import random

import pytest

from history import undo_last
from prototag.errors import ConflictError, InputError
from prototag.library.types import ACCEPTED, CLEARED, COMPLETE, INCOMPLETE, REJECTED

ALL = (ACCEPTED, REJECTED, CLEARED)


def find_tag(library, name):
    return next((tag for tag in library.tags() if tag.name == name), None)


def suggest(library, picture, tag, probability=0.5, model=1):
    with library.store.write() as conn:
        conn.execute("INSERT OR IGNORE INTO tags (name, key) VALUES (?1, ?1)", (tag,))
        conn.execute(
            "INSERT INTO suggestions SELECT id, ?, ?, ?, -1 FROM tags WHERE name = ?",
            (picture, probability, model, tag),
        )


def test_accepted_is_the_persons_own(planted):
    assert planted.accept([1, 2], ["cat"]).changed == 2
    view = planted.picture(1)
    assert (view.tags, view.accepted, view.rejected) == (["cat"], ["cat"], [])
    assert find_tag(planted, "cat")[:5] == ("cat", 2, 2, 0, 0)
    assert planted.status().unwritten == 2


def test_rejected_is_no_tag_and_stays_known(planted):
    planted.accept([1], ["cat"])
    assert planted.reject([1, 2], ["cat"]).changed == 2
    assert planted.picture(1).tags == []
    assert planted.picture(1).rejected == ["cat"]
    assert find_tag(planted, "cat")[:5] == ("cat", 0, 0, 2, 0)


def test_cleared_is_undecided_again(planted, everything):
    before = everything(planted)
    planted.accept([1], ["cat"])
    assert planted.clear([1], ["cat"]).changed == 1
    assert everything(planted) == before
    assert planted.clear([1], ["cat"]).changed == 0


def test_what_changes_nothing_is_not_written_down(planted):
    planted.accept([1], ["cat"])
    assert planted.accept([1], ["Cat"]).changed == 0
    assert len(planted.history()) == 1


def test_a_decision_removes_its_suggestion_and_undo_restores_it(planted, everything):
    suggest(planted, 1, "cat", 0.8)
    before = everything(planted)
    planted.reject([1], ["cat"])
    assert planted.status().suggestions == 0
    undo_last(planted)
    assert everything(planted) == before
    assert planted.picture(1).suggestions[0][:3] == (1, "cat", 0.8)


def test_a_suggestion_of_an_earlier_model_does_not_come_back(planted):
    suggest(planted, 1, "cat", model=1)
    planted.reject([1], ["cat"])
    with planted.store.write() as conn:
        conn.execute("INSERT INTO models VALUES (2, 0, 6, 1, 0.5, 1, 1, NULL)")
    undo_last(planted)
    assert planted.status().suggestions == 0


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
        if planted.decide(rows).changed:
            states.append(state)
    while len(states) > 3:
        undo_last(planted)
        assert everything(planted) == states.pop()
    undo_last(planted, 3)
    assert everything(planted) == states[0]


def test_batches_are_undone_together_the_last_first(planted):
    planted.accept([1, 2, 3], ["cat"])
    planted.accept([4], ["dog"], by="label-studio")
    undone = undo_last(planted)
    assert [(d.picture, d.tag, d.by, d.undone) for d in undone] == [
        (4, "dog", "label-studio", True)
    ]
    assert [d.picture for d in undo_last(planted)] == [3, 2, 1]
    assert undo_last(planted) == []
    assert planted.status().decisions == 0


def test_a_batch_is_undone_beside_later_ones(planted, everything):
    first = planted.accept([1, 2], ["cat"]).number
    before = everything(planted)
    middle = planted.reject([3], ["cat"])
    last = planted.accept([4], ["dog"])
    assert (middle.number, middle.changed) == (first + 1, 1)
    change = planted.undo(middle.number)
    assert [one.picture for one in change.decisions] == [3]
    assert planted.picture(4).accepted == ["dog"]
    planted.undo(last.number)
    assert everything(planted) == before


def test_what_somebody_overrode_stays(planted):
    """Of a batch only the decisions are undone that nobody has overridden since."""
    mine = planted.accept([1, 2, 3], ["cat"]).number
    others = planted.reject([2], ["cat"], by="somebody").number
    change = planted.undo(mine)
    assert [one.picture for one in change.decisions] == [3, 1]
    assert [(one.picture, one.undone) for one in change.overridden] == [(2, False)]
    assert planted.picture(2).rejected == ["cat"]
    with pytest.raises(ConflictError, match=rf"overridden by batch {others} \(by somebody\)"):
        planted.undo(mine)
    planted.undo(others)
    assert planted.picture(2).accepted == ["cat"]
    assert [one.picture for one in planted.undo(mine).decisions] == [2]
    assert planted.status().decisions == 0


def test_what_cannot_be_undone_or_redone_is_refused_and_changes_nothing(planted, everything):
    mine = planted.accept([1], ["cat"]).number
    with pytest.raises(ConflictError, match="is not undone"):
        planted.redo(mine)
    planted.undo(mine)
    with pytest.raises(ConflictError, match="undone already"):
        planted.undo(mine)
    for method in (planted.undo, planted.redo):
        with pytest.raises(InputError, match="no batch 99"):
            method(99)
    others = planted.accept([1], ["cat"], by="somebody").number
    before = everything(planted)
    with pytest.raises(ConflictError, match=f"overridden by batch {others}"):
        planted.redo(mine)
    assert everything(planted) == before
    assert planted.clear([1], ["cat"]).changed == 1
    assert planted.clear([1], ["cat"]).number is None


def test_redo_brings_back_what_undo_took(planted, everything):
    suggest(planted, 1, "cat", 0.8)
    states, batches = [everything(planted)], []
    for verdict in (ACCEPTED, REJECTED, CLEARED):
        batches.append(planted.decide([(1, "cat", verdict), (2, "cat", ACCEPTED)]).number)
        states.append(everything(planted))
    batches.append(planted.mark_complete([1, 2]).number)
    states.append(everything(planted))
    for _ in range(2):
        for batch, state in zip(reversed(batches), reversed(states[:-1]), strict=True):
            planted.undo(batch)
            assert everything(planted) == state
        for batch, state in zip(batches, states[1:], strict=True):
            planted.redo(batch)
            assert everything(planted) == state
    assert [one.undone for one in planted.history(100)] == [False] * 6


def test_redone_out_of_order_undo_restores_what_was_there(planted, everything):
    """What undoing restores is the state before the redo, not that of the first time."""
    first, second = planted.accept([1], ["cat"]).number, planted.reject([1], ["cat"]).number
    planted.undo(second)
    planted.undo(first)
    before = everything(planted)
    planted.redo(second)
    with pytest.raises(ConflictError, match="overridden"):
        planted.redo(first)
    planted.undo(second)
    assert everything(planted) == before
    planted.redo(first)
    assert planted.picture(1).accepted == ["cat"]


def test_numbers_of_batches_are_never_given_twice(planted):
    """An old number must not undo the decision of somebody else."""
    old = planted.accept([6], ["cat"]).number
    with planted.store.write() as conn:
        conn.execute("UPDATE files SET present = 0 WHERE picture = 6")
    planted.prune()
    assert planted.history() == []
    assert planted.accept([1], ["dog"]).number > old
    with pytest.raises(InputError, match=f"no batch {old}"):
        planted.undo(old)


def test_the_history_is_in_pages_the_last_first(planted):
    for picture in range(1, 7):
        planted.accept([picture], ["cat"])
    first = planted.history(4)
    assert [d.picture for d in first] == [6, 5, 4, 3]
    assert [d.picture for d in planted.history(4, before=first[-1].number)] == [2, 1]
    undo_last(planted)
    assert planted.history(1)[0].undone


def test_all_or_nothing(planted, everything):
    before = everything(planted)
    with pytest.raises(InputError, match="no picture 99"):
        planted.decide([(1, "cat", ACCEPTED), (99, "cat", ACCEPTED)])
    with pytest.raises(InputError, match="'maybe' is no verdict on a tag: give accepted or"):
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
    assert planted.mark_complete([1, 2]).changed == 2
    assert planted.mark_complete([1]).changed == 0
    assert planted.pictures(state="complete") == [1, 2]
    planted.mark_complete([1], False)
    assert not planted.picture(1).complete
    undo_last(planted)
    assert planted.picture(1).complete
