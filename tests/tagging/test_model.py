"""Scores by arithmetic on stored arrays equal what the parts of a Tagger compute one by one."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from prototag import Tagger
from prototag.errors import ModelFileError
from prototag.research.datasets import planted
from prototag.storage import modelfile
from prototag.tagging import ridge
from prototag.tagging.model import Scorer, unit


@pytest.fixture(scope="module")
def data():
    return planted(n=700, t=9, k=30, m=24, noise=0.3, random_state=0)


@pytest.fixture(scope="module", params=[(0.0, 0.0), (0.6, 0.3), (1.0, 0.0), (0.5, 1.0)])
def fitted(request, data):
    options = {"n_components": 12, "width": 10, "kernel_components": 14, "pilot": 200}
    X = 3 + 2 * data.X[:600]
    share, linear = request.param
    return Tagger(share=share, linear=linear, **options).fit(X, data.Y[:600]), 3 + 2 * data.X[600:]


def test_projections_are_the_transformers(fitted):
    model, X = fitted
    scorer = Scorer(*model.to_state())
    assert_allclose(scorer.lifted(X.astype("f4")), model.lifting_.transform(X), atol=2e-6)
    assert_allclose(scorer.short(X.astype("f4")), model.reduction_.transform(X), atol=2e-6)


def test_scores_are_the_formula(fitted):
    """r((1 - u)((1 - g) a S + g k B) + u l) * c, by the estimators and in float64."""
    model, X = fitted
    share, linear = model.choices_["share"], model.choices_["linear"]
    codes = model.mcdl_.transform(model.lifting_.transform(X)).astype(np.float64)
    coded = codes @ model.mcdl_.semantic_prototypes_
    coded = coded.toarray() if hasattr(coded, "toarray") else coded
    short = model.reduction_.transform(X)
    likeness = ridge.kernel(short, model.landmarks_, model.choices_["gamma"])
    smooth = likeness.astype(np.float64) @ model.dual_
    standard = model.lifting_.reduction_.zscore_.transform(X)
    predicted = standard @ model.lifting_.coef_ + model.lifting_.intercept_
    straight = predicted * model.linear_scale_ + model.linear_offset_  # has its share inside
    mixed = (1 - linear) * ((1 - share) * coded + share * smooth) + straight
    expected = (mixed @ model.relation_ + model.offset_) * model.tag_scale_
    assert_allclose(model.decision_function(X), expected, atol=3e-5)


def test_many_blocks_many_threads_and_single_images_agree(fitted):
    model, X = fitted
    many = np.tile(X, (50, 1)).astype(np.float32)  # more than is projected at once
    scorer = Scorer(*model.to_state())
    scores = scorer.scores(many)
    assert_allclose(scores[:100], scores[-100:], atol=5e-5)
    assert_array_equal(Scorer(*model.to_state(), n_jobs=2).scores(many), scores)
    assert_allclose(scorer.scores(many[:1]), scores[:1], atol=5e-5)


def test_rows_of_zeros_stay():
    assert_allclose(unit(np.array([[3.0, 4.0], [0.0, 0.0]], "f4")), [[0.6, 0.8], [0, 0]])


def test_damaged_parts_are_refused(fitted):
    model, _ = fitted
    config, arrays = model.to_state()
    for name in ("kernel/dual", "lifting/coef_", "reduction/zscore/mean_", "lifting/axes_"):
        with pytest.raises(ModelFileError):
            Scorer(config, {**arrays, name: arrays[name][:-1]})
    with pytest.raises(ModelFileError, match="does not name 9 different tags"):
        Scorer({**config, "vocabulary": ["a"] * 9}, arrays)


def test_scoring_loads_neither_scikit_learn_nor_scipy(fitted, tmp_path):
    model, X = fitted
    model.save(tmp_path / "model")
    np.save(tmp_path / "x.npy", X.astype(np.float32))
    program = (
        "import sys, numpy as np\n"
        "from prototag.storage import modelfile\n"
        "from prototag.tagging.model import Scorer\n"
        "scorer = Scorer(*modelfile.read(sys.argv[1]))\n"
        "np.save(sys.argv[3], scorer.scores(np.load(sys.argv[2])))\n"
        "print(sorted({m.split('.')[0] for m in sys.modules} & {'sklearn', 'scipy'}))\n"
    )
    paths = [tmp_path / name for name in ("model", "x.npy", "scores.npy")]
    answer = subprocess.run(
        [sys.executable, "-c", program, *map(str, paths)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stdout.strip() == "[]"
    assert_array_equal(np.load(paths[-1]), model.decision_function(X))
    assert modelfile.read(paths[0])[0]["kind"] == "tagger"


def test_shares_add_up_to_the_scores(fitted):
    model, X = fitted
    scorer = Scorer(*model.to_state())
    X = X.astype(np.float32)
    for image in range(5):
        shares = scorer.shares(X[[image]], range(9))
        total = shares.coded.sum(axis=0) + shares.smooth.sum(axis=0) + shares.rest
        assert_allclose(total, scorer.scores(X[[image]])[0], atol=5e-5)


def test_the_kernel_is_explained_by_landmarks_that_have_the_tag(data):
    """As a weighted mean of tags: those without the tag give nothing, and little is left over."""
    X, Y = data.X[:600], data.Y[:600].toarray()
    model = Tagger(share=1.0, linear=0.0, relations=0.0, boost=0.0, pilot=200).fit(X, Y)
    scorer = Scorer(*model.to_state())
    for image in range(600, 610):
        x = data.X[[image]].astype(np.float32)
        shares = scorer.shares(x, range(9))
        assert np.abs(shares.smooth[Y == 0]).max() < 1e-3
        assert np.abs(shares.rest).max() < 0.2
        assert shares.smooth.max() > 0.05
