"""Compared encoders and their data: the coder, SPAMS at its fastest settings, and X D^T."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.collections import Collection

CAP = 20
SEED = 0
Code = Callable[[np.ndarray], object]


def prototypes(data: Collection, k: int) -> np.ndarray:
    """Return k training vectors, continued by vectors of other crops of the same images."""
    pool = data.X if k <= len(data.X) else np.vstack([data.X, data.X_more])
    rows = np.random.default_rng(SEED).permutation(len(pool))[:k]
    return np.ascontiguousarray(pool[rows])


def images(data: Collection, n: int) -> np.ndarray:
    """Return n vectors that are not prototypes: test images, then other training crops."""
    pool = np.vstack([data.X_test, data.X_more[::-1]]) if n > len(data.X_test) else data.X_test
    return np.ascontiguousarray(pool[:n])


def spams_prepared(D: np.ndarray) -> Code | None:
    """SPAMS with its Gram matrix ready; the products with the images are inside the clock."""
    spams = _spams()
    if spams is None:
        return None
    gram = (D @ D.T).T  # in the order that SPAMS wants, without a copy

    def code(X: np.ndarray) -> object:
        columns, product = np.asfortranarray(X.T), np.asfortranarray(D @ X.T)
        return spams.lasso(columns, Q=gram, q=product, **_settings(1))

    return code


def spams_one_call(D: np.ndarray, *, cholesky: bool, threads: int = 1) -> Code | None:
    """SPAMS from vectors and prototypes. Which way of solving is faster depends on the numbers."""
    spams = _spams()
    if spams is None:
        return None

    def code(X: np.ndarray) -> object:
        columns, atoms = np.asfortranarray(X.T), np.asfortranarray(D.T)
        return spams.lasso(columns, D=atoms, cholesky=cholesky, **_settings(threads))

    return code


def sklearn_one_call(D: np.ndarray) -> Code:
    from sklearn.decomposition import sparse_encode

    return lambda X: sparse_encode(X, D, algorithm="lasso_lars", alpha=0.1, positive=True)


def _settings(threads: int) -> dict[str, object]:
    return {"lambda1": 1.0, "mode": 0, "pos": True, "L": CAP, "numThreads": threads}


def _spams():
    try:
        import spams
    except ImportError:
        return None
    return spams
