"""Algorithm 1: its laws, its reductions to UDL and CDL, and what it learns from planted data."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

import oracles
from prototag import MCDL
from prototag.coding.coder import Coder
from prototag.evaluation import metrics
from prototag.events import Event
from prototag.mcdl.kmeans import k_means
from prototag.mcdl.settings import RECIPES
from prototag.research.datasets import planted
from recipes import gathered


@pytest.fixture(scope="module")
def data():
    return planted(n=240, t=10, k=24, m=16, missing=0.2, random_state=0)


def model(**options):
    small = {"n_prototypes": 30, "max_iter": 4, "init_iter": 2, "random_state": 0}
    return MCDL(**gathered(**{**small, **options}))


def same_bits(one, other):
    assert_array_equal(one.visual_prototypes_, other.visual_prototypes_)
    for part in ("data", "indices", "indptr"):
        assert_array_equal(
            getattr(one.semantic_prototypes_, part), getattr(other.semantic_prototypes_, part)
        )
    assert_array_equal(one.objective_, other.objective_)
    assert_array_equal(one.threshold_, other.threshold_)
    assert one.codes_gap_ == other.codes_gap_


# -- the objective ---------------------------------------------------------------------------------


def assert_never_rises(objective, tolerance=1e-6):
    total = objective["total"]
    assert np.isfinite(total).all()
    rise = np.diff(total) / total[:-1]
    assert rise.max() <= tolerance, f"rises by {rise.max():.1e} of itself: {total}"


@pytest.mark.parametrize("unused", ["reseed", "zero", "leave"])
@pytest.mark.parametrize("image_weight", ["tags", "uniform"])
@pytest.mark.parametrize("loss", ["squared_hinge", "squared"])
@pytest.mark.parametrize("norm", ["ball", "sphere"])
def test_objective_never_rises(data, norm, loss, image_weight, unused):
    options = {"norm": norm, "loss": loss, "image_weight": image_weight, "unused": unused}
    fitted = model(n_prototypes=60, max_iter=8, **options).fit(data.X, data.Y)
    assert_never_rises(fitted.objective_)
    assert fitted.objective_["total"][-1] < fitted.objective_["total"][0]
    assert fitted.n_iter_ == 8
    length = np.linalg.norm(fitted.visual_prototypes_, axis=1)
    assert length.max() <= 1 + 1e-6
    if norm == "sphere":
        assert_allclose(length, 1, atol=1e-6)


@pytest.mark.parametrize(
    "options",
    [
        {"drop": 0.05, "rescale": True},
        {"rho": 0.0},
        {"rho": 5.0},
        {"max_nonzeros": 2},
        {"beta0": 0.4},
        {"v": 0.5, "rescale": True},
        {"eta": 10.0},
        {"eta": 0.01},
        {"beta1": 0.0, "margin": 0.25},
        {"beta1": 5.0, "n_passes": 1},
        {"init": "coupled", "init_positive": "margin", "tau": 0.75},
        {"unused": "reseed"},
    ],
    ids=str,
)
@pytest.mark.parametrize("preset", ["paper", "published"])
def test_objective_never_rises_under_the_presets(data, preset, options):
    small = {"init_iter": 2, "max_iter": 5, "random_state": 1}
    fitted = MCDL(40, **gathered(preset, **small, **options)).fit(data.X, data.Y)
    assert_never_rises(fitted.objective_)
    assert fitted.semantic_prototypes_.data.min(initial=0) >= 0
    assert fitted.semantic_prototypes_.data.max(initial=0) <= np.float32(fitted.v)


def test_objective_never_rises_where_screening_happens():
    data = planted(n=900, t=12, k=260, m=24, mixed=4, random_state=4)
    fitted = model(n_prototypes=300, max_iter=3).fit(data.X, data.Y)
    assert_never_rises(fitted.objective_)
    assert fitted.codes_gap_ <= 1e-5


@pytest.mark.parametrize("image_weight", ["tags", "uniform"])
@pytest.mark.parametrize("loss", ["squared_hinge", "squared"])
def test_objective_is_that_of_the_method(data, loss, image_weight):
    """Without iterations the state is known from outside: prototypes and visual codes."""
    fitted = model(max_iter=0, loss=loss, image_weight=image_weight, eta=0.7).fit(data.X, data.Y)
    codes = Coder(fitted.visual_prototypes_).encode(data.X).codes.toarray()
    Y = data.Y.toarray()
    tags = Y.sum(axis=1)
    terms = oracles.objective(
        data.X, Y, fitted.visual_prototypes_, fitted.semantic_prototypes_.toarray(), codes,
        loss=oracles.Loss(0.5, 0.5) if loss == "squared_hinge" else oracles.Loss(0.0, None),
        lam=0.7**2 / 10,
        p=np.maximum(tags, 1) if image_weight == "tags" else np.ones(240),
        beta1=0.15,
    )  # fmt: skip
    assert_allclose(fitted.objective_.tolist()[0], [*terms, sum(terms)], rtol=1e-5)
    assert len(fitted.objective_) == 1
    assert fitted.n_iter_ == 0


def test_terms_add_up(data):
    fitted = model().fit(data.X, data.Y)
    objective = fitted.objective_
    assert objective.dtype.names == ("visual", "loss", "sparsity", "total")
    assert_allclose(
        objective["visual"] + objective["loss"] + objective["sparsity"], objective["total"]
    )
    by_tag = objective["loss"][-1] + objective["sparsity"][-1]
    assert fitted.tag_objective_.shape == (10,)
    assert_allclose(fitted.tag_objective_.sum(), by_tag, rtol=1e-5)


# -- reductions ------------------------------------------------------------------------------------


def twin_of_udl(data, k, init_iter, iterations=0):
    """What UDL learns, and the orders of the iterations that follow.

    A fit draws from one stream for each iteration, [seed, iteration]; 0 is the initialisation.
    """
    seed = int(np.random.RandomState(0).randint(2**31 - 1))
    rng = np.random.default_rng([seed, 0])
    centres = k_means(data.X, k, rng)
    start = oracles.udl(
        data.X, data.Y.toarray(), centres, [rng.permutation(k) for _ in range(init_iter)]
    )
    streams = [np.random.default_rng([seed, 1 + number]) for number in range(iterations)]
    return start, [(rng.permutation(k), rng.permutation(k)) for rng in streams]


@pytest.fixture(scope="module")
def tiny():
    return planted(n=60, t=6, k=10, m=8, random_state=0)


def test_udl_is_mcdl_without_iterations_and_equals_its_reference(tiny):
    udl = MCDL.udl(12, init_iter=3, random_state=0).fit(tiny.X, tiny.Y)
    same_bits(udl, MCDL(12, max_iter=0, init_iter=3, random_state=0).fit(tiny.X, tiny.Y))
    (D, S, _), _ = twin_of_udl(tiny, 12, 3)
    assert_allclose(udl.visual_prototypes_, D, atol=1e-5)
    assert_allclose(udl.semantic_prototypes_.toarray(), S, atol=1e-4)


def test_cdl_is_mcdl_configured(tiny):
    settings = {"init_iter": 1, "max_iter": 3, "random_state": 0}
    configured = MCDL(12, loss="squared", beta1=0.0, **settings)
    same_bits(MCDL.cdl(12, **settings).fit(tiny.X, tiny.Y), configured.fit(tiny.X, tiny.Y))


@pytest.mark.parametrize("recipe", ["paper", "cdl"])
def test_the_whole_algorithm_equals_its_reference(tiny, recipe):
    settings = {"init_iter": 1, "max_iter": 3, "n_passes": 2, "random_state": 0}
    fitted = getattr(MCDL, recipe)(12, **settings).fit(tiny.X, tiny.Y)
    start, orders = twin_of_udl(tiny, 12, 1, 3)
    options = {"eta": 0.5, "passes": 2, "rho": 0.1}
    Y, loss, beta1 = tiny.Y.toarray(), oracles.Loss(0.0, None), 0.0
    if recipe == "cdl":
        D, S, A = oracles.cdl(tiny.X, Y, *start, orders, **options)
    else:
        loss, beta1 = oracles.Loss(0.5, 0.5), 0.15
        D, S, A = oracles.mcdl(tiny.X, Y, *start, orders, loss=loss, beta1=beta1, **options)
    assert_allclose(fitted.visual_prototypes_, D, atol=1e-4)
    assert_allclose(fitted.semantic_prototypes_.toarray(), S, atol=1e-3)
    p = np.maximum(Y.sum(axis=1), 1)
    terms = oracles.objective(tiny.X, Y, D, S, A, loss=loss, lam=0.25 / 6, p=p, beta1=beta1)
    assert_allclose(fitted.objective_.tolist()[-1], [*terms, sum(terms)], rtol=1e-4)


def test_presets_are_the_recipes_of_the_method():
    paper, published = MCDL.paper(), MCDL.published()
    X, Y = np.eye(3, dtype=np.float32), sparse.csr_array(np.eye(3, dtype=np.float32))
    assert paper._problem(X, Y).semantics.loss == (1.0, 0.0, True)  # tau = 0.25 + C / 2
    assert published._problem(X, Y).semantics.loss == (1.25, 0.25, True)  # tau = 0.25 + C
    for name, of_paper, of_code in [
        ("image_weight", "tags", "uniform"),
        ("init", "visual", "coupled"),
        ("init_positive", "one", "margin"),
        ("drop", 0.0, 0.001),
        ("norm", "ball", "sphere"),
        ("rescale", False, True),
        ("unused", "leave", "zero"),
    ]:
        assert getattr(RECIPES[paper.recipe], name) == of_paper
        assert getattr(RECIPES[published.recipe], name) == of_code
    for preset in (paper, published):
        assert (preset.beta0, preset.v, preset.max_iter, preset.n_passes) == (1, 5, 15, 4)
        assert (preset.max_nonzeros, preset.init_iter) == (20, 100)
        assert (preset.n_prototypes, preset.threshold) == (0.2, "global")
    narrow = MCDL.published(margin=0.25)._problem(X, Y).semantics.loss
    assert (narrow.present, narrow.absent) == (0.75, 0.25)
    assert MCDL.paper(50, eta=2.0).get_params()["eta"] == 2.0


# -- agreement -------------------------------------------------------------------------------------


@pytest.mark.parametrize("preset", [MCDL.paper, MCDL.published])
def test_many_threads_give_the_same_bits_as_one(preset):
    data = planted(n=1100, t=20, k=60, random_state=2)
    one, two = (
        preset(220, init_iter=1, max_iter=2, n_jobs=n_jobs, random_state=0).fit(data.X, data.Y)
        for n_jobs in (1, 2)
    )
    same_bits(one, two)
    assert_array_equal(one.decision_function(data.X), two.decision_function(data.X))


def test_the_seed_decides(data):
    same_bits(model().fit(data.X, data.Y), model().fit(data.X, data.Y))
    other = model(random_state=1).fit(data.X, data.Y)
    assert not np.array_equal(
        model().fit(data.X, data.Y).visual_prototypes_, other.visual_prototypes_
    )


@pytest.mark.parametrize(
    "tags",
    [
        lambda Y: Y.toarray(),
        lambda Y: Y.toarray() > 0,
        lambda Y: Y.toarray().astype(np.int8),
        lambda Y: np.asfortranarray(Y.toarray()),
        lambda Y: Y.toarray().tolist(),
        sparse.csc_array,
        sparse.coo_array,
        sparse.csr_matrix,
        lambda Y: Y.astype(bool),
        lambda Y: Y.astype(np.int64),
    ],
    ids=["dense", "bool", "int8", "Fortran", "list", "CSC", "COO", "matrix", "CSR bool", "CSR int"],
)
def test_tags_may_come_in_any_form(data, tags):
    same_bits(model().fit(data.X, data.Y), model().fit(data.X, tags(data.Y)))


def test_explicit_zeros_are_absent_tags(data):
    Y = data.Y.toarray()
    full = sparse.csr_array((Y.ravel(), np.tile(np.arange(10), 240), np.arange(0, 2401, 10)))
    assert full.nnz == 2400
    same_bits(model().fit(data.X, data.Y), model().fit(data.X, full))


def test_layouts_are_accepted_and_nothing_given_is_changed(data):
    expected = model().fit(data.X, data.Y)
    Y = data.Y.copy()
    for layout in (np.asfortranarray, lambda X: np.repeat(X, 2, axis=1)[:, ::2], np.copy):
        X = layout(data.X)
        X.flags.writeable = False
        for part in (Y.data, Y.indices, Y.indptr):
            part.flags.writeable = False
        fitted = model().fit(X, Y)
        same_bits(expected, fitted)
        assert_array_equal(fitted.decision_function(X), expected.decision_function(data.X))
        assert_array_equal(X, data.X)
        assert_array_equal(Y.toarray(), data.Y.toarray())


def test_float64_agrees_with_float32(data):
    single = model().fit(data.X, data.Y)
    double = model().fit(data.X.astype(np.float64), data.Y)
    assert_allclose(double.objective_["total"], single.objective_["total"], rtol=1e-4)
    assert_allclose(double.visual_prototypes_, single.visual_prototypes_, atol=2e-3)


@pytest.mark.parametrize("scale", [1e-310, 1e-30, 1e30, 1e300])
def test_the_length_of_vectors_does_not_matter(data, scale):
    X = data.X.astype(np.float64)
    fitted = model(max_iter=1).fit(X, data.Y)
    assert_allclose(fitted.decision_function(X * scale), fitted.decision_function(X), atol=1e-4)
    scaled = model(max_iter=1).fit(X * scale, data.Y)
    assert_allclose(scaled.objective_["total"], fitted.objective_["total"], rtol=1e-4)


# -- what it learns --------------------------------------------------------------------------------


def test_it_learns_planted_tags_far_better_than_chance():
    data = planted(n=1200, t=15, k=30, m=24, noise=0.3, random_state=5)
    train, test = slice(0, 900), slice(900, None)
    fitted = MCDL(120, random_state=0).fit(data.X[train], data.Y[train])
    f1 = fitted.score(data.X[test], data.Y_true[test])
    common = np.tile(data.Y[train].toarray().mean(axis=0), (300, 1))
    chance = metrics.f1_of_means(data.Y_true[test], metrics.top_tags(common, 5))
    assert f1 > 0.7
    assert f1 > chance + 0.3
    assert (
        metrics.mean_average_precision(data.Y_true[test], fitted.decision_function(data.X[test]))
        > 0.7
    )


def test_codes_gap_certifies_the_codes(data):
    fitted = model(max_nonzeros=30).fit(data.X, data.Y)
    codes = fitted.transform(data.X).toarray()
    gaps = [
        oracles.gap(x, fitted.visual_prototypes_, a) for x, a in zip(data.X, codes, strict=True)
    ]
    assert 0 <= max(gaps) <= 1e-5
    assert fitted.codes_gap_ == pytest.approx(max(gaps), abs=2e-6)
    assert (fitted.n_capped_, fitted.n_stalled_) == (0, 0)
    assert model(max_nonzeros=1).fit(data.X, data.Y).n_capped_ > 0


# -- progress --------------------------------------------------------------------------------------


def test_progress_is_reported_every_iteration(data):
    told = []
    fitted = model(progress=told.append).fit(data.X, data.Y)
    assert all(isinstance(word, Event) for word in told)
    assert [word.done for word in told] == [0, 1, 2, 3, 4]
    assert {word.total for word in told} == {4}
    said = [float(word.message.removeprefix("objective ")) for word in told]
    assert_allclose(said, fitted.objective_["total"], rtol=1e-8)
    assert told[0].seconds_left is None  # no iteration has shown yet how long one takes
    assert all(word.seconds_left > 0 for word in told[1:-1])
    assert told[-1].seconds_left == 0


def test_silent_by_default(data, capfd):
    model().fit(data.X, data.Y).predict(data.X)
    assert capfd.readouterr() == ("", "")


def test_no_prototype_without_tags_catches_an_image():
    """Four images, thirty times each, and more prototypes than pictures: none may lose its tags."""
    data = planted(n=120, t=6, k=10, m=8, random_state=0)
    X, Y = np.repeat(data.X[:4], 30, axis=0), data.Y[np.repeat(np.arange(4), 30)]
    model = MCDL(15, **gathered(max_iter=2, init_iter=1, unused="reseed"), random_state=0).fit(X, Y)
    assert (model.decision_function(data.X[:4]).max(axis=1) > 0.1).all()
