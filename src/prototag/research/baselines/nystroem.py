"""Nystroem features of a Gaussian kernel, from landmark images or from all images."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from prototag.arrays import Array, Floats, rowwise_matmul
from prototag.coding.rbf_kernel import rbf_kernel
from prototag.engine import Threads, map_rows, single_threaded_blas

BATCH_IMAGES = 1024
MIN_EIGENVALUE = 1e-6  # relative to the largest; smaller ones are below the accuracy of float32


class Map(NamedTuple):
    """``f(x) = k(x, landmarks) K^(-1/2)``, with k(x, d) = exp(-gamma ||x - d||^2 / mean).

    In the span of the landmarks f(x).f(y) equals k(x, y): exactly if all images are landmarks, and
    as the Nystroem approximation otherwise.
    """

    landmarks: Floats  # l x m
    root: Floats  # l x r
    gamma: float  # for unscaled squared distances

    def transform(self, X: Floats, n_jobs: int | None = None) -> Floats:
        return map_rows(Threads(n_jobs), transform_batch, [X], [self], size=BATCH_IMAGES)


def gaussian_kernel(X: Array, landmarks: Floats, gamma: float) -> Array:
    """Return ``exp(-gamma ||x - d||^2)`` of each image and landmark, in the precision of X."""
    return np.asarray(rbf_kernel(X, landmarks.astype(X.dtype), gamma))


def transform_batch(x: Floats, features: Map) -> Floats:
    """Return the features of a batch of images."""
    return rowwise_matmul(gaussian_kernel(x, features.landmarks, features.gamma), features.root)


def fit(X: Floats, gamma: float, n_landmarks: int, rng: np.random.RandomState | Any) -> Map:
    """Fit the map to images X; gamma is in units of their mean squared distance."""
    from scipy import linalg

    rows: npt.NDArray[np.intp] = np.arange(len(X))
    if n_landmarks < len(X):
        rows = np.sort(rng.permutation(len(X))[:n_landmarks])
    mean = 2 * float(X.var(axis=0, dtype=np.float64).sum())
    width = gamma / (mean if mean > 0 else 1)
    landmarks = np.ascontiguousarray(X[rows])
    with single_threaded_blas():
        K = rbf_kernel(landmarks, landmarks, width).astype(np.float64)
        value, vector = linalg.eigh(K, check_finite=False)
        kept = value > MIN_EIGENVALUE * value[-1]
        root = vector[:, kept] / np.sqrt(value[kept])
    return Map(landmarks, np.ascontiguousarray(root, np.float32), width)
