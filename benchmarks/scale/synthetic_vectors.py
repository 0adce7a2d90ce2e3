"""Synthetic vectors on disk: noisy mixtures of a few of 800 scenes, with the tags of these."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from scipy import sparse

from prototag.storage.npy_rows import StoredRows

SCENES, MIXED, COLUMNS, TAGS = 800, 3, 1280, 500
PIECE = 8_192
FORGOTTEN, NOISE = 0.2, 0.9


def _scenes(seed: int, t: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    D = np.maximum(rng.standard_normal((SCENES, COLUMNS)), 0).astype(np.float32)
    popular = 1 / np.arange(1, t + 1) ** 0.7
    S = np.zeros((SCENES, t), bool)
    for scene in range(SCENES):
        S[scene, rng.choice(t, 4, replace=False, p=popular / popular.sum())] = True
    return D, S


def piece(number: int, rows: int, seed: int, t: int = TAGS) -> tuple[np.ndarray, sparse.csr_array]:
    """Vectors and tags of one piece: the same for the same number and seed."""
    D, S = _scenes(seed, t)
    rng = np.random.default_rng([seed, number])
    chosen = rng.integers(SCENES, size=(rows, MIXED))
    share = rng.dirichlet(np.ones(MIXED), size=rows).astype(np.float32)
    X = np.einsum("rs,rsm->rm", share, D[chosen]) if rows < 64 else _mixed(share, chosen, D)
    X += NOISE * np.abs(rng.standard_normal(X.shape, np.float32))
    seen = (share > 0.25)[:, :, None] & S[chosen]
    tags = seen.any(axis=1) & (rng.random((rows, t), np.float32) >= FORGOTTEN)
    return X, sparse.csr_array(tags.astype(np.float32))


def _mixed(share: np.ndarray, chosen: np.ndarray, D: np.ndarray) -> np.ndarray:
    X = np.zeros((len(share), D.shape[1]), np.float32)
    for place in range(MIXED):
        X += share[:, place, None] * D[chosen[:, place]]
    return X


def written(
    folder: Path, n: int, seed: int = 0, t: int = TAGS
) -> tuple[StoredRows, sparse.csr_array]:
    """The first n planted images, written where they are not there yet."""
    folder.mkdir(parents=True, exist_ok=True)
    paths, tags = [], []
    for number, start in enumerate(range(0, n, PIECE)):
        rows = min(PIECE, n - start)
        path = folder / f"{number:05}-{rows}.npy"
        named = folder / f"{number:05}-{rows}.tags.npz"
        if not named.exists():
            X, Y = piece(number, PIECE, seed, t)
            np.save(path, X[:rows])
            sparse.save_npz(named, sparse.csr_array(Y[:rows]))
        paths.append(path)
        tags.append(sparse.load_npz(named))
    (folder / "planted.json").write_text(json.dumps({"seed": seed}))
    return StoredRows.from_files(paths), sparse.csr_array(sparse.vstack(tags, "csr"))
