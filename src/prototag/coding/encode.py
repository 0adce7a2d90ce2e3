"""Function to compute sparse codes without a coder object."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy.typing as npt

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
    """Compute sparse, non-negative codes of the rows of ``X`` over ``prototypes``.

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
        Compute capped paths over all prototypes too (see :class:`prototag.Coder`).
    n_jobs : int, optional
        Number of threads; None is one, -1 all cores. Results are bit-identical for any number.

    Returns
    -------
    codes : csr_array of shape (n, k), float32

    Notes
    -----
    Products are float32 and the path is float64. The optimality of every code is certified over
    all prototypes. Vectors may have any scale within float32; a zero vector has an empty code. To
    encode image by image, create a :class:`prototag.Coder` once.

    Examples
    --------
    >>> import numpy as np
    >>> from prototag import sparse_encode
    >>> prototypes = np.eye(3)
    >>> sparse_encode([[0.6, 0.3, -0.2]], prototypes).toarray().round(3)
    array([[0.6, 0.3, 0. ]], dtype=float32)
    """
    coder = Coder(prototypes, budget=budget, max_nonzeros=max_nonzeros, exact=exact)
    return coder.encode(X, engine=Threads(n_jobs)).codes
