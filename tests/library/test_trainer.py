"""A library that learns on, with real pictures whose tags can be seen."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import tagged
from history import undo_last
from prototag import Annotator
from prototag.errors import InputError, TrainingError
from prototag.library.library import Library

TAGGED, EVERY = 45, 75


@pytest.fixture
def library(learned):
    """With the first pictures tagged, and the others not."""
    return learned


def number_of(library: Library, picture: int) -> int:
    place = library.existing_file(picture)
    assert place is not None
    return int(place.stem)


def is_right(library: Library, picture: int, tag: str) -> bool:
    return tag in tagged.tags_of(number_of(library, picture))


def test_untagged_pictures_get_suggestions_that_are_mostly_right(library):
    found = library.suggest(limit=100)
    assert len(found) >= 20
    assert [one.probability for one in found] == sorted(
        (one.probability for one in found), reverse=True
    )
    assert sum(is_right(library, one.picture, one.tag) for one in found) > 0.8 * len(found)
    for one in found:
        view = library.picture(one.picture)
        assert one.tag not in view.tags
        assert one.tag not in view.rejected


def test_decisions_take_effect_at_once_and_rejected_tags_are_not_suggested_again(library):
    first, second, *_ = library.suggest("striped", limit=10)
    library.reject([first.picture], ["striped"])
    library.accept([second.picture], ["striped"])
    for full in (False, True):
        library.learn(full=full)
        for found in (library.suggest("striped", limit=100), library.suggest(limit=1000)):
            pairs = {(one.picture, one.tag) for one in found}
            assert not pairs & {(first.picture, "striped"), (second.picture, "striped")}
    library.clear([first.picture], ["striped"])
    again = {one.picture for one in library.suggest("striped", limit=100)}
    assert first.picture in again


def test_undoing_brings_the_suggestions_back(library):
    before = library.suggest("dotted", limit=50)
    library.decide([(one.picture, "dotted", "rejected") for one in before[:10]])
    changed = library.suggest("dotted", limit=50)
    assert not {one.picture for one in before[:10]} & {one.picture for one in changed}
    undo_last(library)
    after = library.suggest("dotted", limit=50)
    assert [one.picture for one in after] == [one.picture for one in before]
    for one, other in zip(before, after, strict=True):
        assert one.probability == pytest.approx(other.probability, abs=1e-6)


@pytest.mark.bits
def test_another_process_suggests_the_same(library):
    library.decide([(one.picture, "red", "rejected") for one in library.suggest("red", limit=3)])
    here = library.suggest("red", limit=20)
    with Library(library.path, cache=None) as other:
        there = other.suggest("red", limit=20)
    assert [one.picture for one in here] == [one.picture for one in there]


def test_a_new_tag_is_learned_from_a_few_pictures(library):
    with pytest.raises(InputError, match="no tag"):
        library.suggest("purple")
    numbers = [p for p in library.pictures(limit=EVERY) if number_of(library, p) % 5 < 2]
    library.accept(numbers[:8], ["my dots"])
    found = library.suggest("my dots", limit=8)
    right = [number_of(library, one.picture) % 5 < 2 for one in found]
    assert sum(right) >= 6
    assert "my dots" in library.annotator().tags
    library.accept(numbers, ["my dots"])
    library.learn(full=True)
    assert next(tag for tag in library.tags() if tag.name == "my dots").learned


def test_the_most_instructive_are_spread_over_pictures_and_undecided(library):
    found = library.suggest(uncertain=True, limit=12)
    assert len({one.picture for one in found}) > 4
    assert all(0.04 < one.probability < 0.99 for one in found)
    one = library.suggest("red", uncertain=True, limit=1)[0]
    assert one.tag == "red"


def test_a_complete_picture_is_not_asked_about(library):
    picture = library.suggest(limit=1)[0].picture
    library.mark_complete([picture])
    assert picture not in {one.picture for one in library.suggest(limit=1000)}
    assert picture not in {one.picture for one in library.suggest("red", limit=100)}


@pytest.mark.bits
def test_models_have_numbers_and_come_back(library):
    assert [model.number for model in library.models()] == [1]
    before = library.suggest(limit=30)
    library.accept([before[0].picture], [before[0].tag])
    learned = library.learn(full=True)
    assert learned.full
    assert learned.model.number == 2
    assert {one.model for one in library.suggest(limit=30)} == {2}
    undo_last(library)
    library.rollback(1)
    after = library.suggest(limit=30)
    assert [(one.picture, one.tag) for one in after] == [(one.picture, one.tag) for one in before]
    with pytest.raises(InputError, match="no model 7"):
        library.rollback(7)


def test_similar_pictures_and_reasons(library):
    picture = library.pictures(limit=EVERY)[0]
    for other, likeness in library.similar(picture, 5):
        assert other != picture
        assert -1 <= likeness <= 1.0001
    reasons = library.explain(picture, "red")
    assert reasons
    assert reasons == sorted(reasons, key=lambda reason: -reason.share)
    assert sum(is_right(library, reason.picture, "red") for reason in reasons[:3]) >= 2


def test_what_was_learned_annotates_any_picture(library, tmp_path):
    one = library.suggest("striped", limit=1)[0]
    library.accept([one.picture], ["striped"])
    annotator = library.annotator()
    tagged.picture(["green", "striped"], 500).save(tmp_path / "new.png")
    found = next(iter(annotator.annotate([tmp_path / "new.png"], min_probability=0.5)))
    assert "green" in found.names
    annotator.save(tmp_path / "learned.prototag")
    again = type(annotator).load(tmp_path / "learned.prototag", cache=None)
    other = next(iter(again.annotate([tmp_path / "new.png"], min_probability=0.5)))
    assert other.names == found.names
    assert annotator.explain(tmp_path / "new.png", ["striped"])[0].reasons


def test_an_exported_model_with_a_new_tag_explains_any_picture(library, tmp_path):
    numbers = [p for p in library.pictures(limit=EVERY) if number_of(library, p) % 5 < 2]
    library.accept(numbers[:8], ["my dots"])
    library.reject(numbers[8:16], ["my dots"])
    library.annotator().save(tmp_path / "exported.prototag")
    loaded = Annotator.load(tmp_path / "exported.prototag", cache=None)
    picture = library.existing_file(numbers[0])
    column = loaded.tags.index("my dots")
    assert loaded.similar(picture, 3)[0].similarity > 0.9
    assert loaded.explain(picture, ["my dots"])[0].reasons
    held_out = loaded.gallery.held_out_scores[:, column]
    assert np.ptp(held_out) > 0  # those of the incremental update


def test_threads_decide_learn_and_ask_together(library):
    errors: list[BaseException] = []
    pairs = [(one.picture, one.tag) for one in library.suggest(limit=60)]

    def work(part: list[tuple[int, str]]) -> None:
        try:
            for picture, tag in part:
                library.accept([picture], [tag])
                library.suggest(limit=5)
                library.suggest(tag, limit=5)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(pairs[k::3][:8],)) for k in range(3)]
    threads.append(threading.Thread(target=lambda: library.learn(full=True)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    decided = [pair for k in range(3) for pair in pairs[k::3][:8]]
    for picture, tag in decided:
        assert tag in library.picture(picture).accepted
    left = {(one.picture, one.tag) for one in library.suggest(limit=1000)}
    assert not left & set(decided)


def test_too_few_labels_for_training_are_reported(tmp_path):
    tagged.collection(tmp_path / "photos", 12, listed=False)
    with Library.create(tmp_path / "photos", crops="fast", cache=None) as library:
        library.scan()
        with pytest.raises(TrainingError, match="no picture of the library has a tag"):
            library.learn()
        with pytest.raises(InputError, match="has no model yet"):
            library.suggest(uncertain=True)
        with pytest.raises(InputError, match="no tag 'red'"):
            library.suggest("red")
        library.accept(library.pictures(limit=3), ["red"])
        with pytest.raises(TrainingError, match="too rare"):
            library.learn()


def test_look_alikes_are_decided_together_by_the_command(library, capsys, monkeypatch):
    import sys

    from prototag.cli import main

    first, second = library.pictures(limit=2)
    with library.store.write() as conn:
        conn.execute("UPDATE pictures SET duplicate_group = 7 WHERE id IN (?, ?)", (first, second))
    assert library.near_duplicates(first) == [first, second]
    place = str(library.existing_file(first))
    command = ["prototag", "accept", "a pair", place, "--alike", "-l", str(library.path)]
    monkeypatch.setattr(sys, "argv", command)
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    assert "2 pictures" in capsys.readouterr().out
    assert all("a pair" in library.picture(one).accepted for one in (first, second))
