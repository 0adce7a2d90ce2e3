"""Vectors -> sparse codes: visual, and coupled with tags (MCSC).

A code solves, for one image,

    min_a ||x - a D||^2 + w ||target - a S||^2    s.t.  a >= 0,  sum(a) <= budget,

by following the path of the lasso until the budget is spent or ``max_nonzeros`` is reached; the
label part is absent in visual coding. Only a few of the k prototypes can matter for an image, so
the path is followed over promising candidates (*screen*) and its end is checked against all
prototypes by one matrix product (*certify*); what violates optimality joins the candidates, and the
path is followed again. The certificate is the duality gap of METHOD: ``2 (budget max(c) - a.c)``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from prototag import _kernels
from prototag import validation as check
from prototag.coding.losses import TagLoss
from prototag.coding.paths import CAP, Candidates, Paths
from prototag.engine import threads

if TYPE_CHECKING:  # SciPy loads slowly, and one new picture is annotated without it
    from scipy import sparse

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int32]

BLOCK = 512  # images coded together: enough rows for the matrix product to run at full speed
CHUNK = 4096  # prototypes per matrix product, so that its result stays in the cache
CORE, WIDTH, ROOM = 48, 192, 512  # candidates: followed at once, at hand, at most
NEAR = 0.95  # a path cut by the cap is tried again with prototypes above this share of lambda
FEW = 4  # images up to which a matrix product is not worth its overhead
SAMPLE = 2048  # prototypes from which the screening map is learned
GRAM_BYTES = 1 << 28
_TIE = 1e-5  # correlations closer than this to lambda are ties: twins of what is active


class Encoded(NamedTuple):
    """Codes of n images with their certificates."""

    codes: sparse.csr_array  # n x k, sorted indices
    gap: npt.NDArray[np.float64]  # n, how far each code can be from the optimum
    capped: npt.NDArray[np.bool_]  # n, whether the cap on non-zeros ended the path


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
        Keep D D^T (and S S^T), k x k each. By default for coupled coding, when both fit into
        ``gram_bytes``; visual vectors are short enough for products to be as quick as look-ups.
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
        fits = 2 * 4 * self.k**2 <= gram_bytes
        keep = (labels is not None and fits) if gram is None else gram
        self.visual_gram = visual @ visual.T if keep else None
        self.label_gram = labels @ labels.T if keep and labels is not None else None
        self._map: Floats | None = None

    def encode(
        self,
        X: Floats,
        *,
        start: sparse.csr_array | None = None,
        own: npt.NDArray[np.intp] | None = None,
        n_jobs: int | None = None,
    ) -> Encoded:
        """Visual codes of the rows of ``X``.

        ``start``, codes near the answer, saves time. ``own`` names for each image a prototype that
        it must not use: the one that the image itself became; -1 where it became none.
        """
        return self.collect(self.paths(X, start=start, own=own, n_jobs=n_jobs))

    def paths(
        self,
        X: Floats,
        *,
        start: sparse.csr_array | None = None,
        own: npt.NDArray[np.intp] | None = None,
        n_jobs: int | None = None,
    ) -> list[Paths]:
        """The same as the kernels leave it, block by block."""
        if self._screens and len(X) >= BLOCK and start is None:
            self.screening_map()  # once, before the threads want it

        plain = start is None and own is None and self.weights is None
        if len(X) <= FEW and plain and self._screens:
            return [self._encode_few(X)]

        def block(part: slice) -> Paths:
            x = X[part]
            if start is not None:
                hint = x - start[part] @ self.rows
            else:
                hint = x if self._map is None else x @ self._map
            mine = None if own is None else own[part]
            return self.solve(x, None, self.screen(hint, mine), own=mine)[0]

        return threads.map_blocks(block, len(X), size=BLOCK, n_jobs=n_jobs)

    def _encode_few(self, X: Floats) -> Paths:
        """The same for a few images, in one call of a kernel instead of a round of products."""
        paths = Paths.empty(len(X), self.max_nonzeros, self.m)
        hint = X if self._map is None else X @ self._map
        _kernels.encode_few(self.rows, self.budget, NEAR, X, hint, WIDTH, CORE, _TIE, *paths)
        return paths

    def collect(self, parts: list[Paths]) -> Encoded:
        """The paths of all blocks as one matrix of codes."""
        gaps = [2 * (self.budget * np.maximum(part.largest, 0) - part.fit) for part in parts]
        capped = [part.ending == CAP for part in parts]
        codes = [part.codes(self.k) for part in parts]
        if len(parts) == 1:
            return Encoded(codes[0], gaps[0], capped[0])
        from scipy import sparse

        joined = sparse.vstack(codes, format="csr")
        return Encoded(joined, np.concatenate(gaps), np.concatenate(capped))

    def screening_map(self) -> Floats:
        """The linear map M that best predicts the residual of an image from the image, r ~ x M.

        What joins a code late correlates with the residual, not with the image: x M D^T finds it
        with a third of the candidates that x D^T needs. M is learned from the prototypes, each
        coded over the others; a poor map costs time, never exactness.
        """
        if self._map is None:
            chosen = np.linspace(0, self.k - 1, min(SAMPLE, self.k)).astype(np.intp)
            x = self.rows[chosen]
            residual = self.follow(x, None, self.screen(x, chosen)).residual
            gram = (x.T @ x).astype(np.float64)
            ridge = 1e-2 * (np.trace(gram) or 1.0) / self.m * np.eye(self.m)
            self._map = np.linalg.solve(gram + ridge, x.T @ residual).astype(np.float32)
        return self._map

    @property
    def _screens(self) -> bool:
        return not self.exact and self.k > WIDTH

    def screen(self, hint: Floats, own: npt.NDArray[np.intp] | None = None) -> Candidates:
        """The prototypes most correlated with ``hint`` (n x p), a guess of the residual."""
        n = len(hint)
        if not self._screens:
            index = np.empty((n, self.k), np.int32)
            index[:] = np.arange(self.k)
            count = np.full(n, self.k, np.int32)
            if own is not None:  # its own goes last, where it is not counted
                rows = np.flatnonzero(own >= 0)
                index[rows, own[rows]] = self.k - 1
                index[rows, -1] = own[rows]
                count[rows] -= 1
            return Candidates(index, count)
        selection = _Selection(n)
        for part in threads.blocks(self.k, CHUNK):
            selection.add(self._correlate(hint, part, own), part.start)
        return selection.settle()

    def _correlate(self, x: Floats, part: slice, own: npt.NDArray[np.intp] | None) -> Floats:
        correlation = x @ self.rows[part].T
        if own is not None:
            rows = np.flatnonzero((own >= part.start) & (own < part.stop))
            correlation[rows, own[rows] - part.start] = -np.inf
        return correlation

    def solve(
        self,
        targets: Floats,
        weight: Floats | None,
        candidates: Candidates,
        *,
        ahead: bool = False,
        own: npt.NDArray[np.intp] | None = None,
    ) -> tuple[Paths, Candidates]:
        """Follow, certify, and follow again with what was missing, for one block of images.

        With ``ahead``, the candidates returned are those that the certificates found closest to
        joining: the right ones for the next of a series of similar problems.
        """
        paths = self.follow(targets, weight, candidates)
        selection = _Selection(len(targets)) if ahead and self._screens else None
        again = np.flatnonzero(self._certify(paths, candidates, selection, own))
        close = candidates if selection is None else selection.settle()
        while len(again):
            if np.any(candidates.count[again] == candidates.index.shape[1]):
                candidates = candidates.widen()
            more = candidates.take(again)
            part = self.follow(targets[again], None if weight is None else weight[again], more)
            # The end of a path depends on nothing but what is active: where prototypes that came
            # near have changed nothing, the certificate of the round before still holds.
            before = paths.take(again)
            same = np.all(part.index == before.index, axis=1) & (part.lam == before.lam)
            same &= before.largest <= _tolerated(part.lam)
            again, part, more = again[~same], part.take(~same), more.take(~same)
            added = self._certify(part, more, None, None if own is None else own[again])
            paths.put(again, part)
            candidates.put(again, more)
            again = again[added > 0]
        return paths, close

    def follow(self, targets: Floats, weight: Floats | None, candidates: Candidates) -> Paths:
        """The paths over the candidates alone, without a certificate."""
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

    def _certify(
        self,
        paths: Paths,
        candidates: Candidates,
        selection: _Selection | None,
        own: npt.NDArray[np.intp] | None,
    ) -> Ints:
        n = len(paths.lam)
        added = np.zeros(n, np.int32)
        near = np.where(paths.ending == CAP, NEAR, 1 - _TIE) * paths.lam
        bound = near.astype(np.float32) - np.float32(_TIE / 10)
        for part in threads.blocks(self.k, CHUNK):
            correlation = self._correlate(paths.residual, part, own)
            if selection is not None:
                selection.add(correlation, part.start)
            _kernels.violators(
                correlation,
                part.start,
                self.weights,
                bound,
                candidates.index,
                candidates.count,
                added,
                paths.largest,
            )
        return added


class _Selection:
    """The prototypes of the largest promise for each image, gathered chunk by chunk."""

    def __init__(self, n: int) -> None:
        self.key = np.empty((n, 2 * WIDTH), np.uint64)
        self.count, self.floor = np.zeros(n, np.int32), np.zeros(n, np.float32)

    def add(self, promise: Floats, offset: int) -> None:
        _kernels.screen(promise, offset, WIDTH, self.key, self.count, self.floor)

    def settle(self) -> Candidates:
        n = len(self.key)
        out = Candidates(np.empty((n, ROOM), np.int32), np.empty(n, np.int32))
        _kernels.settle(self.key, self.count, WIDTH, CORE, out.index, out.count)
        return out


def _tolerated(lam: Floats) -> Floats:
    """Correlations up to this are equal to ``lam`` as far as float32 products tell."""
    return lam * np.float32(1 + _TIE) + np.float32(_TIE / 10)


def coupled_encode(
    coder: Coder,
    X: Floats,
    Y: sparse.csr_array,
    codes: sparse.csr_array,
    *,
    loss: TagLoss,
    label_weight: Floats,
    passes: int,
    opening: bool = False,
    drop: float = 0.0,
    n_jobs: int | None = None,
) -> Encoded:
    """MCSC, marginalised coupled sparse coding, from the codes of the iteration before.

    Each pass replaces the loss by working targets that majorise it at the current scores, and
    solves the lasso on ``[x | target]``. The first and the last pass are certified over all
    prototypes; those between are solved over the candidates that the first one left. A code is
    taken only if it lowers its image's cost ``||x - a D||^2 + (lam / p) loss``: so the cost never
    rises, also where the cap cuts the path.
    ``opening``: in the first pass every margin counts as violated. ``drop``: entries of the result
    up to this size are left out, unless that would raise the cost above that of ``codes``.
    """
    m = coder.m

    def cost(y: Any, visual: Floats, scores: Floats, w: Floats) -> npt.NDArray[np.float64]:
        squared = np.einsum("ij,ij->i", visual, visual, dtype=np.float64)
        return np.asarray(squared + w * loss.value(y, scores))

    def block(part: slice) -> Paths:
        x, y, w = X[part], Y[part].toarray().astype(bool), label_weight[part]
        product = codes[part] @ coder.rows
        visual, scores = x - product[:, :m], product[:, m:]
        best = cost(y, visual, scores, w)
        before = best.copy()
        kept = Paths.of(codes[part], coder.max_nonzeros, coder.rows.shape[1])
        candidates = None
        for number in range(passes):
            first = opening and number == 0
            target = loss.goals(y) if first else loss.targets(y, scores)
            if candidates is None:
                candidates = coder.screen(np.hstack([visual, w[:, None] * (target - scores)]))
            stacked = np.hstack([x, target])
            if number in (0, passes - 1):
                paths, candidates = coder.solve(stacked, w, candidates, ahead=number == 0)
            else:
                paths = coder.follow(stacked, w, candidates)
            new_visual = paths.residual[:, :m]
            new_scores = target - paths.residual[:, m:] / w[:, None]
            new = cost(y, new_visual, new_scores, w)
            better = np.flatnonzero(new < best)
            kept.put(better, paths.take(better))
            visual[better], scores[better] = new_visual[better], new_scores[better]
            best[better] = new[better]
        if drop > 0:
            trimmed = kept._replace(value=np.where(kept.value > drop, kept.value, np.float32(0)))
            product = trimmed.codes(coder.k) @ coder.rows
            fine = cost(y, x - product[:, :m], product[:, m:], w) <= before
            kept.value[fine] = trimmed.value[fine]
        return kept

    return coder.collect(threads.map_blocks(block, len(X), size=BLOCK, n_jobs=n_jobs))


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
    :class:`Coder` once.

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
        codes = coder.encode(x[rows] / np.float32(np.exp2(size)), n_jobs=n_jobs).codes
        codes.data *= np.float32(ratio)
        parts.append(codes)
        order.append(rows)
    if len(parts) == 1:
        return parts[0]
    from scipy import sparse

    return sparse.vstack(parts, format="csr")[np.argsort(np.concatenate(order))]


def _exponent(rows: Floats) -> npt.NDArray[np.float64]:
    """The length of each row as a power of 2**16, roughly; 0 for lengths around 1 and for zeros."""
    length = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
    return 16 * np.round(np.log2(np.where(length > 0, length, 1.0)) / 16)
