"""Positive-unlabeled learning: the probability from which on suggestions are ticked."""

from __future__ import annotations

import numpy as np
import pytest

from prototag.tagging import positive_unlabeled as pu

PICTURES, WIDTH, BATCH = 600, 64, 40


def reviewed(seed, shift):
    """Estimates before each of three review batches of a tag that ``shift`` makes visible."""
    rng = np.random.default_rng(seed)
    has = rng.random(PICTURES) < 0.1
    X = rng.normal(size=(PICTURES, WIDTH)).astype(np.float32)
    X[:, :4] += shift * has[:, None]
    background = pu.Background.of(X)
    marked = np.flatnonzero(has)[:5]
    decided = np.zeros(PICTURES, bool)
    decided[marked] = True
    accepted, rejected = (np.zeros(0, np.intp) for _ in range(2))
    for _ in range(3):
        estimate = pu.estimate(background, marked, accepted, rejected, usable=~decided)
        order = np.argsort(-np.where(decided, -np.inf, estimate.scores))[:BATCH]
        yield estimate, has, accepted, rejected, order
        decided[order] = True
        accepted = np.concatenate([accepted, order[has[order]]])
        rejected = np.concatenate([rejected, order[~has[order]]])


@pytest.mark.parametrize("shift", [0.8, 1.2, 1.6, 2.0])
def test_where_answers_were_wrong_nothing_is_ticked(shift):
    """Two thirds of the answers above it were wrong, and the line lay there all the same."""
    for seed in range(8):
        for estimate, _, accepted, rejected, _ in reviewed(seed, shift):
            if estimate.threshold == 1:
                continue
            right = np.count_nonzero(estimate.probabilities[accepted] >= estimate.threshold)
            wrong = np.count_nonzero(estimate.probabilities[rejected] >= estimate.threshold)
            assert (right + 1) / (right + wrong + 2) >= 0.9, (seed, right, wrong)


def test_a_tag_that_can_be_seen_is_ticked_and_right():
    ticked = []
    for seed in range(8):
        for estimate, has, _, _, order in reviewed(seed, 2.0):
            above = order[estimate.probabilities[order] >= estimate.threshold]
            ticked += has[above].tolist()
    assert len(ticked) >= 40
    assert np.mean(ticked) >= 0.8


def test_nothing_is_ticked_before_the_first_no():
    estimate, *_ = next(reviewed(0, 2.0))
    assert estimate.threshold == 1
