"""Vectors -> sparse codes: visual, and coupled with tags (MCSC).

A code solves, for one image,

    min_a ||x - a D||^2 + w ||target - a S||^2    s.t.  a >= 0,  sum(a) <= budget,

by following the path of the lasso until the budget is spent or ``max_nonzeros`` is reached; the
label part is absent in visual coding. Only a few of the k prototypes can matter for an image, so the
path is followed over promising candidates (*screen*) and its end is checked against all prototypes
by one matrix product (*certify*); what violates optimality joins the candidates, and the path is
followed again. The certificate is the duality gap of METHOD: ``2 (budget max(c) - a.c)``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from prototag import _kernels, check, parallel

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int32]
Rows = npt.NDArray[np.intp] | npt.NDArray[np.bool_]

BLOCK = 512  # images coded together: enough rows for the matrix product to run at full speed
CHUNK = 4096  # prototypes per matrix product, so that its result stays in the cache
CORE, WIDTH, ROOM = 48, 192, 512  # candidates: followed at once, at hand, at most
NEAR = 0.95  # a path cut by the cap is tried again with prototypes above this share of lambda
SAMPLE = 2048  # prototypes from which the screening map is learned
GRAM_BYTES = 1 << 28
_TIE = 1e-5  # correlations closer than this to lambda are ties: twins of what is active
_CAP = 2  # kernels/lars.hpp, Ending::kCap


class Encoded(NamedTuple):
    """Codes of n images with their certificates."""

    codes: sparse.csr_array  # n x k, sorted indices
    gap: npt.NDArray[np.float64]  # n, how far each code can be from the optimum
    capped: npt.NDArray[np.bool_]  # n, whether the cap on non-zeros ended the path


class Paths(NamedTuple):
    """Where the paths of one block of images ended, as the kernel writes it."""

    index: Ints  # n x max_nonzeros, sorted; ``count`` of them in use
    value: Floats
    count: Ints
    lam: Floats  # correlation that the active prototypes share
    ending: npt.NDArray[np.int8]
    residual: Floats  # n x (m + t): [x - a D | w (target - a S)]
    fit: npt.NDArray[np.float64]  # a . correlation
    largest: Floats  # largest correlation over all prototypes, known once certified

    @classmethod
    def empty(cls, n: int, cap: int, width: int) -> Paths:
        return cls(
            np.zeros((n, cap), np.int32),
            np.zeros((n, cap), np.float32),
            np.zeros(n, np.int32),
            np.zeros(n, np.float32),
            np.zeros(n, np.int8),
            np.zeros((n, width), np.float32),
            np.zeros(n),
            np.full(n, -np.inf, np.float32),
        )

    def take(self, rows: Rows) -> Paths:
        return Paths(*(array[rows] for array in self))

    def put(self, rows: Rows, other: Paths) -> None:
        for mine, theirs in zip(self, other, strict=True):
            mine[rows] = theirs

    def codes(self, k: int) -> sparse.csr_array:
        used = np.arange(self.index.shape[1]) < self.count[:, None]
        indptr = np.concatenate([[0], np.cumsum(self.count, dtype=np.int64)])
        return csr(self.value[used], self.index[used], indptr, (len(self.count), k))


class Candidates(NamedTuple):
    """Prototypes that may take part in the code of each image of a block, best first."""

    index: Ints  # n x room
    count: Ints  # n

    def take(self, rows: Rows) -> Candidates:
        return Candidates(self.index[rows], self.count[rows])

    def widen(self) -> Candidates:
        return Candidates(np.hstack([self.index, np.empty_like(self.index)]), self.count)


def csr(data: Any, indices: Any, indptr: Any, shape: tuple[int, int]) -> sparse.csr_array:
    """CSR from parts that are known to be sound, without checking them again."""
    matrix = sparse.csr_array(shape, dtype=data.dtype)
    matrix.data, matrix.indices, matrix.indptr = data, indices, indptr.astype(np.int32)
    matrix.has_sorted_indices = matrix.has_canonical_format = True
    return matrix


class Coder:
    """A dictionary prepared for coding many images, or one image many times.

    Parameters
    ----------
    visual : (k, m) float32 in C order
        Visual prototypes D.
    labels : (k, t) float32, optional
        Semantic prototypes S, for coupled coding.
    budget : float
        beta0, the largest l1 norm of a code.
    max_nonzeros : int
        Cap on the non-zeros of a code.
    exact : bool
        Follow every path that the cap cuts over all prototypes. Without it the end of such a path
        is certified too, but a prototype that would have joined and left again may be missed.
    gram : bool, optional
        Keep D D^T (and S S^T), k x k each. By default when they fit into ``gram_bytes``.
    weights : (k,) float32, optional
        Weights of the coefficients in the budget: sum(weights * a) <= budget.
    """

    def __init__(
        self,
        visual: Floats,
        labels: Floats | None = None,
        *,
        budget: float = 1.0,
        max_nonzeros: int = 20,
        exact: bool = False,
        gram: bool | None = None,
        gram_bytes: int = GRAM_BYTES,
        weights: Floats | None = None,
    ) -> None:
        self.k, self.m = visual.shape
        self.rows: Floats = visual if labels is None else np.hstack([visual, labels])
        self.budget = float(budget)
        self.max_nonzeros = min(max_nonzeros, self.k)
        self.exact = exact
        self.weights = weights
        needed = (1 if labels is None else 2) * self.k * self.k * 4
        keep = needed <= gram_bytes if gram is None else gram
        self.visual_gram = visual @ visual.T if keep else None
        self.label_gram = labels @ labels.T if keep and labels is not None else None
        self._map: Floats | None = None

    def encode(
        self, X: Floats, *, start: sparse.csr_array | None = None, n_jobs: int | None = None
    ) -> Encoded:
        """Visual codes of the rows of ``X``; ``start``, codes near the answer, saves time."""
        if len(X) >= BLOCK and start is None:
            self.screening_map()  # once, before the threads want it

        def block(part: slice) -> Paths:
            x = X[part]
            if start is not None:
                hint = x - start[part] @ self.rows
            else:
                hint = x if self._map is None else x @ self._map
            return self.solve(x, None, self.screen(hint))

        done = parallel.map_blocks(block, len(X), size=BLOCK, n_jobs=n_jobs)
        paths = done[0] if len(done) == 1 else Paths(*map(np.concatenate, zip(*done, strict=True)))
        gap = 2 * (self.budget * np.maximum(paths.largest, 0) - paths.fit)
        return Encoded(paths.codes(self.k), gap, paths.ending == _CAP)

    def screening_map(self) -> Floats:
        """The linear map M that best predicts the residual of an image from the image, r ~ x M.

        What joins a code late correlates with the residual, not with the image: x M D^T finds it
        with a third of the candidates that x D^T needs. M is learned from the prototypes, each
        coded over the others; a poor map costs time, never exactness.
        """
        if self._map is None:
            chosen = np.linspace(0, self.k - 1, min(SAMPLE, self.k)).astype(np.int32)
            x = self.rows[chosen]
            candidates = self.screen(x)
            for row, own in enumerate(chosen):
                others = candidates.index[row, : candidates.count[row]]
                others = others[others != own]
                candidates.index[row, : len(others)] = others
                candidates.count[row] = len(others)
            residual = self._follow(x, None, candidates).residual
            gram = (x.T @ x).astype(np.float64)
            ridge = 1e-2 * np.trace(gram) / self.m * np.eye(self.m)
            self._map = np.linalg.solve(gram + ridge, x.T @ residual).astype(np.float32)
        return self._map

    def screen(self, hint: Floats) -> Candidates:
        """The prototypes most correlated with ``hint`` (n x p), a guess of the residual."""
        n = len(hint)
        if self.exact or self.k <= WIDTH:
            index = np.empty((n, self.k), np.int32)
            index[:] = np.arange(self.k)
            return Candidates(index, np.full(n, self.k, np.int32))
        key = np.empty((n, 2 * WIDTH), np.uint64)
        count, floor = np.zeros(n, np.int32), np.zeros(n, np.float32)
        for part in parallel.blocks(self.k, CHUNK):
            _kernels.screen(hint @ self.rows[part].T, part.start, WIDTH, key, count, floor)
        out = Candidates(np.empty((n, ROOM), np.int32), np.empty(n, np.int32))
        _kernels.settle(key, count, WIDTH, CORE, out.index, out.count)
        return out

    def solve(self, targets: Floats, weight: Floats | None, candidates: Candidates) -> Paths:
        """Follow, certify, and follow again with what was missing, for one block of images."""
        paths = Paths.empty(len(targets), self.max_nonzeros, targets.shape[1])
        rows: Rows = np.arange(len(targets))
        while len(rows):
            part = self._follow(targets[rows], None if weight is None else weight[rows], candidates)
            # The end of a path depends on nothing but what is active: where prototypes that came
            # near have changed nothing, the certificate of the round before still holds.
            before = paths.take(rows)
            same = (before.largest > -np.inf) & np.all(part.index == before.index, axis=1)
            same &= (part.lam == before.lam) & (before.largest <= _tolerated(part.lam))
            rows, part, candidates = rows[~same], part.take(~same), candidates.take(~same)
            again = self._certify(part, candidates) > 0
            paths.put(rows, part)
            if np.any(again & (candidates.count == candidates.index.shape[1])):
                candidates = candidates.widen()
            rows, candidates = rows[again], candidates.take(again)
        return paths

    def _follow(self, targets: Floats, weight: Floats | None, candidates: Candidates) -> Paths:
        paths = Paths.empty(len(targets), self.max_nonzeros, targets.shape[1])
        _kernels.lars(
            self.rows,
            self.m,
            self.visual_gram,
            self.label_gram,
            self.weights,
            self.budget,
            -np.inf if self.exact else NEAR,
            targets,
            weight,
            candidates.index,
            candidates.count,
            CORE,
            *paths[:7],
        )
        return paths

    def _certify(self, paths: Paths, candidates: Candidates) -> Ints:
        n = len(paths.lam)
        added = np.zeros(n, np.int32)
        near = np.where(paths.ending == _CAP, NEAR, 1 - _TIE) * paths.lam
        bound = near.astype(np.float32) - np.float32(_TIE / 10)
        for part in parallel.blocks(self.k, CHUNK):
            _kernels.violators(
                paths.residual @ self.rows[part].T,
                part.start,
                self.weights,
                bound,
                candidates.index,
                candidates.count,
                added,
                paths.largest,
            )
        return added


def _tolerated(lam: Floats) -> Floats:
    """Correlations up to this are equal to ``lam`` as far as float32 products tell."""
    return lam * np.float32(1 + _TIE) + np.float32(_TIE / 10)


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
    all prototypes. To code image by image, prepare a :class:`Coder` once.

    Examples
    --------
    >>> import numpy as np
    >>> from prototag import sparse_encode
    >>> prototypes = np.eye(3)
    >>> sparse_encode([[0.6, 0.3, -0.2]], prototypes).toarray().round(3)
    array([[0.6, 0.3, 0. ]], dtype=float32)
    """
    D = check.vectors(prototypes, name="prototypes")
    x = check.vectors(X, name="X")
    if x.shape[1] != D.shape[1]:
        raise ValueError(
            f"X has {x.shape[1]} columns and prototypes have {D.shape[1]}: "
            "both must be vectors of the same width."
        )
    check.positive(budget, name="budget")
    check.count(max_nonzeros, name="max_nonzeros")
    coder = Coder(D, budget=budget, max_nonzeros=max_nonzeros, exact=exact)
    return coder.encode(x, n_jobs=n_jobs).codes
