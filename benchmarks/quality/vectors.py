"""Raw network vectors with the split of the collection."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import numpy as np
from scipy import sparse

from benchmarks.collections import DATA
from prototag import FeatureExtractor
from prototag.research.datasets import clipart

FILES = {
    "whole": ("iaprtc12_lite0_whole.npz",),
    "whole+five": ("iaprtc12_lite0_whole.npz", "iaprtc12_lite0_five.npz"),
    "large": ("iaprtc12_lite0_large.npz",),
    "large+inner": ("iaprtc12_lite0_large.npz",),
    "coco": ("coco56k_lite0_pca256.npz",),
}


class Vectors(NamedTuple):
    name: str
    X: np.ndarray
    Y: sparse.csr_array
    X_test: np.ndarray
    Y_test: sparse.csr_array
    checksum: dict[str, str]
    feature_groups: tuple[int, ...] = ()  # widths, if there are several network outputs


def read(name: str, most: int | None = None, seed: int = 0) -> Vectors:
    """The collection ``name``; of its training images at most ``most``, drawn by ``seed``."""
    X, Y, train, test, checksum = _embedded() if name.startswith("clipart") else _stored(name)
    if name == "clipart-last":  # for methods without weights of feature groups
        X = X[:, :1280]
    feature_groups = (1280, X.shape[1] - 1280) if name in ("large+inner", "clipart") else ()
    if most is not None and most < len(train):
        train = np.sort(np.random.default_rng(seed).permutation(train)[:most])
    return Vectors(name, X[train], Y[train], X[test], Y[test], checksum, feature_groups)


def _embedded() -> tuple:
    """Clip art as the package extracts it; the second time from the user's cache."""
    collection = clipart()
    X = FeatureExtractor().transform(collection.images)
    return X, collection.Y, collection.train, collection.test, {"clipart": collection.checksum}


def _stored(name: str) -> tuple:
    parts, checksum = [], {}
    for file_name in FILES[name]:
        path = DATA / file_name
        checksum[file_name] = hashlib.sha256(path.read_bytes()).hexdigest()
        with np.load(path, allow_pickle=False) as file:
            parts.append(file["X"].astype(np.float32))
            if name == "large+inner":
                parts.append(file["mid"].astype(np.float32))
            bits = np.unpackbits(file["label_bits"], axis=1)[:, : int(file["n_tags"])]
            train, test = file["train_idx"], file["test_idx"]
    return np.hstack(parts), sparse.csr_array(bits.astype(np.float32)), train, test, checksum
