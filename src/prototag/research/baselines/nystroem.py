"""Features whose inner products are a Gaussian kernel, from a part of the images or from all."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from prototag.arrays import Array, Floats
from prototag.coding.rbf_kernel import rbf_kernel
from prototag.engine import Threads, map_rows, single_threaded_blas

ROWS = 1024
FLOOR = 1e-6  # of the largest eigenvalue: below it float32 knows no direction


class Map(NamedTuple):
    """``f(x) = k(x, landmarks) K^(-1/2)``, with k(x, d) = exp(-gamma ||x - d||^2 / mean).

    Within the span of the landmarks f(x).f(y) is k(x, y): exact if all images are landmarks, the
    approximation of Nystroem otherwise.
    """

    landmarks: Floats  # l x m
    root: Floats  # l x r
    gamma: float  # for squared distances as they are

    def transform(self, X: Floats, n_jobs: int | None = None) -> Floats:
        return map_rows(Threads(n_jobs), transform_block, [X], [self], size=ROWS)


def likeness(X: Array, landmarks: Floats, gamma: float) -> Array:
    """``exp(-gamma ||x - d||^2)`` of each image and landmark, in the precision of X."""
    return np.asarray(rbf_kernel(X, landmarks.astype(X.dtype), gamma))


def transform_block(x: Floats, features: Map) -> Floats:
    return np.asarray(likeness(x, features.landmarks, features.gamma) @ features.root)


def gaussian(X: Floats, gamma: float, n_landmarks: int, rng: np.random.RandomState | Any) -> Map:
    """The map of images X; gamma is in units of their mean squared distance."""
    from scipy import linalg

    chosen: npt.NDArray[np.intp] = np.arange(len(X))
    if n_landmarks < len(X):
        chosen = np.sort(rng.permutation(len(X))[:n_landmarks])
    mean = 2 * float(X.var(axis=0, dtype=np.float64).sum())
    width = gamma / (mean if mean > 0 else 1)
    landmarks = np.ascontiguousarray(X[chosen])
    with single_threaded_blas():
        K = rbf_kernel(landmarks, landmarks, width).astype(np.float64)
        value, vector = linalg.eigh(K, check_finite=False)
        kept = value > FLOOR * value[-1]
        root = vector[:, kept] / np.sqrt(value[kept])
    return Map(landmarks, root.astype(np.float32), width)
