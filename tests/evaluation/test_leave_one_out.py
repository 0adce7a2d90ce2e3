"""Left-out scores as those of new images: what leaving an image out costs, and no more."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import average_precision_score, roc_auc_score

from prototag.coding.rbf_kernel import rbf_kernel_with_constant
from prototag.evaluation import ranking as cuts
from prototag.evaluation.leave_one_out import correct_loo_bias, ranking_score, shrunk_loo_scores
from prototag.tagging.loo_ridge import kernel_ridge


def unit(x):
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype("f4")


@pytest.mark.parametrize("strength", [0.3, 3.0])
def test_tags_without_meaning_rank_by_chance_and_only_now(strength):
    plain, fair = [], []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        X, Y = unit(rng.standard_normal((60, 50))), rng.random((60, 8)) < 0.15
        Y[:3] = True
        predictions = kernel_ridge(X, Y.astype("f4"), gamma=1.0, strength=strength).loo_predictions
        plain.append(cuts.tag_auc(Y, predictions).mean())
        fair.append(cuts.tag_auc(Y, correct_loo_bias(Y, predictions)).mean())
    assert np.mean(plain) < 0.45
    assert np.mean(fair) == pytest.approx(0.5, abs=0.03)


def test_held_out_images_score_as_new_ones():
    means = []
    for seed in range(20):
        X = unit(np.random.default_rng(seed).standard_normal((600, 40)))
        Y = X @ np.random.default_rng(7).standard_normal((40, 5)) > 1.1
        inside, new = slice(0, 100), slice(100, None)
        found = kernel_ridge(X[inside], Y[inside].astype("f4"), gamma=1.0, strength=3.0)
        scores = rbf_kernel_with_constant(X[new], X[inside], 1.0) @ found.dual
        fair = correct_loo_bias(Y[inside], found.loo_predictions)
        assert_array_equal(fair[~Y[inside]], found.loo_predictions[~Y[inside]])
        three = (found.loo_predictions, inside), (fair, inside), (scores, new)
        means.append(
            [np.mean([part[Y[rows, c], c].mean() for c in range(5)]) for part, rows in three]
        )
    plain, fair, new = np.mean(
        means, axis=0
    )  # of each tag alike: large ones are not larger by luck
    assert plain < new
    assert abs(fair - new) < 0.6 * (new - plain)


def test_areas_and_rankings_by_an_outside_judge():
    rng = np.random.default_rng(3)
    Y, scores = rng.random((80, 6)) < 0.3, rng.standard_normal((80, 6))
    Y[:, 4], Y[:, 5] = True, False
    expected = [roc_auc_score(Y[:, c], scores[:, c]) for c in range(4)]
    assert_allclose(cuts.tag_auc(Y, scores), [*expected, 0.5, 0.5])
    fair = correct_loo_bias(Y, scores)
    judged = average_precision_score(Y[:, 0], fair[:, 0])
    assert cuts.mean_average_precision(Y[:, :1], fair[:, :1]) == pytest.approx(judged, abs=1e-6)
    steady = 20 / (10 + Y.sum() / 6)
    expected = cuts.mean_average_precision(Y, fair) + steady * cuts.tag_auc(Y, fair).mean()
    assert ranking_score(Y, scores) == pytest.approx(expected)


def test_a_single_image_of_a_tag_keeps_its_score_and_halfway_is_between():
    Y, scores = np.array([[1, 1], [0, 1], [0, 0]], bool), np.ones((3, 2))
    assert_array_equal(correct_loo_bias(Y, scores), [[1, 2], [1, 2], [1, 1]])
    assert_array_equal(shrunk_loo_scores(Y, scores), [[1, 1.5], [1, 1.5], [1, 1]])
