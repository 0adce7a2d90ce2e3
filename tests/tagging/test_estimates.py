"""Laws of what is promised: tags without meaning promise nothing, whatever the number of images."""

from __future__ import annotations

import numpy as np
import pytest

from prototag import recommended
from prototag.annotator.operating_points import OperatingPoints
from prototag.evaluation import metrics


def vectors(n, m, seed):
    """As a network gives them: correlated columns of different size, away from the origin."""
    rng = np.random.default_rng(seed)
    mixing = rng.standard_normal((12, m)) * rng.uniform(0.2, 2.0, m)
    return (rng.standard_normal((n, 12)) @ mixing + rng.standard_normal((n, m)) + 1).astype("f4")


@pytest.mark.parametrize("n", [12, 30, 60, 100, 300])
@pytest.mark.parametrize("t", [1, 8])
def test_random_tags_are_estimated_at_chance_and_not_applied(n, t):
    promised, chance, given = [], [], 0.0
    for seed in range(4):
        rng = np.random.default_rng(1000 + seed)
        Y = rng.random((n, t)) < 0.3
        Y[:2] = [[True], [False]]  # never all or none
        X = vectors(n, 200, seed)
        model = recommended(pilot=60).fit(X, Y)
        points = OperatingPoints.from_fit(model.result_)
        p = model.probabilities(vectors(200, 200, 50 + seed))
        given += ((p >= points.default_threshold) & points.learnable).mean()
        promised.append(model.choices_["out_of_fold_f1"])
        share = float(Y.mean(axis=0).mean())
        chance.append(2 * share / (1 + share))  # every tag to every picture
    assert given == 0
    assert np.mean(promised) < np.mean(chance) + 0.05


def test_held_out_images_score_as_new_ones():
    """At one cut of the scores as many pairs are given, and as many of them are right."""
    rng = np.random.default_rng(0)
    X = vectors(1300, 400, 1)
    direction = rng.standard_normal((400, 6))
    signal = (X - X.mean(axis=0)) @ direction
    Y = signal + 0.7 * signal.std(axis=0) * rng.standard_normal(signal.shape)
    Y = np.quantile(Y, 0.85, axis=0) < Y
    rows = []
    for start in range(0, 300, 100):
        inside, new = slice(start, start + 100), slice(300, None)
        model = recommended(pilot=100).fit(X[inside], Y[inside])
        left_out, scores = model.result_.held_out.raw, model.model_.raw(X[new])
        cut = np.quantile(left_out, 0.9)
        rows.append(
            [
                (left_out > cut).mean(),
                (scores > cut).mean(),
                Y[inside][left_out > cut].mean(),
                Y[new][scores > cut].mean(),
            ]
        )
    share, share_new, right, right_new = np.mean(rows, axis=0)
    assert 0.75 < share_new / share < 1.35
    assert right == pytest.approx(right_new, abs=0.08)


def test_estimates_hold_on_new_images():
    rng = np.random.default_rng(1)
    X = vectors(1500, 300, 2)
    signal = (X - X.mean(axis=0)) @ rng.standard_normal((300, 8))
    Y = signal > np.quantile(signal, 0.8, axis=0)
    found = []
    for seed in range(3):
        rows = np.random.default_rng(seed).permutation(600)[:150]
        model = recommended(pilot=150).fit(X[rows], Y[rows])
        scores = model.decision_function(X[600:])
        true = metrics.f1_of_means(Y[600:], scores > model.threshold_)
        found.append((model.choices_["out_of_fold_f1"], true))
    promised, true = np.mean(found, axis=0)
    assert promised == pytest.approx(true, abs=0.06)
