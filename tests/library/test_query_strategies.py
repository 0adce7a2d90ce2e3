"""What waits: suggestions are counted as they are shown, and change for a reason only."""

from __future__ import annotations

import numpy as np

from history import undo_last
from prototag.library import active_model, model_versions
from prototag.library.library import Library


def shown(library) -> set[tuple[int, str]]:
    return {(one.picture, one.tag) for one in library.suggest(limit=10_000)}


def waiting(library) -> set[tuple[int, str]]:
    with library.store.read() as conn:
        rows = conn.execute(
            "SELECT s.picture, t.name FROM suggestions s JOIN tags t ON t.id = s.tag"
        )
        return {*rows.fetchall()}


def test_nothing_waits_for_a_picture_that_is_complete(learned, everything):
    picture = learned.suggest(limit=1)[0].picture
    before, counted = everything(learned), learned.status().suggestions
    assert learned.mark_complete([picture]).changed == 1
    assert picture not in {one for one, _ in waiting(learned)}
    assert learned.status().suggestions == len(waiting(learned)) < counted
    assert picture not in learned.pictures(state="suggested", limit=1000)
    undo_last(learned)
    assert everything(learned) == before
    learned.mark_complete([picture])
    learned.mark_complete([picture], complete=False)
    assert picture in {one for one, _ in shown(learned)}


def test_undoing_a_decision_on_a_complete_picture_suggests_nothing(learned):
    one = learned.suggest(limit=1)[0]
    learned.mark_complete([one.picture])
    learned.accept([one.picture], [one.tag])
    undo_last(learned)
    assert one.picture not in {picture for picture, _ in waiting(learned)}


def test_opening_a_library_again_changes_no_suggestion(learned):
    for tag in ("striped", "red"):
        found = learned.suggest(tag, limit=6)
        learned.accept([one.picture for one in found[:3]], [tag])
        learned.reject([one.picture for one in found[3:]], [tag])
        learned.suggest(limit=5)
    before, counted = waiting(learned), learned.status().suggestions
    with Library(learned.path, cache=None) as again:
        again.suggest(limit=5)
        again.suggest("dotted", limit=5)
        assert waiting(again) == before
        assert again.status().suggestions == counted


def test_a_library_that_is_read_again_judges_the_same_pictures(learned, monkeypatch):
    monkeypatch.setattr(active_model, "MAX_CANDIDATES", 10)
    learned.learn(full=True)
    chosen = learned.trainer.active_model().pictures.tolist()
    assert len(chosen) < learned.status().pictures
    number = learned.status().model.number
    last, kept = model_versions.load_candidate_pool(learned.store, number)
    assert {*kept.tolist()} < {*chosen}
    assert last == max(learned.pictures(limit=1000))

    def refuse(*_):
        raise AssertionError("chosen again, which takes minutes of many pictures")

    monkeypatch.setattr(active_model, "_most_probable", refuse)
    with Library(learned.path, cache=None) as again:
        assert np.array_equal(again.trainer.active_model().pictures, chosen)
    # One that was decided on since is judged, too.
    more = next(one for one in learned.pictures(limit=1000) if one not in chosen)
    learned.accept([more], ["red"])
    with Library(learned.path, cache=None) as again:
        assert more in again.trainer.active_model().pictures.tolist()


def test_a_picture_that_files_tag_meanwhile_is_judged_as_one_with_tags(learned):
    learned.suggest(limit=5)
    state = learned.trainer.active_model()
    picture = next(
        one
        for one in learned.pictures(state="untagged", limit=100)
        if likely(learned, one).keys() - {"red"}
    )
    row = state.row_of[picture]
    assert not state.tagged[row]
    tag = "red"
    with learned.store.write() as conn:  # as a scan does
        number = conn.execute("SELECT id FROM tags WHERE name = ?", (tag,)).fetchone()[0]
        conn.execute("INSERT INTO labels VALUES (?, ?, 1, 'file', 1)", (picture, number))
    before = sum(likely(learned, picture).values())
    learned.suggest(limit=5)
    assert state.tagged[row]
    assert sum(likely(learned, picture).values()) < before
    with Library(learned.path, cache=None) as again:
        again.suggest(limit=5)
        assert again.trainer.active_model().tagged[again.trainer.active_model().row_of[picture]]
        assert waiting(again) == waiting(learned)
    with learned.store.write() as conn:
        conn.execute("DELETE FROM labels WHERE picture = ? AND file_value", (picture,))
    learned.suggest(limit=5)
    assert not state.tagged[row]


def likely(library, picture) -> dict[str, float]:
    return {one.tag: one.probability for one in library.picture(picture).suggestions}
