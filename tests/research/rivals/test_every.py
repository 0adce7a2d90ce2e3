"""What holds for every rival that annotates by neighbours, embeddings or completed tags.

To add a rival, name it in ``RIVALS`` (as users have it, but smaller) and in ``FIXED`` (with every
choice made, where choosing is not the question).
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from prototag.evaluation import metrics, thresholds
from prototag.research import rivals
from prototag.research.datasets import planted

CCA = {"strength": 0.3, "power": 0.0, "n_neighbours": 4, "sharpness": 4.0, "random_state": 0}
RIVALS = {
    "kNN": ("KNN", {}),
    "JEC": ("JEC", {}),
    "2PKNN": ("TwoPassKNN", {}),
    "2PKNN with a metric": ("TwoPassKNN", {"metric": "columns", "n_steps": 20, "random_state": 0}),
    "TagProp by distance": ("TagProp", {"random_state": 0}),
    "TagProp by rank": ("TagProp", {"weights": "rank", "random_state": 0}),
    "FastTag": ("FastTag", {"random_state": 0}),
    "CCA-KNN": ("CCAKNN", {"random_state": 0}),
    "KCCA": ("KCCA", {"n_landmarks": 150, "random_state": 0}),
}
FIXED = {
    "kNN": {"n_neighbours": 10, "sharpness": 8.0},
    "JEC": {"n_neighbours": 5},
    "2PKNN": {"n_per_tag": 2, "sharpness": 8.0},
    "2PKNN with a metric": {"n_per_tag": 2, "sharpness": 8.0, "n_steps": 3},
    "TagProp by distance": {"n_neighbours": 20, "n_rounds": 1},
    "TagProp by rank": {"n_neighbours": 5, "n_rounds": 1},
    "FastTag": {
        "strength": 1e-3, "corruption": 0.3, "reconstruction": 1.0, "balance": 0.0, "n_layers": 1,
        "n_landmarks": 50,
    },
    "CCA-KNN": CCA,
    "KCCA": {**CCA, "n_landmarks": 50},
}  # fmt: skip
every = pytest.mark.parametrize("name", RIVALS)


def make(name, **options):
    kind, given = RIVALS[name]
    return getattr(rivals, kind)(**{**given, **FIXED[name], **options})


# One check takes it for granted that tags are given where decision_function is above zero, which is
# what this threshold says; so none is exempted. The threshold that is chosen has tests of its own.
# TagProp by rank differs from TagProp by distance only in what is optimised, and is slow.
@parametrize_with_checks(
    [make(name, threshold=0.0) for name in RIVALS if name != "TagProp by rank"]
)
def test_scikit_learn_rules(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def data():
    return planted(n=160, t=8, k=16, m=12, random_state=0)


def test_every_name_is_there():
    assert {kind for kind, _ in RIVALS.values()} <= set(rivals.__all__)
    assert dir(rivals) == sorted(rivals.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        rivals.Nonsense  # noqa: B018


@every
def test_planted_tags_are_recovered(name):
    """Ranks and tags of new images against chance, which ranks a tag by its frequency alone.

    Margins: 0.4 of mean average precision, 0.25 of F1 (over the best of constant scores); and the
    F1 that left-out training images promised is kept within 0.1.
    """
    data = planted(n=600, t=10, k=25, m=16, noise=0.4, random_state=5)
    train, test = slice(0, 400), slice(400, None)
    kind, options = RIVALS[name]
    model = getattr(rivals, kind)(**options).fit(data.X[train], data.Y[train])
    found = metrics.report(data.Y[test], model.decision_function(data.X[test]), model.threshold_)
    chance = np.tile(np.asarray(data.Y[train].mean(axis=0)).ravel(), (200, 1))
    ranks = metrics.mean_average_precision(data.Y[test], chance)
    assert found["mean_average_precision"] > 0.4 + ranks
    assert found["threshold_f1"] > 0.25 + thresholds.best_global_threshold(data.Y[test], chance)[1]
    promised = metrics.f1_of_means(data.Y[train], model.out_of_fold_scores_ > model.threshold_)
    assert abs(promised - found["threshold_f1"]) < 0.1


@every
def test_own_tags_do_not_reach_own_scores(name, data):
    """With all its tags turned over, an image's left-out scores stay; those of others do not."""
    before = make(name).fit(data.X, data.Y)
    Y = data.Y.toarray()
    Y[3] = 1 - Y[3]
    after = make(name).fit(data.X, Y)
    change = np.abs(after.out_of_fold_scores_ - before.out_of_fold_scores_).max(axis=1)
    assert change[3] < 1e-5
    assert change.max() > 1e-3


@every
def test_thresholds_come_from_left_out_scores(name, data):
    model = make(name).fit(data.X, data.Y)
    scores = model.out_of_fold_scores_
    assert scores.shape == (160, 8)
    assert scores.dtype == np.float32
    assert model.threshold_ == thresholds.best_global_threshold(data.Y, scores)[0]
    each = make(name, threshold="per_tag").fit(data.X, data.Y)
    assert_array_equal(each.threshold_, thresholds.best_tag_thresholds(data.Y, scores, shrink=50.0))
    given = make(name, threshold=0.4).fit(data.X, data.Y)
    assert given.threshold_ == 0.4
    assert_array_equal(given.predict(data.X).toarray(), given.decision_function(data.X) > 0.4)


@every
def test_same_bits_again_and_with_threads(name, data):
    model = make(name).fit(data.X, data.Y)
    again = clone(model).set_params(n_jobs=2).fit(data.X, data.Y)
    assert_array_equal(again.decision_function(data.X), model.decision_function(data.X))
    assert_array_equal(again.out_of_fold_scores_, model.out_of_fold_scores_)


@every
def test_alone_and_in_a_batch(name, data):
    model = make(name).fit(data.X, data.Y)
    batch = model.decision_function(data.X)
    for image in (0, 77, 159):
        alone = model.decision_function(data.X[image : image + 1])
        assert_allclose(alone[0], batch[image], atol=1e-4)


@every
def test_float64_agrees_and_scale_does_not_matter(name, data):
    scores = make(name).fit(data.X, data.Y).decision_function(data.X)
    X = data.X.astype(np.float64) * 2.0**10
    assert_allclose(make(name).fit(X, data.Y).decision_function(X), scores, atol=2e-3)


@every
def test_names_of_tags_and_labels(name, data):
    frame = pd.DataFrame(data.Y.toarray(), columns=[f"tag {c}" for c in range(8)])
    model = make(name).fit(data.X, frame)
    assert model.classes_.tolist() == list(frame.columns)
    labels = np.array(["sea", "sky", "tree"])[data.Y[:, :3].toarray().argmax(axis=1)]
    assert set(make(name).fit(data.X, labels).predict(data.X)) <= set(labels)


ODD_TAGS = {
    "a tag without images": lambda Y: np.hstack([Y, np.zeros((160, 1))]),
    "no tags at all": np.zeros_like,
    "every tag on every image": np.ones_like,
    "a single tag": lambda Y: Y[:, :1],
    "a tag on one image": lambda Y: np.hstack([Y, np.eye(160)[:, :1]]),
    "images without tags": lambda Y: Y * (np.arange(160) % 2)[:, None],
}


@every
@pytest.mark.parametrize("case", ODD_TAGS)
def test_odd_tags(name, case, data):
    Y = ODD_TAGS[case](data.Y.toarray())
    model = make(name).fit(data.X, Y)
    assert np.isfinite(model.decision_function(data.X)).all()
    assert model.predict(data.X).shape == Y.shape


ODD_VECTORS = {
    "zero vectors": lambda X: np.where(np.arange(160)[:, None] % 3, X, 0),
    "all alike": np.ones_like,
    "each twice": lambda X: np.vstack([X[:80], X[:80]]),
    "one column": lambda X: X[:, :1],
    "a constant column": lambda X: np.hstack([X, np.ones((160, 1))]),
}


@every
@pytest.mark.parametrize("case", ODD_VECTORS)
def test_odd_vectors(name, case, data):
    X = ODD_VECTORS[case](data.X)
    model = make(name).fit(X, data.Y)
    assert np.isfinite(model.decision_function(X)).all()
    assert np.isfinite(model.out_of_fold_scores_).all()


@every
def test_two_images_are_enough_and_one_is_not(name, data):
    model = make(name).fit(data.X[:2], data.Y[:2])
    assert model.decision_function(data.X[:3]).shape == (3, 8)
    with pytest.raises(ValueError, match=r"n_samples=1: .* give two or more"):
        make(name).fit(data.X[:1], data.Y[:1])


BAD = {
    "NaN in X": (lambda X, Y: (np.where(X[3, 2] == X, np.nan, X), Y), "Input X contains NaN"),
    "infinity in X": (lambda X, Y: (np.where(X[3, 2] == X, np.inf, X), Y), "contains infinity"),
    "no images": (lambda X, Y: (X[:0], Y[:0]), r"Found array with 0 sample\(s\)"),
    "sparse X": (lambda X, Y: (sparse.csr_array(X), Y), "dense data is required"),
    "no tags given": (lambda X, _: (X, None), "learns from tags.*n x t matrix of 0/1"),
    "a two": (lambda X, Y: (X, 2 * Y), r"Y holds .*2\.0.*0 \(absent\) or 1 \(present\)"),
    "NaN in Y": (lambda X, Y: (X, np.where(Y > 0, np.nan, Y)), "Input Y contains NaN"),
    "too short": (lambda X, Y: (X, Y[:7]), "X has 160 images and Y has tags for 7"),
}


@every
@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused(name, case, data):
    change, message = BAD[case]
    X, Y = change(data.X, data.Y.toarray())
    with pytest.raises((ValueError, TypeError), match=message):
        make(name).fit(X, Y)


@every
def test_bad_use_is_refused(name, data):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        make(name).predict(data.X)
    model = make(name).fit(data.X, data.Y)
    with pytest.raises(ValueError, match=r"X has 11 features, but \w+ is expecting 12"):
        model.predict(data.X[:, :11])
    with pytest.raises(ValueError, match="Input X contains NaN"):
        model.predict(np.full((2, 12), np.nan))
    with pytest.raises(ValueError, match=r"'threshold' parameter of \w+ must be"):
        make(name, threshold="best").fit(data.X, data.Y)
