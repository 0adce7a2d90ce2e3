"""Sparse codes in one call, for vectors of any scale."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from prototag import validation
from prototag.arrays import Doubles, Floats
from prototag.coding.coder import Coder
from prototag.engine import Threads

if TYPE_CHECKING:
    from scipy import sparse


def sparse_encode(
    X: npt.ArrayLike,
    prototypes: npt.ArrayLike,
    *,
    budget: float = 1.0,
    max_nonzeros: int = 20,
    exact: bool = False,
    n_jobs: int | None = None,
) -> sparse.csr_array:
    """Sparse, non-negative codes of the rows of ``X`` over ``prototypes``.

    Solves for each row, exactly (see Notes),

        min_a ||x - a prototypes||^2   s.t.  a >= 0,  sum(a) <= budget,

    where the path of solutions from a = 0 stops before a code would get more than
    ``max_nonzeros`` entries.

    Parameters
    ----------
    X : array-like of shape (n, m)
    prototypes : array-like of shape (k, m)
    budget : float, default=1.0
        Largest l1 norm of a code.
    max_nonzeros : int, default=20
        Largest number of non-zeros of a code.
    exact : bool, default=False
        Also prove, for codes that the cap cut, that no prototype joined and left on the way.
    n_jobs : int, optional
        Threads; None is one, -1 all cores. The result is the same bits for any number.

    Returns
    -------
    codes : csr_array of shape (n, k), float32

    Notes
    -----
    Computed in float32 with the path in float64; the optimality of every code is certified over
    all prototypes. The scale of the vectors does not matter as long as float32 can hold it: what is
    smaller counts as zero, and a zero vector has an empty code. To code image by image, prepare a
    :class:`prototag.coding.coder.Coder` once.

    Examples
    --------
    >>> import numpy as np
    >>> from prototag import sparse_encode
    >>> prototypes = np.eye(3)
    >>> sparse_encode([[0.6, 0.3, -0.2]], prototypes).toarray().round(3)
    array([[0.6, 0.3, 0. ]], dtype=float32)
    """
    D = validation.vectors(prototypes, name="prototypes")
    x = validation.vectors(X, name="X")
    if x.shape[1] != D.shape[1]:
        raise ValueError(
            f"X has {x.shape[1]} columns and prototypes have {D.shape[1]}: "
            "both must be vectors of the same width."
        )
    validation.positive(budget, name="budget")
    validation.count(max_nonzeros, name="max_nonzeros")
    unit = np.exp2(_exponent(D).max())
    coder = Coder(D / np.float32(unit), max_nonzeros=max_nonzeros, exact=exact)
    # Tolerances are made for vectors of about unit length: vectors of one size at a time. With
    # x / s and D / u the code is a u / s, and so is its budget.
    exponent = _exponent(x)
    parts, order = [], []
    for size in np.unique(exponent):
        rows = np.flatnonzero(exponent == size)
        ratio = np.exp2(size) / unit
        if not 2.0**-96 < ratio < 2.0**96:
            raise ValueError(
                f"X has vectors about {ratio:.0e} times as long as the longest prototype: float32 "
                "codes cannot bridge that. Scale both, for example to unit length."
            )
        coder.budget = budget / ratio
        codes = coder.encode(x[rows] / np.float32(np.exp2(size)), engine=Threads(n_jobs)).codes
        codes.data *= np.float32(ratio)
        parts.append(codes)
        order.append(rows)
    if len(parts) == 1:
        return parts[0]
    from scipy import sparse

    joined = sparse.csr_array(sparse.vstack(parts, format="csr"))
    return sparse.csr_array(joined[np.argsort(np.concatenate(order))])


def _exponent(rows: Floats) -> Doubles:
    """The length of each row as a power of 2**16, roughly; 0 for lengths around 1 and for zeros."""
    length = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
    return np.asarray(16 * np.round(np.log2(np.where(length > 0, length, 1.0)) / 16))
