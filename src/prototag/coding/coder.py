"""A dictionary prepared for coding: screen, follow, certify.

A code solves, for one image,

    min_a ||x - a D||^2 + w ||target - a S||^2    s.t.  a >= 0,  sum(a) <= budget,

by following the path of the lasso until the budget is spent or ``max_nonzeros`` is reached; the
label part is absent in visual coding. Only a few of the k prototypes can matter for an image, so
the path is followed over promising candidates (*screen*) and its end is checked against all
prototypes by one matrix product (*certify*); what violates optimality joins the candidates, and the
path is followed again. The certificate is the duality gap of METHOD: ``2 (budget max(c) - a.c)``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from prototag import _kernels
from prototag.arrays import Bools, Doubles, Floats, Ints, Rows
from prototag.coding.paths import CAP, CORE, STALLED, WIDTH, Candidates, Paths, Selection, every
from prototag.engine import ONE, Engine, blocks

if TYPE_CHECKING:  # SciPy loads slowly, and one new picture is annotated without it
    from scipy import sparse

BLOCK = 512  # images coded together: enough rows for the matrix product to run at full speed
CHUNK = 4096  # prototypes per matrix product, so that its result stays in the cache
NEAR = 0.95  # a path cut by the cap is tried again with prototypes above this share of lambda
FEW = 4  # images up to which a matrix product is not worth its overhead
SAMPLE = 2048  # prototypes from which the screening map is learned
GRAM_BYTES = 1 << 28
_TIE = 1e-5  # correlations closer than this to lambda are ties: twins of what is active


class Certificate(NamedTuple):
    """How good the codes of some images are."""

    gap: float  # the largest duality gap of codes that the cap did not end
    capped: int  # how many the cap on non-zeros ended
    stalled: int  # how many ended where float64 could not tell the next step


class Encoded(NamedTuple):
    """Codes of n images with their certificates."""

    codes: sparse.csr_array  # n x k, sorted indices
    gap: Doubles  # n, how far each code can be from the optimum
    capped: Bools  # n, whether the cap on non-zeros ended the path
    stalled: Bools  # n, whether it ended because no next step could be told

    @property
    def certificate(self) -> Certificate:
        gap = float(self.gap[~self.capped].max(initial=0.0))
        return Certificate(gap, int(self.capped.sum()), int(self.stalled.sum()))


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
        own: Rows | None = None,
        engine: Engine = ONE,
    ) -> Encoded:
        """Visual codes of the rows of ``X``.

        ``start``, codes near the answer, saves time. ``own`` names for each image a prototype that
        it must not use: the one that the image itself became; -1 where it became none.
        """
        return self.collect(self.paths(X, start=start, own=own, engine=engine))

    def paths(
        self,
        X: Floats,
        *,
        start: sparse.csr_array | None = None,
        own: Rows | None = None,
        engine: Engine = ONE,
    ) -> list[Paths]:
        """The same as the kernels leave it, block by block."""
        if self._screens and len(X) >= BLOCK and start is None:
            self.screening_map()  # once, before the blocks want it
        plain = start is None and own is None and self.weights is None
        if len(X) <= FEW and plain and self._screens:
            return [self._encode_few(X)]
        return engine.map(_encode_block, [X, start, own], [self], size=BLOCK)

    def _encode_few(self, X: Floats) -> Paths:
        """The same for a few images, in one call of a kernel instead of a round of products."""
        paths = Paths.empty(len(X), self.max_nonzeros, self.m)
        hint = X if self._map is None else X @ self._map
        _kernels.encode_few(self.rows, self.budget, NEAR, X, hint, WIDTH, CORE, _TIE, *paths)
        return paths

    def collect(self, parts: list[Paths]) -> Encoded:
        """The paths of all blocks as one matrix of codes."""
        gaps = [2 * (self.budget * np.maximum(part.largest, 0) - part.fit) for part in parts]
        codes = [part.codes(self.k) for part in parts]
        ending = np.concatenate([part.ending for part in parts])
        joined = codes[0]
        if len(parts) > 1:
            from scipy import sparse

            joined = sparse.vstack(codes, format="csr")
        return Encoded(joined, np.concatenate(gaps), ending == CAP, ending == STALLED)

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

    def screen(self, hint: Floats, own: Rows | None = None) -> Candidates:
        """The prototypes most correlated with ``hint`` (n x p), a guess of the residual."""
        if not self._screens:
            return every(len(hint), self.k, own)
        selection = Selection(len(hint))
        for part in blocks(self.k, CHUNK):
            selection.add(self._correlate(hint, part, own), part.start)
        return selection.settle()

    def _correlate(self, x: Floats, part: slice, own: Rows | None) -> Floats:
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
        own: Rows | None = None,
    ) -> tuple[Paths, Candidates]:
        """Follow, certify, and follow again with what was missing, for one block of images.

        With ``ahead``, the candidates returned are those that the certificates found closest to
        joining: the right ones for the next of a series of similar problems.
        """
        paths = self.follow(targets, weight, candidates)
        selection = Selection(len(targets)) if ahead and self._screens else None
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
        selection: Selection | None,
        own: Rows | None,
    ) -> Ints:
        n = len(paths.lam)
        added = np.zeros(n, np.int32)
        near = np.where(paths.ending == CAP, NEAR, 1 - _TIE) * paths.lam
        bound = near.astype(np.float32) - np.float32(_TIE / 10)
        for part in blocks(self.k, CHUNK):
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


def _encode_block(
    x: Floats, start: sparse.csr_array | None, own: Rows | None, coder: Coder
) -> Paths:
    """The paths of one block of images."""
    if start is not None:
        hint = x - start @ coder.rows
    else:
        hint = x if coder._map is None else x @ coder._map
    return coder.solve(x, None, coder.screen(hint, own), own=own)[0]


def _tolerated(lam: Floats) -> Floats:
    """Correlations up to this are equal to ``lam`` as far as float32 products tell."""
    return lam * np.float32(1 + _TIE) + np.float32(_TIE / 10)
