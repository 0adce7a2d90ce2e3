"""The transformers keep scikit-learn's rules and agree with its own StandardScaler and PCA."""

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler, normalize
from sklearn.utils.estimator_checks import parametrize_with_checks

from prototag.tagging.reduction import PrincipalAxes, Reduction, UnitNorm, ZScore


@parametrize_with_checks(
    [
        ZScore(),
        UnitNorm(),
        PrincipalAxes(),
        PrincipalAxes(2, solver="exact"),
        PrincipalAxes(2, solver="incremental"),
        PrincipalAxes(2, solver="randomized"),
        Reduction(),
    ]
)
def test_scikit_learn_rules(estimator, check) -> None:
    check(estimator)


def spread(n: int, m: int, dtype: type = np.float64) -> np.ndarray:
    """Rows with a quickly falling spectrum, far from the origin."""
    rng = np.random.default_rng(0)
    axes = np.linalg.qr(rng.standard_normal((m, m)))[0]
    return ((rng.standard_normal((n, m)) * 0.8 ** np.arange(m)) @ axes + 3).astype(dtype)


def test_zscore_is_standard_scaler_in_one_piece_or_many() -> None:
    X = spread(9000, 5)
    X[:, 2] = 0.1  # constant
    expected = StandardScaler().fit_transform(X)
    np.testing.assert_allclose(ZScore().fit(X).transform(X), expected, atol=1e-9)
    pieces = ZScore()
    for part in np.array_split(X, 7):
        pieces.partial_fit(part)
    np.testing.assert_allclose(pieces.transform(X), expected, atol=1e-9)


@pytest.mark.parametrize("solver", ["exact", "incremental", "randomized", "auto"])
@pytest.mark.parametrize("shape", [(9000, 40), (60, 40), (30, 40)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_axes_are_those_of_pca(solver: str, shape: tuple[int, int], dtype: type) -> None:
    X = spread(*shape, dtype)
    axes = PrincipalAxes(10, solver=solver, random_state=0).fit(X)
    judge = PCA(10, svd_solver="full").fit(X.astype(np.float64))
    bound = 1e-3 if dtype is np.float32 else 1e-6
    np.testing.assert_allclose(axes.explained_variance_, judge.explained_variance_, rtol=bound)
    np.testing.assert_allclose(
        axes.explained_variance_ratio_, judge.explained_variance_ratio_, rtol=bound
    )
    same = np.abs((axes.components_ * judge.components_).sum(axis=1))
    assert same.min() > 1 - bound
    assert axes.transform(X).dtype == dtype


def test_partial_fit_is_fit() -> None:
    X = spread(500, 30)
    pieces = PrincipalAxes(8)
    for part in np.array_split(X, 6):
        pieces.partial_fit(part)
    whole = PrincipalAxes(8, solver="exact").fit(X)
    np.testing.assert_allclose(pieces.transform(X), whole.transform(X), atol=1e-8)


def test_partial_fit_requires_the_incremental_solver() -> None:
    axes = PrincipalAxes(3).fit(spread(10, 20))
    with pytest.raises(ValueError, match=r"partial_fit cannot continue.*solver='incremental'"):
        axes.partial_fit(spread(10, 20))


def test_fewer_rows_than_axes_keep_what_rows_span() -> None:
    assert PrincipalAxes().fit(spread(12, 30)).transform(spread(5, 30)).shape == (5, 11)


@pytest.mark.parametrize("solver", ["auto", "exact", "randomized"])
def test_reduction_is_the_three_steps(solver: str) -> None:
    X = spread(5000, 24, np.float32)
    steps = [ZScore(), PrincipalAxes(6, solver=solver, random_state=0), UnitNorm()]
    expected = X
    for step in steps:
        expected = step.fit(expected).transform(expected)
    short = Reduction(6, solver=solver, random_state=0).fit(X).transform(X)
    np.testing.assert_allclose(short, expected, atol=2e-4)
    judge = normalize(PCA(6, svd_solver="full").fit_transform(StandardScaler().fit_transform(X)))
    np.testing.assert_allclose(np.abs((short * judge).sum(axis=1)), 1, atol=1e-3)
    np.testing.assert_allclose(np.linalg.norm(short, axis=1), 1, atol=1e-5)


def test_reduction_reads_memory_maps(tmp_path) -> None:
    X = spread(3000, 12, np.float32)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    assert np.array_equal(
        Reduction(4).fit(mapped).transform(mapped), Reduction(4).fit(X).transform(X)
    )


def test_bad_parameters_are_named() -> None:
    for bad in ({"n_components": 0}, {"solver": "fast"}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            Reduction(**bad).fit(spread(10, 3))
