"""One model: its arithmetic equals the stages one by one; what a file says of it is checked."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from prototag import Tagger
from prototag.arrays import normalize_rows
from prototag.coding.rbf_kernel import rbf_kernel_with_constant
from prototag.engine import Threads
from prototag.errors import ModelFileError
from prototag.mcdl.settings import CodeSettings
from prototag.research.datasets import planted
from prototag.storage import modelfile
from prototag.tagging.model import TagModel


@pytest.fixture(scope="module")
def data():
    return planted(n=700, t=9, k=30, m=24, noise=0.3, random_state=0)


@pytest.fixture(scope="module", params=[0.0, 0.6, 1.0])
def fitted(request, data):
    options = {"n_components": 14, "pilot": 200, "kernel_share": request.param}
    X = 3 + 2 * data.X[:600]
    return Tagger(**options).fit(X, data.Y[:600]), 3 + 2 * data.X[600:]


GOLDEN = Path(__file__).parent / "golden"


def test_the_golden_model_scores_as_recorded():
    """Recorded with the first model of this format."""
    header, arrays = modelfile.read(GOLDEN / "model.prototag")
    model = TagModel.from_arrays(header["model"], arrays)
    with np.load(GOLDEN / "scores.npz") as recorded:
        assert_allclose(model.scores(recorded["X"]), recorded["scores"], atol=1e-5)
        found = model.probabilities(recorded["X"])
        assert_allclose(found, recorded["probabilities"], atol=1e-4)


def test_projections_are_the_transformers(fitted):
    estimator, X = fitted
    expected = estimator.result_.stages.reduced.reduction.transform(X)
    assert_allclose(estimator.model_.vectors(X.astype("f4")), expected, atol=2e-6)


def test_scores_are_the_formula(fitted):
    """((1 - g) a S + g k B) * c, by the stages and in float64."""
    estimator, X = fitted
    stages = estimator.result_.stages
    ridge = stages.kernel_ridge.kernel
    share = stages.mixed.kernel_share
    vectors = stages.reduced.reduction.transform(X)
    coder = CodeSettings(max_nonzeros=estimator.max_nonzeros).coder(stages.coded.prototypes)
    codes = coder.encode(normalize_rows(vectors.astype(np.float32))).codes
    by_codes = (codes.astype(np.float64) @ stages.coded.semantics.csr()).toarray()
    near = rbf_kernel_with_constant(vectors, ridge.landmarks, ridge.gamma)
    by_kernel = near.astype(np.float64) @ ridge.dual
    expected = ((1 - share) * by_codes + share * by_kernel) * stages.factors.tag_scale
    assert_allclose(estimator.decision_function(X), expected, atol=3e-5)


def test_many_blocks_many_threads_and_single_images_agree(fitted):
    estimator, X = fitted
    model = estimator.model_
    many = np.tile(X, (50, 1)).astype(np.float32)  # more than is projected at once
    scores = model.scores(many)
    assert_allclose(scores[:100], scores[-100:], atol=5e-5)
    assert_array_equal(model.scores(many, Threads(2)), scores)
    assert_allclose(model.scores(many[:1]), scores[:1], atol=5e-5)


def test_one_pass_judges(fitted):
    estimator, X = fitted
    model, X = estimator.model_, X.astype(np.float32)
    scores, probabilities = model.predict(X)
    assert_array_equal(scores, model.scores(X))
    assert_array_equal(probabilities, model.probabilities(X))
    assert_array_equal(model.predict_from_raw(model.raw(X)).scores, scores)


def test_rows_too_short_to_tell_are_zeros():
    """Codes cannot bridge such a length: forged axes of 1e-30 ended in a bare error."""
    found = normalize_rows(np.array([[1e-30, 1e-30], [0, 2]], "f4"))
    assert_array_equal(found, np.array([[0, 0], [0, 1]], "f4"))
    assert found.dtype == np.float32


def test_rows_of_zeros_stay():
    assert_allclose(normalize_rows(np.array([[3.0, 4.0], [0.0, 0.0]], "f4")), [[0.6, 0.8], [0, 0]])


def test_arrays_and_back(fitted):
    estimator, X = fitted
    model, X = estimator.model_, X.astype(np.float32)
    again = TagModel.from_arrays(*model.to_arrays())
    assert_array_equal(again.scores(X), model.scores(X))
    assert_array_equal(again.threshold, model.threshold)


@pytest.mark.parametrize(
    "name",
    [
        "projection/map", "projection/constant", "prototypes", "kernel/dual", "tag_scale",
        "threshold",
        "calibration/knots", "semantics/data", "semantics/indptr",
    ],
)  # fmt: skip
def test_damaged_arrays_are_refused(fitted, name):
    config, arrays = fitted[0].model_.to_arrays()
    changes = [
        lambda a: a[..., :-1],
        lambda a: a[..., None],
        lambda a: a[:0],
        lambda a: a.astype("u1"),
    ]
    if arrays[name].dtype.kind == "f":
        changes.append(lambda a: a * a.dtype.type(np.nan))
    for change in changes:
        with pytest.raises(ModelFileError, match=r"\w+ \w+"):
            TagModel.from_arrays(config, {**arrays, name: change(arrays[name])})
    with pytest.raises(ModelFileError):
        TagModel.from_arrays(config, {key: a for key, a in arrays.items() if key != name})


def test_many_prototypes_for_few_landmarks_load(data):
    """More than twenty for each were taken for an attack: no model of 120,000 images loaded."""
    model = Tagger(n_components=8, max_landmarks=20).fit(data.X, data.Y).model_
    assert len(model.prototypes) > 20 * len(model.kernel.landmarks)
    again = TagModel.from_arrays(*model.to_arrays())
    X = data.X[:5].astype(np.float32)
    assert_array_equal(again.scores(X), model.scores(X))


def test_a_model_takes_no_more_memory_than_twice_its_file(fitted):
    """Semantics with their zeros took sixty times the file."""
    config, arrays = fitted[0].model_.to_arrays()
    k, t = 40_000, 3_000
    m = len(arrays["projection/map"])
    zeros, ones = np.zeros(t, "f4"), np.ones(t, "f4")
    arrays = {
        **arrays,
        "projection/map": np.hstack([arrays["projection/map"], np.ones((m, t), "f4")]),
        "projection/constant": np.append(arrays["projection/constant"], zeros),
        "prototypes": np.resize(arrays["prototypes"], (k, arrays["prototypes"].shape[1])),
        "semantics/data": np.ones(k, "f4"),
        "semantics/indices": (np.arange(k) % t).astype("i4"),
        "semantics/indptr": np.arange(k + 1, dtype="i4"),
        "kernel/landmarks": arrays["prototypes"][:3],
        "kernel/dual": np.ones((3, t), "f4"),
        "tag_scale": ones,
        "threshold": np.ones(t),
        "calibration/offset": np.zeros(t),
    }
    size = sum(array.nbytes for array in arrays.values())
    tracemalloc.start()
    try:
        model = TagModel.from_arrays(config, arrays)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < size  # beside the arrays of the file itself
    assert model.scores(fitted[1][:2].astype("f4")).shape == (2, t)


@pytest.mark.parametrize("factor", [1e-30, 1e8])
def test_prototypes_that_no_code_reaches_are_refused(fitted, factor):
    config, arrays = fitted[0].model_.to_arrays()
    far = arrays["prototypes"] * np.float32(factor)
    with pytest.raises(ModelFileError, match="do not fit each other"):
        TagModel.from_arrays(config, {**arrays, "prototypes": far})


BAD_VALUES = {
    "width": [0, 10**6, None, "14", True],
    "max_nonzeros": [0, 2.5, 10**9, "25", True],
    "gamma": [0.0, -1.0, 1e300],
    "strength": [0.0, None],
    "kernel_share": [-0.1, 1.1],
}


@pytest.mark.parametrize("name", BAD_VALUES)
def test_values_without_sense_are_refused(fitted, name):
    config, arrays = fitted[0].model_.to_arrays()
    for value in BAD_VALUES[name]:
        with pytest.raises(ModelFileError, match=r"\w+ \w+"):
            TagModel.from_arrays({**config, name: value}, arrays)
    with pytest.raises(ModelFileError, match="not complete"):
        TagModel.from_arrays({key: v for key, v in config.items() if key != name}, arrays)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("calibration/rates", lambda a: a - 3),
        ("calibration/rates", lambda a: a * 1e300),
        ("calibration/rates", lambda a: a[::-1].copy()),
        ("calibration/knots", lambda a: a[::-1].copy()),
        ("tag_scale", lambda a: -a),
    ],
)
def test_probabilities_without_sense_are_refused(fitted, name, change):
    config, arrays = fitted[0].model_.to_arrays()
    with pytest.raises(ModelFileError, match=r"make no sense|beyond"):
        TagModel.from_arrays(config, {**arrays, name: change(arrays[name])})


def test_scoring_loads_neither_scikit_learn_nor_scipy(fitted, tmp_path):
    model, X = fitted
    model.save(tmp_path / "model")
    np.save(tmp_path / "x.npy", X.astype(np.float32))
    program = (
        "import sys, numpy as np\n"
        "from prototag.storage import modelfile\n"
        "from prototag.arrays import select_prefix\n"
        "from prototag.tagging.model import TagModel\n"
        "header, arrays = modelfile.read(sys.argv[1])\n"
        "model = TagModel.from_arrays(header['model'], select_prefix(arrays, 'model'))\n"
        "np.save(sys.argv[3], model.scores(np.load(sys.argv[2])))\n"
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
    model = model.model_
    X = X.astype(np.float32)
    for image in range(5):
        shares = model.explain(X[[image]], range(9))
        total = shares.code_scores.sum(axis=0) + shares.kernel_scores.sum(axis=0) + shares.rest
        assert_allclose(total, model.scores(X[[image]])[0], atol=5e-5)


def test_the_kernel_is_explained_by_landmarks_that_have_the_tag(data):
    """As a weighted mean of tags: those without the tag give nothing, and little is left over."""
    X, Y = data.X[:600], data.Y[:600].toarray()
    model = Tagger(kernel_share=1.0, boost=0.0, pilot=200).fit(X, Y)
    model = model.model_
    for image in range(600, 610):
        x = data.X[[image]].astype(np.float32)
        shares = model.explain(x, range(9))
        assert np.abs(shares.kernel_scores[Y == 0]).max() < 1e-3
        assert np.abs(shares.rest).max() < 0.2
        assert shares.kernel_scores.max() > 0.05
