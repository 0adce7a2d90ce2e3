"""What becomes of a model in use when its library changes: here, or by another process."""

from __future__ import annotations

import tempfile

import numpy as np
import pytest

import tagged
from history import undo_last
from prototag.errors import InputError, LibraryError, TrainingError
from prototag.library.library import Library


@pytest.fixture
def library(learned):
    """With the first pictures tagged, and the others not."""
    return learned


def pairs(found) -> set[tuple[int, str]]:
    return {(one.picture, one.tag) for one in found}


def forget(library: Library, numbers: list[int]) -> None:
    """As if the files of these pictures had gone, and the library had been pruned."""
    marks = ",".join("?" * len(numbers))
    with library.store.write() as conn:
        conn.execute(f"UPDATE files SET present = 0 WHERE picture IN ({marks})", numbers)
    assert library.prune() == len(numbers)


def test_new_pictures_are_suggested_for_as_soon_as_they_were_scanned(library, tmp_path):
    library.suggest(limit=5)
    one = library.suggest("striped", limit=1)[0]
    library.reject([one.picture], ["striped"])  # a column that was learned on judges them, too
    library.suggest(limit=5)
    last = max(library.pictures(limit=1000))
    more = tmp_path / "more"
    tagged.collection(more, 15, start=200, listed=False)
    with library.store.write() as conn:
        conn.execute(
            "INSERT INTO roots (path, kind, column, hierarchy) VALUES (?, 'auto', NULL, 'path')",
            (str(more).encode(),),
        )
    assert library.scan().new == 15
    found = [s for s in library.suggest(limit=1000) if s.picture > last]
    assert len({s.picture for s in found}) >= 10
    names = [(int(library.existing_file(s.picture).stem), s.tag) for s in found]
    right = [tag in tagged.tags_of(number) for number, tag in names]
    assert np.mean(right) > 0.7
    with Library(library.path, cache=None) as other:
        there = [s for s in other.suggest(limit=1000) if s.picture > last]
    assert len(pairs(there) ^ pairs(found)) <= 0.2 * len(found)
    assert [s.picture for s in library.suggest("striped", limit=100) if s.picture > last]
    assert library.similar(last + 1, 3)


@pytest.mark.parametrize("anew", [False, True])
def test_pictures_that_were_pruned_are_neither_suggested_nor_similar(library, anew):
    for gone in ([s.picture for s in library.suggest(limit=5)], library.pictures(limit=5)):
        gone = sorted(set(gone))
        forget(library, gone)
        library.accept([library.pictures(limit=1000)[-1]], ["dotted"])
        with Library(library.path, cache=None) as other:
            asked = other if anew else library
            for found in (
                asked.suggest(limit=1000),
                asked.suggest("striped", limit=1000),
                asked.suggest(uncertain=True, limit=100),
            ):
                assert found
                assert not {s.picture for s in found} & {*gone}
            left = asked.pictures(limit=1)[0]
            assert not {p for p, _ in asked.similar(left, 100)} & {*gone}
            assert not {r.picture for r in asked.explain(left, "red")} & {*gone}


@pytest.mark.parametrize("anew", [False, True])
def test_a_renamed_tag_is_suggested_by_its_new_name(library, anew):
    library.suggest(limit=5)
    library.rename("striped", "with, stripes|ü")
    with Library(library.path, cache=None) as other:
        asked = other if anew else library
        for found in (asked.suggest(limit=1000), asked.suggest(uncertain=True, limit=100)):
            names = {s.tag for s in found}
            assert "striped" not in names
            assert "with, stripes|ü" in names
        assert "with, stripes|ü" in asked.annotator().tags
        assert "striped" not in asked.annotator().tags


@pytest.mark.parametrize("anew", [False, True])
@pytest.mark.parametrize(("old", "new"), [("striped", "dotted"), ("dotted", "striped")])
def test_joined_tags_are_one_and_what_was_rejected_stays_so(library, tmp_path, anew, old, new):
    likely = library.suggest(new, limit=4)
    library.reject([s.picture for s in likely], [new])
    library.rename(old, new)
    rejected = {(s.picture, new) for s in likely}
    with Library(library.path, cache=None) as other:
        asked = other if anew else library
        for found in (
            asked.suggest(limit=1000),
            asked.suggest(uncertain=True, limit=200),
            asked.suggest(new, limit=1000),
        ):
            assert old not in {s.tag for s in found}
            assert not pairs(found) & rejected
            assert len(pairs(found)) == len(found)
        annotator = asked.annotator()
        assert len(set(annotator.tags)) == len(annotator.tags)
        annotator.save(tmp_path / "joined.prototag")
        exported = type(annotator).load(tmp_path / "joined.prototag", cache=None)
        shown = [place for p in asked.pictures(limit=30) if (place := asked.existing_file(p))]
        given = [*exported.annotate(shown), *exported.annotate(shown, min_probability=0.01)]
        assert {name for found in given for name in found.names}
        assert old not in {tag.name for f in given for tag in [*f.tags, *f.suggestions]}


def test_a_tag_that_is_shown_again_is_suggested_again(library):
    before = {s.picture for s in library.suggest(limit=1000) if s.tag == "striped"}
    assert before
    library.hide("striped")
    assert "striped" not in {s.tag for s in library.suggest(limit=1000)}
    assert "striped" not in {s.tag for s in library.suggest(uncertain=True, limit=100)}
    library.hide("striped", False)
    assert {s.picture for s in library.suggest(limit=1000) if s.tag == "striped"} == before


def test_a_picture_that_is_not_complete_after_all_is_asked_about_again(library):
    before = library.suggest(limit=1000)
    picture = before[0].picture
    library.mark_complete([picture])
    library.suggest(limit=5)
    library.accept([before[-1].picture], [before[-1].tag])  # other tags go on meanwhile
    for tag in tagged.tags_of(0):
        assert picture not in {s.picture for s in library.suggest(tag, limit=1000)}
    assert picture not in {s.picture for s in library.suggest(uncertain=True, limit=1000)}
    undo_last(library, 2)
    after = library.suggest(limit=1000)
    assert pairs(after) == pairs(before)


def test_undoing_everything_brings_everything_back(library):
    before = library.suggest(limit=1000)
    library.reject([s.picture for s in before[:5]], [before[0].tag])
    library.accept(library.pictures(limit=6), ["brand new"])
    library.mark_complete([before[-1].picture])
    library.suggest("brand new")
    library.suggest(limit=10)
    undo_last(library, 10)
    after = library.suggest(limit=1000)
    assert pairs(after) == pairs(before)
    with pytest.raises(TrainingError, match="no picture has the tag"):
        library.suggest("brand new")


def test_skipped_pictures_do_not_use_up_what_is_asked_for(library):
    first = {s.picture for s in library.suggest(limit=1000)}
    kept = {library.suggest(limit=1000)[-1].picture}
    for options in ({}, {"uncertain": True}):
        every = {s.picture for s in library.suggest(limit=1000, **options)}
        kept = {min(every)}
        found = library.suggest(limit=1, skip=every - kept, **options)
        assert {s.picture for s in found} == kept
    assert first


def test_a_tag_of_pictures_without_vectors_is_reported_and_has_no_effect(library):
    picture = library.pictures(limit=1000)[-1]
    with library.store.write() as conn:
        conn.execute("DELETE FROM vectors WHERE picture = ?", (picture,))
    with Library(library.path, cache=None) as other:
        other.accept([picture], ["unseen"])
        with pytest.raises(InputError, match="was scanned yet"):
            other.suggest("unseen")
        other.accept(other.pictures(limit=6), ["seen"])
        assert other.suggest("seen", limit=3)
        annotator = other.annotator()
        assert len(annotator.tags) == annotator.model.n_tags
        assert len(annotator.operating_points.learnable) == annotator.model.n_tags


def test_going_back_brings_back_what_was_known_of_tags(library):
    before = {tag.name: (tag.learned, tag.pictures_needed) for tag in library.tags()}
    library.accept(library.pictures(limit=1000)[::2], ["every other"])
    library.learn(full=True)
    undo_last(library)
    library.rollback(1)
    assert {tag.name: (tag.learned, tag.pictures_needed) for tag in library.tags()} == before
    library.reject([library.suggest("red", limit=1)[0].picture], ["red"])
    assert library.learn(full=True).model.number == 3
    assert {s.model for s in library.suggest(limit=5)} == {3}


def test_a_library_that_can_only_be_read_still_suggests(library, monkeypatch):
    before = library.suggest(limit=20)
    with Library(library.path, cache=None) as other:
        monkeypatch.setattr(other.store, "_writer", None)
        other.store._readonly = LibraryError("read-only")
        assert pairs(other.suggest(limit=20)) == pairs(before)
        assert other.suggest("red", limit=3)
        assert other.suggest(uncertain=True, limit=3)
        assert other.annotator().tags


@pytest.mark.parametrize("name", ["annotator", "fit_state"])
@pytest.mark.parametrize("how", ["cut", "changed"])
def test_a_damaged_model_is_reported_and_a_retrain_replaces_it(library, name, how):
    with library.store.write() as conn:
        data = conn.execute("SELECT data FROM model_parts WHERE name = ?", (name,)).fetchone()[0]
        middle = len(data) // 2
        end = b"" if how == "cut" else bytes(200) + data[middle + 200 :]
        conn.execute("UPDATE model_parts SET data = ? WHERE name = ?", (data[:middle] + end, name))
    with Library(library.path, cache=None) as other:
        with pytest.raises(LibraryError, match=r"model 1 .* is damaged .*Library\.learn"):
            other.suggest("red")
        other.learn(full=True)
        assert other.suggest("red", limit=1)


def test_missing_space_for_temporary_files_is_reported(library, monkeypatch):
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "mkdtemp", full)
    with pytest.raises(LibraryError, match="TMPDIR"):
        library.suggest("red")
    with pytest.raises(LibraryError, match="TMPDIR"):
        library.learn(full=True)
    assert [model.number for model in library.models()] == [1]


def test_vectors_of_another_network_are_not_mixed_in(library):
    """Half of the pictures were looked at anew, by a network that says more of them."""
    numbers = library.pictures(limit=1000)
    library.suggest(limit=5)
    with library.store.write() as conn:
        conn.execute("UPDATE settings SET value = '00ff' WHERE key = 'recipe'")
        for number in numbers[::2]:
            vector = np.ones(7, "<f4").tobytes()
            conn.execute(
                "UPDATE vectors SET recipe = ?, vector = ? WHERE picture = ?",
                (b"\x00\xff", vector, number),
            )
    assert library.is_retrain_due()
    with pytest.raises(LibraryError, match="another network"):
        library.suggest("red")


def test_a_model_that_another_process_has_replaced_writes_no_suggestions(library, monkeypatch):
    """Its own suggestions would stand beside, or in the place of, those of the newer one."""
    library.suggest(limit=5)
    with Library(library.path, cache=None) as other:
        other.accept([other.suggest("red", limit=1)[0].picture], ["red"])
        trainer = library.trainer
        apply = type(trainer)._apply

        def replaced(self, *given):
            monkeypatch.setattr(type(trainer), "_apply", apply)
            other.learn(full=True)
            return apply(self, *given)

        monkeypatch.setattr(type(trainer), "_apply", replaced)
        trainer.update()
        with library.store.read() as conn:
            assert {row[0] for row in conn.execute("SELECT model FROM suggestions")} == {2}


def test_accepting_one_frame_of_a_burst_and_rejecting_another(tmp_path):
    folder = tmp_path / "photos"
    tagged.collection(folder, 60)
    for number in range(5):
        picture = tagged.picture(["green", "striped"], 300)
        picture.putpixel((0, number), (1, 2, 3))
        picture.save(folder / f"burst{number}.png")
    with Library.create(folder, crops="fast", cache=None) as library:
        library.scan()
        library.learn()
        burst = [library.picture(folder / f"burst{number}.png").number for number in range(5)]
        assert set(library.near_duplicates(burst[0])) == {*burst}
        assert sum(s.picture in burst for s in library.suggest("green", limit=100)) == 1
        library.reject([burst[0]], ["green"])
        library.accept([burst[1]], ["green"])
        for full in (False, True):
            library.learn(full=full)
            assert burst[0] not in {s.picture for s in library.suggest("green", limit=100)}
            assert library.picture(burst[0]).rejected == ["green"]
        assert library.picture(burst[1]).tags == ["green"]


def test_what_was_imported_must_be_looked_at_first(library, tmp_path):
    library.export(tmp_path / "out.jsonl")
    with (
        Library.restore(tmp_path / "out.jsonl", tmp_path / "again.library", cache=None) as again,
        pytest.raises(TrainingError, match=r"was scanned yet: Library\.scan\(\)"),
    ):
        again.learn()
