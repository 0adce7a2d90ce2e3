"""CCA against scipy's generalised eigenproblem and scikit-learn; kernel CCA against its dual."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import eigh
from sklearn.cross_decomposition import CCA
from sklearn.metrics.pairwise import rbf_kernel

from prototag.evaluation import metrics
from prototag.research.baselines import CCAKNN, KCCA, cca
from prototag.research.datasets import planted

from . import oracles


@pytest.fixture(scope="module")
def data():
    return planted(n=150, t=6, k=14, m=9, noise=0.4, random_state=0)


def covariances(data):
    X, Y = data.X.astype(np.float64), data.Y.toarray().astype(np.float64)
    X, Y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    return X.T @ X / len(X), Y.T @ Y / len(X), X.T @ Y / len(X)


@pytest.mark.parametrize("strength", [1e-9, 0.1, 1.0])
def test_correlations_are_those_of_the_eigenproblem(data, strength):
    space = cca.canonical(cca.moments(data.X, data.Y), strength)
    xx, yy, xy = covariances(data)
    xx += strength * np.trace(xx) / 9 * np.eye(9)
    yy += strength * np.trace(yy) / 6 * np.eye(6)
    value = eigh(xy @ np.linalg.solve(yy, xy.T), xx, eigvals_only=True)[::-1][:6]
    assert_allclose(space.correlation, np.sqrt(np.maximum(value, 0)), atol=1e-5)
    assert_allclose(space.axes.T @ xx @ space.axes, np.eye(6), atol=1e-5)
    assert_allclose(space.tag_axes.T @ yy @ space.tag_axes, np.eye(6), atol=1e-5)
    assert_allclose(space.axes.T @ xy @ space.tag_axes, np.diag(space.correlation), atol=1e-5)


def test_correlations_are_those_of_scikit_learn(data):
    space = cca.canonical(cca.moments(data.X, data.Y), 1e-9, 2)
    judge = CCA(2, max_iter=5000).fit(data.X, data.Y.toarray())
    x, y = judge.transform(data.X, data.Y.toarray())
    assert_allclose(
        space.correlation, [np.corrcoef(x[:, c], y[:, c])[0, 1] for c in (0, 1)], atol=1e-3
    )
    ours = (data.X - space.mean) @ space.axes
    assert abs(np.corrcoef(ours[:, 0], x[:, 0])[0, 1]) > 0.999


def test_kernel_cca_is_that_of_the_dual(data):
    """max a'K H Y b with a'(K H K / n + r v K) a = 1: the kernel trick, all images landmarks."""
    n, strength = 150, 0.2
    model = KCCA(n_landmarks=n, gamma=1.0, strength=strength, power=0.0, n_neighbours=5,
                 sharpness=1.0, random_state=0).fit(data.X, data.Y)  # fmt: skip
    apart = 2 * data.X.var(axis=0).sum()
    K = rbf_kernel(data.X.astype(np.float64), gamma=1.0 / apart)
    H = np.eye(n) - 1 / n
    rank = model.root_.shape[1]
    _, yy, _ = covariances(data)
    yy += strength * np.trace(yy) / 6 * np.eye(6)
    cross = K @ H @ data.Y.toarray() / n
    variance = np.trace(H @ K @ H) / n / rank
    inner = K @ H @ K / n + strength * variance * K + 1e-9 * np.eye(n)
    value = eigh(cross @ np.linalg.solve(yy, cross.T), inner, eigvals_only=True)[::-1][:6]
    assert_allclose(model.correlation_, np.sqrt(np.maximum(value, 0)), atol=5e-3)


@pytest.mark.parametrize("vote", ["knn", "2pknn"])
def test_votes_are_those_of_a_loop_in_the_embedding(data, vote):
    train, Y = data.X[:100], data.Y[:100]
    model = CCAKNN(strength=0.1, power=1.0, vote=vote, n_neighbours=3, sharpness=2.0,
                   random_state=0).fit(train, Y)  # fmt: skip
    space = cca.canonical(cca.moments(train, Y), 0.1)

    def embed(X):
        z = (X - space.mean) @ (space.axes * space.correlation)
        return z / np.linalg.norm(z, axis=1, keepdims=True)

    z = embed(train)
    z_scale = oracles.even_scale(z, [0] * 6)
    scores, Y = model.decision_function(data.X[100:]), Y.toarray()
    for i, x in enumerate(embed(data.X[100:]) * z_scale):
        find = oracles.nearest if vote == "knn" else oracles.nearest_by_tag
        arguments = (3,) if vote == "knn" else (Y, 3)
        found = find(x, z * z_scale, *arguments)
        assert_allclose(scores[i], oracles.votes(x, z * z_scale, Y, found, 2.0), atol=1e-3)


def test_held_out_images_are_embedded_by_the_others(data):
    from sklearn.utils import check_random_state

    from prototag.research.baselines.base import draw_folds

    options = {"strength": 0.3, "power": 1.0, "n_neighbours": 4, "sharpness": 2.0}
    model = CCAKNN(vote="knn", n_folds=2, random_state=0, **options).fit(data.X, data.Y)
    inside = draw_folds(150, 2, check_random_state(0)) == 0
    other = CCAKNN(vote="knn", **options).fit(data.X[~inside], data.Y[~inside])
    expected = other.decision_function(data.X[inside])
    assert_allclose(model.out_of_fold_scores_[inside], expected, atol=1e-3)


def test_directions_of_tags_beat_directions_of_noise():
    """Wide noise drowns plain neighbours; canonical directions see through it."""
    from prototag.research.baselines import KNN

    data = planted(n=900, t=8, k=16, m=10, noise=0.2, random_state=1)
    noise = np.random.default_rng(0).standard_normal((900, 30)) / 3
    X = np.hstack([data.X, noise])
    train, test = slice(0, 600), slice(600, None)
    plain, seen = (
        metrics.mean_average_precision(
            data.Y[test], model.fit(X[train], data.Y[train]).decision_function(X[test])
        )
        for model in (KNN(), CCAKNN(random_state=0))
    )
    assert seen > plain + 0.05


def test_fewer_directions(data):
    model = CCAKNN(2, strength=0.3, power=0.0, n_neighbours=2, sharpness=2.0).fit(data.X, data.Y)
    assert model.correlation_.shape == (2,)
    assert_array_equal(np.sort(model.correlation_)[::-1], model.correlation_)
