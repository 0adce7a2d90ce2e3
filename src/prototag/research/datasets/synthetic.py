"""Synthetic data with known ground truth: mixtures of prototypes, long-tailed incomplete tags.

As in real collections, few tags are on many images and most on few, images mix a few prototypes,
and some correct tags are missing.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.utils import check_random_state

from prototag.arrays import Array
from prototag.errors import InputError
from prototag.evaluation.splits import stratified_split
from prototag.research.datasets.collection import Collection, Seed

LegacySeed = int | np.random.RandomState | None  # what scikit-learn takes
# Temporary arrays of a batch are small compared with the vectors.
_BATCH_IMAGES = 1 << 14


@dataclass(frozen=True)
class Planted:
    """A synthetic collection with its ground truth."""

    X: npt.NDArray[np.float32]  # n x m, unit length
    Y: sparse.csr_array  # n x t, the given tags
    Y_true: sparse.csr_array  # n x t, the correct tags
    prototypes: npt.NDArray[np.float32]  # k x m
    semantics: sparse.csr_array  # k x t, 0/1
    codes: sparse.csr_array  # n x k
    tag_names: list[str]

    def collection(self, test_share: float = 0.3, *, random_state: Seed = 0) -> Collection:
        """Return a data set with the given tags for training and the correct tags for testing."""
        train, test = stratified_split(self.Y_true, test_share, random_state=random_state)
        is_test = np.zeros((len(self.X), 1), np.float32)
        is_test[test] = 1
        Y = sparse.csr_array(self.Y.multiply(1 - is_test) + self.Y_true.multiply(is_test))
        Y.eliminate_zeros()
        digest = hashlib.sha256()
        for part in (self.X, Y.indptr.astype(np.int64), Y.indices.astype(np.int64)):
            digest.update(np.ascontiguousarray(part).data)
        return Collection(
            name="planted",
            Y=Y,
            tags=self.tag_names,
            train=train,
            test=test,
            X=self.X,
            source=f"prototag.research.datasets.synthetic, {self.codes.shape[1]:,} prototypes",
            checksum=digest.hexdigest(),
        )


def planted(
    n: int = 1000,
    t: int = 30,
    k: int = 60,
    *,
    m: int = 50,
    mixed: int = 3,
    tags_per_prototype: int = 3,
    noise: float = 0.2,
    missing: float = 0.0,
    random_state: LegacySeed = None,
) -> Planted:
    """Draw a collection of ``n`` images with ``t`` tags from ``k`` prototypes.

    Parameters
    ----------
    n : int, default=1000
        The number of images.
    t : int, default=30
        The number of tags.
    k : int, default=60
        The number of prototypes.
    m : int, default=50
        The width of the vectors.
    mixed : int, default=3
        The largest number of prototypes in an image.
    tags_per_prototype : int, default=3
        The largest number of tags of a prototype, drawn from a long-tailed distribution.
    noise : float, default=0.2
        The length of the random part of a vector, relative to its mixture of unit length.
    missing : float, default=0.0
        The share of correct tags that are missing.
    random_state : int, RandomState or None

    Returns
    -------
    Planted
        Time is proportional to ``n``; memory is about twice that of the vectors.
    """
    for name, value in (("n", n), ("t", t), ("k", k), ("m", m), ("mixed", mixed)):
        if value < 1:
            raise InputError(f"{name}={value}: at least 1 is needed.")
    if not 0 <= missing < 1:
        raise InputError(f"missing={missing}: give a share from 0 up to, but not including, 1.")
    rng = check_random_state(random_state)
    D = rng.standard_normal((k, m)).astype(np.float32)
    D /= np.linalg.norm(D, axis=1, keepdims=True)

    tail = 1.0 / np.arange(1, t + 1)
    count = rng.randint(1, min(tags_per_prototype, t) + 1, size=k)
    order = np.argsort(np.log(tail) + rng.gumbel(size=(k, t)), axis=1)[:, ::-1]
    rows = np.repeat(np.arange(k), count)
    columns = np.concatenate([order[i, : count[i]] for i in range(k)])
    # Every tag gets at least one prototype.
    unused = np.setdiff1d(np.arange(t), columns)
    rows = np.append(rows, rng.randint(k, size=len(unused)))
    columns = np.append(columns, unused)
    semantics = _binary(rows, columns, (k, t))

    parts = rng.randint(1, min(mixed, k) + 1, size=n)
    rows = np.repeat(np.arange(n), parts)
    columns = rng.randint(k, size=len(rows))
    weight = rng.uniform(0.5, 1.0, size=len(rows)).astype(np.float32)
    codes = sparse.coo_array((weight, (rows, columns)), shape=(n, k)).tocsr()
    total = np.asarray(codes.sum(axis=1)).ravel()
    codes.data *= np.repeat((1 / total).astype(np.float32), np.diff(codes.indptr))
    X = np.empty((n, m), np.float32)
    for start in range(0, n, _BATCH_IMAGES):
        batch = X[start : start + _BATCH_IMAGES]
        batch[:] = codes[start : start + _BATCH_IMAGES] @ D
        batch /= np.linalg.norm(batch, axis=1, keepdims=True)
        batch += noise / np.sqrt(m) * rng.standard_normal(batch.shape).astype(np.float32)
        batch /= np.linalg.norm(batch, axis=1, keepdims=True)

    mixed_prototypes = sparse.csr_array(
        (np.ones_like(codes.data), codes.indices, codes.indptr), codes.shape
    )
    Y_true = mixed_prototypes @ semantics
    Y_true.data[:] = 1
    names = [f"tag{number:03d}" for number in range(t)]
    return Planted(X, _hide(Y_true.copy(), missing, rng), Y_true, D, semantics, codes, names)


def hide_tags(Y: Any, share: float, random_state: LegacySeed = None) -> sparse.csr_array:
    """Hide tags at random, to simulate missing tags.

    Parameters
    ----------
    Y : array or sparse matrix of shape (n, t), 0/1
        Not modified.
    share : float
        The probability that a tag is hidden, from 0 up to, but not including, 1.
    random_state : int, RandomState or None

    Returns
    -------
    csr_array of shape (n, t), float32
        1 for remaining tags. An image may lose all of its tags.
    """
    if not 0 <= share < 1:
        raise InputError(f"share={share}: give a share from 0 up to, but not including, 1.")
    remaining = sparse.csr_array(Y, dtype=np.float32, copy=True)
    remaining.sum_duplicates()  # a canonical order, so that only the seed determines the result
    remaining.eliminate_zeros()
    return _hide(remaining, share, check_random_state(random_state))


def _hide(Y: sparse.csr_array, share: float, rng: np.random.RandomState) -> sparse.csr_array:
    Y.data[rng.uniform(size=Y.nnz) < share] = 0
    Y.eliminate_zeros()
    return Y


def _binary(rows: Array, columns: Array, shape: tuple[int, int]) -> sparse.csr_array:
    matrix = sparse.coo_array((np.ones(len(rows), np.float32), (rows, columns)), shape=shape)
    binary = matrix.tocsr()
    binary.data[:] = 1
    return binary
