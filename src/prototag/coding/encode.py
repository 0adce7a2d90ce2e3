"""Sparse codes in one call, for vectors of any scale."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from prototag import validation
from prototag.arrays import Floats
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
    # Tolerances are made for vectors of about unit length. With x / s and D / u, powers of two, the
    # code is a u / s, and so is its budget.
    longest, exponent = int(_exponents(D).max()), _exponents(x)
    ratio = np.exp2((exponent - longest).astype(np.float64))
    if not 2.0**-96 < ratio.min() <= ratio.max() < 2.0**96:
        worst = ratio[np.argmax(np.abs(exponent - longest))]
        raise ValueError(
            f"X has vectors about {worst:.0e} times as long as the longest prototype: float32 "
            "codes cannot bridge that. Scale both, for example to unit length."
        )
    coder = Coder(_scaled(D, longest), max_nonzeros=max_nonzeros, exact=exact)
    encoded = coder.encode(_scaled(x, exponent), budget=budget / ratio, engine=Threads(n_jobs))
    codes = encoded.codes
    codes.data *= np.repeat(ratio, np.diff(codes.indptr)).astype(np.float32)
    return codes


def _exponents(rows: Floats) -> npt.NDArray[np.int32]:
    """The powers of two next to the lengths of the rows; 0 for rows of zeros."""
    most = np.frexp(max(float(rows.max()), -float(rows.min())))[1]
    # Squares of what is far from 1 leave the range of float32.
    near = rows if -16 < most < 48 else np.ldexp(rows.astype(np.float64), -most)
    length = np.sqrt(np.einsum("ij,ij->i", near, near))
    found = np.frexp(length * np.sqrt(2))[1] - 1  # 0 between sqrt(1/2) and sqrt(2)
    return np.where(length > 0, found if near is rows else found + most, 0).astype(np.int32)


def _scaled(rows: Floats, exponent: int | npt.NDArray[np.int32]) -> Floats:
    """The rows divided by powers of two."""
    if not np.any(exponent):
        return rows
    by = exponent if isinstance(exponent, int) else exponent[:, None]
    return np.ldexp(rows, np.negative(by))
