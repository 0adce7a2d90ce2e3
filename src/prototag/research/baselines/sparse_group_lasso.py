"""Sparse codes with a penalty on groups of atoms: sparse group lasso, by coordinate descent."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from prototag import _kernels
from prototag.arrays import Floats, Ints
from prototag.engine import Threads, single_threaded_blas

BATCH_IMAGES = 256
SWEEPS = 60
TOLERANCE = 3e-4  # of a gradient, for vectors and atoms of unit length


class Codes(NamedTuple):
    codes: sparse.csr_array  # n x k
    violation: float  # the largest step of the last sweep of any image, as a gradient


class GroupLasso(NamedTuple):
    """The sparse group lasso over fixed atoms. :meth:`encode` minimises for each image

        1/2 ||x - a D||^2 + sparsity ||a||_1 + sum_g weight_g ||a_g||_2 + ridge / 2 ||a||^2

    where a_g are the coefficients of the atoms of group g. Codes have both signs, unless
    ``nonnegative``.
    """

    atoms: Floats  # k x m
    gram: Floats  # k x k
    start: Ints  # g + 1, the first atom of each group
    curvature: Floats  # g, the largest eigenvalue of a group's part of gram, plus ridge
    sparsity: float
    ridge: float
    nonnegative: bool

    @classmethod
    def of(
        cls,
        atoms: Floats,
        *,
        sparsity: float = 0.0,
        ridge: float = 0.0,
        nonnegative: bool = False,
        sizes: npt.ArrayLike | None = None,
    ) -> GroupLasso:
        """Prepare the codes over ``atoms``, whose groups of ``sizes`` are contiguous.

        Without sizes, each atom is a group.
        """
        counts = np.ones(len(atoms), np.intp) if sizes is None else np.asarray(sizes)
        start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        with single_threaded_blas():
            gram = np.ascontiguousarray(atoms @ atoms.T, np.float32)
        curvature = largest_eigenvalues(gram, start) + np.float32(ridge)
        rows = np.ascontiguousarray(atoms)
        return cls(rows, gram, start, curvature, sparsity, ridge, nonnegative)

    def encode(
        self,
        X: Floats,
        weights: npt.ArrayLike = 0.0,
        *,
        previous: sparse.csr_array | None = None,
        sweeps: int = SWEEPS,
        tol: float = TOLERANCE,
        n_jobs: int | None = None,
    ) -> Codes:
        """Encode images from their ``previous`` codes, or from zero.

        ``weights`` of groups are a number, g numbers for all images, or n x g numbers.
        """
        shape = (len(X), len(self.curvature))
        weight = np.broadcast_to(np.asarray(weights, np.float32), shape)
        parts = Threads(n_jobs).map(
            encode_batch, [X, weight, previous], [self, sweeps, tol], size=BATCH_IMAGES
        )
        codes = sparse.csr_array(sparse.vstack([codes for codes, _ in parts], format="csr"))
        return Codes(codes, max(violation for _, violation in parts))


def encode_batch(
    x: Floats,
    weight: Floats,
    previous: sparse.csr_array | None,
    lasso: GroupLasso,
    sweeps: int,
    tol: float,
) -> tuple[sparse.csr_array, float]:
    """Encode a batch of images; return codes and the largest violation."""
    k = len(lasso.atoms)
    codes = np.zeros((len(x), k), np.float32)
    if previous is not None:
        codes[:] = previous.toarray()
    violation = np.empty(len(x), np.float32)
    _kernels.group_lasso_codes(
        lasso.gram,
        lasso.start,
        lasso.curvature,
        np.ascontiguousarray(x @ lasso.atoms.T),
        np.ascontiguousarray(weight),
        lasso.sparsity,
        lasso.ridge,
        lasso.nonnegative,
        sweeps,
        tol,
        codes,
        violation,
    )
    return sparse.csr_array(codes), float(violation.max(initial=0))


def largest_eigenvalues(gram: Floats, start: Ints) -> Floats:
    """Return the largest eigenvalue of the part of ``gram`` of each group, 0 for an empty one."""
    limits = zip(start[:-1].tolist(), start[1:].tolist(), strict=True)
    return np.array(
        [
            np.linalg.eigvalsh(gram[first:end, first:end])[-1] * (1 + 1e-5) if first < end else 0
            for first, end in limits
        ],
        np.float32,
    )
