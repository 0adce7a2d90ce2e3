"""Starting without any tag: positive-unlabeled suggestions from the first marked picture on."""

from __future__ import annotations

import sys
from contextlib import contextmanager, suppress

import numpy as np
import pytest

from history import undo_last
from library.conftest import RECIPE, plant
from prototag.cli import main
from prototag.errors import TrainingError
from prototag.library import review
from prototag.library.library import Library

PICTURES, WITH_TAG, WIDTH = 300, 30, 1_280
SCREEN = 40


def planted(with_tag, shift):
    """Which pictures have the tag, and embeddings of low rank that it shifts."""
    rng = np.random.default_rng(0)
    has = np.zeros(PICTURES, bool)
    has[rng.permutation(PICTURES)[:with_tag]] = True
    axes = np.linalg.qr(rng.normal(size=(WIDTH, 40)))[0]
    hidden = rng.normal(size=(PICTURES, 40))
    hidden[:, :6] += shift * has[:, None]
    return has, (hidden @ axes.T + 0.02 * rng.normal(size=(PICTURES, WIDTH))).astype(np.float32)


@contextmanager
def opened(path, vectors):
    """Three hundred pictures without any tag."""
    plant(path, PICTURES, vectors=vectors)
    with Library(path, cache=None, n_jobs=1) as made:
        made.extractor.selected_groups = ["last"]
        made.store.set_setting("recipe", RECIPE.hex())
        yield made


@pytest.fixture(scope="module")
def collection():
    """10% of the pictures have the tag, and look more alike than others, but not very much."""
    return planted(WITH_TAG, 1.0)


@pytest.fixture
def truth(collection):
    return collection[0]


@pytest.fixture
def library(tmp_path, collection):
    with opened(tmp_path / "start.library", collection[1]) as made:
        yield made


def mark(library, truth, count):
    numbers = np.random.default_rng(3).permutation(np.flatnonzero(truth))[:count] + 1
    library.accept([int(number) for number in numbers], ["beach"])


def answer(library, truth, found):
    library.decide(
        [
            (one.picture, "beach", "accepted" if truth[one.picture - 1] else "rejected")
            for one in found
        ]
    )


def ticked(library, found):
    threshold = library.cold_start_estimate("beach").estimate.threshold
    return [one for one in found if one.probability >= threshold]


@pytest.mark.parametrize("count", [1, 5, 11])
def test_marked_pictures_alone_rank_the_others_and_tick_none(library, truth, count):
    mark(library, truth, count)
    found = library.suggest("beach", limit=PICTURES)
    assert len(found) == PICTURES - count
    assert library.cold_start_estimate("beach").is_ranked_only
    assert not ticked(library, found)
    # The most similar ones come first: far more of them have the tag than of the collection.
    first = [truth[one.picture - 1] for one in found[:10]]
    assert np.mean(first) >= (0.2 if count == 1 else 0.5)
    shown = {one.picture for one in found[:SCREEN]}
    assert len(shown) == SCREEN


def test_an_unlabeled_collection_is_not_thought_to_have_the_tag(library, truth):
    mark(library, truth, 11)
    found = library.suggest("beach", limit=PICTURES)
    likely = [one for one in found if one.probability >= 0.5]
    assert len(likely) < 60  # it was 289 of 289
    assert library.cold_start_estimate("beach").estimate.expected < 80


def test_the_first_batch_also_shows_confusers(library, truth):
    mark(library, truth, 5)
    found = library.suggest("beach", limit=PICTURES)
    probabilities = [one.probability for one in found[:SCREEN]]
    assert probabilities == sorted(probabilities, reverse=True)
    ranks = np.argsort(np.argsort([-one.probability for one in found]))[:SCREEN]
    assert (ranks >= SCREEN).sum() >= 5


def test_after_29_yes_and_102_no_the_rest_is_as_frequent_as_it_should_be(library, truth):
    mark(library, truth, 5)
    for _ in range(3):
        answer(library, truth, library.suggest("beach", limit=42))
    view = library.tags()[0]
    assert view.pictures + view.rejected == 131
    assert view.pictures >= 25
    left = WITH_TAG - view.pictures
    assert not library.models()  # nothing was trained fully
    started = library.cold_start_estimate("beach")
    assert WITH_TAG / 2 <= view.pictures + started.estimate.expected <= 2 * WITH_TAG
    assert started.estimate.expected <= 2 * left + 4
    assert started.probabilities().max() < 0.5  # it was 89%


def test_what_is_ticked_after_the_first_batch_is_right(tmp_path):
    truth, vectors = planted(90, 1.6)
    with opened(tmp_path / "frequent.library", vectors) as library:
        mark(library, truth, 5)
        given = []
        for batch in range(3):
            found = library.suggest("beach", limit=SCREEN)
            above = ticked(library, found)
            assert batch or not above
            given += [bool(truth[one.picture - 1]) for one in above]
            answer(library, truth, found)
    assert len(given) >= 5
    assert np.mean(given) >= 0.8


def test_full_training_does_not_change_the_kind_of_the_estimates(library, truth):
    mark(library, truth, 5)
    answer(library, truth, library.suggest("beach", limit=SCREEN))
    before = library.suggest("beach", limit=PICTURES)
    library.learn(full=True)
    after = library.suggest("beach", limit=PICTURES)
    assert [one.picture for one in after] == [one.picture for one in before]
    for one, other in zip(before, after, strict=True):
        assert one.probability == pytest.approx(other.probability)
    waiting = [one for one in library.suggest(limit=PICTURES) if one.tag == "beach"]
    expected = library.cold_start_estimate("beach").estimate.expected
    assert len(waiting) <= 3 * expected + 5
    assert review.suggest_without_waiting(library.trainer, "beach", False, 5, set())[0] == after[0]
    # The exported model does not give the tag to everything either.
    annotator = library.annotator()
    with library.store.read() as conn:
        X = np.stack(
            [
                np.frombuffer(row[0], "<f4")
                for row in conn.execute("SELECT vector FROM vectors ORDER BY picture")
            ]
        )
    p = annotator.model.probabilities(X, annotator.active_engine)[:, annotator.tags.index("beach")]
    assert WITH_TAG / 2 <= p.sum() <= 2 * WITH_TAG


def test_undone_answers_are_forgotten(library, truth):
    mark(library, truth, 5)
    before = library.suggest("beach", limit=PICTURES)
    answer(library, truth, before[:SCREEN])
    assert not library.cold_start_estimate("beach").is_ranked_only
    undo_last(library)
    assert library.suggest("beach", limit=PICTURES) == before


def test_a_tag_that_no_picture_has_cannot_be_ranked(library, truth):
    mark(library, truth, 1)
    undo_last(library)
    with pytest.raises(TrainingError, match="accept it for one or more first"):
        library.suggest("beach")


def test_the_command_ranks_from_a_single_picture_on(library, truth, monkeypatch, capsys):
    mark(library, truth, 1)
    monkeypatch.setattr(
        sys, "argv", ["prototag", "suggest", "--tag", "beach", "-l", str(library.path), "-n", "7"]
    )
    with suppress(SystemExit):
        main()
    said = capsys.readouterr()
    assert said.out.count("beach") == 7
    assert "Ranked by similarity" in said.out + said.err
