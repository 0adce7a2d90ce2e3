"""Data with a known answer: images mix prototypes, tags are long-tailed and incomplete.

The shape is that of real collections: a few tags are on many images and most on few, images mix a
handful of prototypes, and people leave out tags that would be right.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.utils import check_random_state


@dataclass(frozen=True)
class Planted:
    """A planted collection and what it was made from."""

    X: npt.NDArray[np.float32]  # n x m, unit length
    Y: sparse.csr_array  # n x t, the tags that people gave
    Y_true: sparse.csr_array  # n x t, the tags that are right
    prototypes: npt.NDArray[np.float32]  # k x m
    semantics: sparse.csr_array  # k x t, 0/1
    codes: sparse.csr_array  # n x k
    tag_names: list[str]


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
    random_state: Any = None,
) -> Planted:
    """Draw a collection of ``n`` images with ``t`` tags from ``k`` prototypes.

    Parameters
    ----------
    n, t, k : int
        Images, tags, prototypes.
    m : int, default=50
        Width of the vectors.
    mixed : int, default=3
        Prototypes in an image at most.
    tags_per_prototype : int, default=3
        Tags of a prototype at most; which ones follows a long tail.
    noise : float, default=0.2
        Length of the random part of a vector against its mixture of unit length.
    missing : float, default=0.0
        Share of the right tags that people left out.
    random_state : int, RandomState or None

    Returns
    -------
    Planted
    """
    for name, value in (("n", n), ("t", t), ("k", k), ("m", m), ("mixed", mixed)):
        if value < 1:
            raise ValueError(f"{name}={value}: at least 1 is needed.")
    if not 0 <= missing < 1:
        raise ValueError(f"missing={missing}: give a share from 0 up to, but not including, 1.")
    rng = check_random_state(random_state)
    D = rng.standard_normal((k, m)).astype(np.float32)
    D /= np.linalg.norm(D, axis=1, keepdims=True)

    tail = 1.0 / np.arange(1, t + 1)
    count = rng.randint(1, min(tags_per_prototype, t) + 1, size=k)
    order = np.argsort(np.log(tail) + rng.gumbel(size=(k, t)), axis=1)[:, ::-1]
    rows = np.repeat(np.arange(k), count)
    columns = np.concatenate([order[i, : count[i]] for i in range(k)])
    # Every tag has a prototype, however long the tail.
    lost = np.setdiff1d(np.arange(t), columns)
    rows, columns = np.append(rows, rng.randint(k, size=len(lost))), np.append(columns, lost)
    semantics = _binary(rows, columns, (k, t))

    used = min(mixed, k)
    parts = rng.randint(1, used + 1, size=n)
    rows = np.repeat(np.arange(n), parts)
    columns = rng.randint(k, size=len(rows))
    amount = rng.uniform(0.5, 1.0, size=len(rows)).astype(np.float32)
    codes = sparse.coo_array((amount, (rows, columns)), shape=(n, k)).tocsr()
    total = np.asarray(codes.sum(axis=1)).ravel()
    codes = codes.multiply((1 / total).astype(np.float32)[:, None]).tocsr()
    X = codes @ D
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    X += noise / np.sqrt(m) * rng.standard_normal((n, m)).astype(np.float32)
    X /= np.linalg.norm(X, axis=1, keepdims=True)

    Y_true = (codes > 0).astype(np.float32) @ semantics
    Y_true.data[:] = 1
    Y = Y_true.copy()
    Y.data[rng.uniform(size=Y.nnz) < missing] = 0
    Y.eliminate_zeros()
    names = [f"tag{number:03d}" for number in range(t)]
    return Planted(X.astype(np.float32), Y, Y_true, D, semantics, codes, names)


def _binary(rows: Any, columns: Any, shape: tuple[int, int]) -> sparse.csr_array:
    matrix = sparse.coo_array((np.ones(len(rows), np.float32), (rows, columns)), shape=shape)
    answer = matrix.tocsr()
    answer.data[:] = 1
    return answer
