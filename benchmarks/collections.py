"""Vectors for benchmarks: IAPRTC-12 if it is available, else synthetic data."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import sparse

from prototag.research.datasets import planted

DATA = Path(os.environ.get("PROTOTAG_DATA", Path(__file__).parents[2] / "shared" / "data"))


class Collection(NamedTuple):
    name: str
    X: np.ndarray  # training vectors, unit length
    Y: sparse.csr_array
    X_test: np.ndarray
    Y_test: sparse.csr_array
    X_more: np.ndarray  # further vectors of the same space, for large dictionaries
    checksum: str  # of the file, or how the data were drawn


def _tags(file) -> np.ndarray:
    return np.unpackbits(file["label_bits"], axis=1)[:, : int(file["n_tags"])].astype(np.float32)


def iaprtc12(m: int = 200) -> Collection | None:
    """Whole-image vectors: z-score, PCA, unit norm, fitted on the training part."""
    whole, five = (DATA / f"iaprtc12_lite0_{name}.npz" for name in ("whole", "five"))
    if not (whole.exists() and five.exists()):
        return None
    with np.load(whole, allow_pickle=False) as file:
        raw, Y = file["X"].astype(np.float32), _tags(file)
        train, test = file["train_idx"], file["test_idx"]
    with np.load(five, allow_pickle=False) as file:
        more = file["X"][train].astype(np.float32)
    mean, scale = raw[train].mean(axis=0), np.maximum(raw[train].std(axis=0), 1e-6)
    standard = (raw[train] - mean) / scale
    axes = np.linalg.eigh((standard.T @ standard).astype(np.float64))[1][:, ::-1][:, :m]

    def reduce(vectors: np.ndarray) -> np.ndarray:
        reduced = ((vectors - mean) / scale) @ axes.astype(np.float32)
        return np.ascontiguousarray(reduced / np.linalg.norm(reduced, axis=1, keepdims=True))

    return Collection(
        "IAPRTC-12, EfficientNet-Lite0, whole image, PCA 200",
        reduce(raw[train]),
        sparse.csr_array(Y[train]),
        reduce(raw[test]),
        sparse.csr_array(Y[test]),
        reduce(more),
        hashlib.sha256(whole.read_bytes()).hexdigest(),
    )


def stand_in(n: int = 17_665, t: int = 291, m: int = 200, seed: int = 0) -> Collection:
    """Planted data of the same size."""
    data = planted(2 * n + 2000, t, n // 4, m=m, mixed=6, noise=0.6, random_state=seed)
    a, b = n, 2 * n
    return Collection(
        f"planted, n={n}, t={t}, m={m}, seed={seed}",
        data.X[:a],
        data.Y[:a],
        data.X[b:],
        data.Y[b:],
        data.X[a:b],
        f"planted seed {seed}",
    )


def best_at_hand() -> Collection:
    return iaprtc12() or stand_in()
