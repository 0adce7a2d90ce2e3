"""A dictionary prepared for coding: screen, follow, certify.

A code solves, for one image,

    min_a ||x - a D||^2 + w ||target - a S||^2    s.t.  a >= 0,  sum(a) <= budget,

by following the path of the lasso until the budget is spent or ``max_nonzeros`` is reached; the
label part is absent in visual coding. Only a few of the k prototypes can matter for an image, so
the path is followed over promising candidates (*screen*) and its end is checked against all
prototypes (*certify*); what violates optimality joins the candidates, and the path is followed
again. Both passes over all prototypes are products in eight bits; a bound on what these miss says
which prototypes need an exact look. The certificate is the duality gap of METHOD:
``2 (budget max(c) - a.c)``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeGuard

import numpy as np
import numpy.typing as npt

from prototag import _kernels, arrays
from prototag.arrays import Array, Bools, Doubles, Exponents, Floats, Rows
from prototag.coding.buffers import (
    CORE_CANDIDATES,
    ENDED_AT_CAP,
    ENDED_STALLED,
    N_CANDIDATES,
    Candidates,
    PathEnds,
    all_candidates,
    csr_unchecked,
)
from prototag.engine import SINGLE_THREAD, Engine, single_threaded_blas
from prototag.engine.task_names import batch_name

if TYPE_CHECKING:  # SciPy loads slowly, and one new picture is annotated without it
    from scipy import sparse

BATCH_IMAGES = 512  # images coded by one thread at a time
NEAR_LAMBDA = (
    0.95  # a path cut by the cap is tried again with prototypes above this share of lambda
)
MAP_MIN_IMAGES = 64  # images from which on the screening map is worth making
MAP_SAMPLE = 2048  # prototypes that the screening map is made from
MAP_MAX_COLUMNS = 2048  # columns of a screening map: its cost grows with their third power
GRAM_BYTES = 1 << 28
TIE_TOLERANCE = 1e-5  # correlations closer than this to lambda are ties: twins of what is active


TILE_PROTOTYPES = (
    64  # prototypes whose products are computed together (kernels/coding/int8_quantization.hpp)
)


class QuantizedPrototypes(NamedTuple):
    """Prototypes in eight bits, as the kernels read them."""

    codes: Array  # tiles x quads of columns x TILE x 4, flat
    bounds: Floats  # 3 x prototypes: scales, and bounds on what the codes miss
    visual: int
    width: int
    label_scale: float  # of the label columns beside the visual ones

    @classmethod
    def quantize(cls, rows: Floats, visual: int, weights: Floats | None) -> QuantizedPrototypes:
        k, width = rows.shape
        tiles = -(-k // TILE_PROTOTYPES)
        label_scale = 1.0
        if width > visual:  # labels are larger than visual columns: both are to use all bits
            most = float(np.abs(rows[:, :visual]).max()), float(np.abs(rows[:, visual:]).max())
            label_scale = most[0] / most[1] if most[1] > 0 < most[0] else 1.0
        packed = cls(
            np.empty(tiles * TILE_PROTOTYPES * 4 * -(-width // 4), np.uint8),
            np.empty((3, tiles * TILE_PROTOTYPES), np.float32),
            visual,
            width,
            label_scale,
        )
        _kernels.quantize_prototypes(rows, weights, packed)
        return packed


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
    """Prototypes prepared for coding many images, or one image many times.

    Solves for each row of ``X``, as :func:`prototag.sparse_encode` does,

        min_a ||x - a prototypes||^2   s.t.  a >= 0,  sum(a) <= budget,

    with at most ``max_nonzeros`` entries. What depends on the prototypes alone is computed once.

    Parameters
    ----------
    prototypes : array-like of shape (k, m)
        Visual prototypes D.
    labels : (k, t) float32, optional
        Semantic prototypes S, for coupled coding.
    budget : float
        beta0, the largest l1 norm of a code.
    max_nonzeros : int
        Cap on the non-zeros of a code.
    exact : bool
        Follow every path over all prototypes. Without it the end of a path is certified too, but
        where the cap cuts it a prototype that would have joined and left again may be missed.
    gram : bool, optional
        Keep D D^T (and S S^T), k x k each. By default for coupled coding, when both fit into
        ``gram_bytes``; visual vectors are short enough for products to be as quick as look-ups.
    weights : (k,) float32, optional
        Weights of the coefficients in the budget: sum(weights * a) <= budget.
    predict_residuals : bool
        Guess residuals by the screening map where many images are coded, which saves a little time.
        Without it a code never depends on how many images are coded with it, not even one that the
        cap cut.

    Examples
    --------
    >>> import numpy as np
    >>> from prototag import Coder
    >>> coder = Coder(np.eye(3))
    >>> found = coder.encode([[0.6, 0.3, -0.2]])
    >>> found.codes.toarray().round(3)
    array([[0.6, 0.3, 0. ]], dtype=float32)
    >>> bool(found.gap[0] < 1e-5)
    True
    """

    def __init__(
        self,
        prototypes: npt.ArrayLike,
        labels: Floats | None = None,
        *,
        budget: float = 1.0,
        max_nonzeros: int = 20,
        exact: bool = False,
        gram: bool | None = None,
        gram_bytes: int = GRAM_BYTES,
        weights: Floats | None = None,
        predict_residuals: bool = True,
    ) -> None:
        visual = arrays.check_vectors(prototypes, name="prototypes")
        arrays.check_positive(budget, name="budget")
        arrays.check_count(max_nonzeros, name="max_nonzeros")
        self.k, self.m = visual.shape
        self._max_exponent = 0
        if labels is None and (found := arrays.length_exponents(visual)) is not None:
            self._max_exponent = int(found.max())
            visual = arrays.divide_by_powers(visual, self._max_exponent)
        self.rows: Floats = visual if labels is None else np.hstack([visual, labels])
        self.budget = float(budget)
        # More cannot be independent; room is made for as many.
        self.max_nonzeros = min(max_nonzeros, *self.rows.shape)
        self.exact = exact
        self.weights = weights
        self.predict_residuals = predict_residuals and self.m <= MAP_MAX_COLUMNS
        fits = 2 * 4 * self.k**2 <= gram_bytes
        keep = (labels is not None and fits) if gram is None else gram
        self.visual_gram = visual @ visual.T if keep else None
        self.label_gram = labels @ labels.T if keep and labels is not None else None
        self._map: Floats | None = None
        self._quantized: QuantizedPrototypes | None = None

    def encode(
        self,
        X: npt.ArrayLike,
        *,
        start: sparse.csr_array | None = None,
        excluded: Rows | None = None,
        engine: Engine = SINGLE_THREAD,
    ) -> Encoded:
        """Codes of the rows of ``X`` with their certificates, of any number of rows.

        ``start``, codes near the answer, saves time. ``own`` names for each image a prototype that
        it must not use: the one that the image itself became; -1 where it became none. Every gap is
        measured over all prototypes that the image may use.
        """
        if (
            start is None
            and excluded is None
            and self.uses_screening
            and _is_single_unit_vector(X, self)
        ):
            return self._encode_one(X)
        x, exponent = self._scale_to_unit_length(X)
        parts = self._encode_batches(x, exponent, start, excluded, engine)
        if exponent is None:
            return self.collect(parts)
        ratio = arrays.scale_ratios(exponent, self._max_exponent)
        found = self.collect(parts, self.budget / ratio)
        return found._replace(gap=found.gap * np.exp2(2.0 * exponent))

    def _encode_one(self, x: Floats) -> Encoded:
        """The same for one vector that needs no care: what is done around the kernel takes time."""
        path = self._run(x, hint=x if self._map is None else x @ self._map)
        count = path.count[0]
        codes = csr_unchecked(
            path.value[0, :count],
            path.index[0, :count],
            np.array([0, count], np.int32),
            (1, self.k),
        )
        gap = 2 * (self.budget * np.maximum(path.largest, 0) - path.fit)
        return Encoded(codes, gap, path.ending == ENDED_AT_CAP, path.ending == ENDED_STALLED)

    def encode_batches(
        self,
        X: npt.ArrayLike,
        *,
        start: sparse.csr_array | None = None,
        excluded: Rows | None = None,
        engine: Engine = SINGLE_THREAD,
    ) -> list[PathEnds]:
        """The codes as the kernels leave them, block by block."""
        return self._encode_batches(*self._scale_to_unit_length(X), start, excluded, engine)

    def _scale_to_unit_length(self, X: npt.ArrayLike) -> tuple[Floats, Exponents | None]:
        """Rows of about unit length and the powers of two that they were divided by, if any."""
        x = X if _needs_no_conversion(X) else arrays.check_vectors(X)
        if x.shape[1] != self.m:
            raise ValueError(
                f"X has {x.shape[1]} columns and prototypes have {self.m}: "
                "both must be vectors of the same width."
            )
        found = arrays.length_exponents(x)
        if found is None and not self._max_exponent:
            return x, None
        x = arrays.check_vectors(x)
        if found is None:
            found = np.zeros(len(x), np.int32)
        return arrays.divide_by_powers(x, found), found

    def _encode_batches(
        self,
        x: Floats,
        exponent: Exponents | None,
        start: sparse.csr_array | None,
        excluded: Rows | None,
        engine: Engine,
    ) -> list[PathEnds]:
        self.quantized()  # once, before the blocks want it
        excluded = None if excluded is None else np.ascontiguousarray(excluded, np.int64)
        ratio = None
        if exponent is not None:  # with x / s and D / u the code is a u / s, and so is its budget
            ratio = arrays.scale_ratios(exponent, self._max_exponent)
            start = None
        if (
            self.uses_screening
            and self.predict_residuals
            and len(x) >= MAP_MIN_IMAGES
            and start is None
        ):
            self.screening_map()
        if len(x) == 1:  # not worth asking BLAS for one thread
            return [_encode_batch(x, start, excluded, ratio, self)]
        return engine.map(_encode_batch, [x, start, excluded, ratio], [self], size=BATCH_IMAGES)

    def collect(self, parts: list[PathEnds], budget: Doubles | None = None) -> Encoded:
        """The paths of all blocks as one matrix of codes."""
        whole = parts[0] if len(parts) == 1 else PathEnds.concatenate(parts)
        most = self.budget if budget is None else budget
        gap = 2 * (most * np.maximum(whole.largest, 0) - whole.fit)
        ending = whole.ending
        return Encoded(whole.codes(self.k), gap, ending == ENDED_AT_CAP, ending == ENDED_STALLED)

    def quantized(self) -> QuantizedPrototypes:
        """The prototypes in eight bits."""
        if self._quantized is None:
            self._quantized = QuantizedPrototypes.quantize(self.rows, self.m, self.weights)
        return self._quantized

    def prepare(self) -> None:
        """Compute what all blocks share before they are sent to an engine."""
        self.quantized()
        if self.uses_screening:
            self.screening_map()

    def screening_map(self) -> Floats:
        """The linear map M that guesses the residual of an image from the image, r ~ x M.

        What joins a code late correlates with the residual, not with the image: x M D^T finds it
        with a third of the candidates that x D^T needs. M takes off what ridge regression over the
        prototypes explains, at the mean variance of their columns. A poor map costs time, never
        exactness.
        """
        if self._map is None:
            x = self.rows[:: -(-self.k // MAP_SAMPLE), : self.m]
            with single_threaded_blas():
                gram = (x.T @ x).astype(np.float64)
                ridge = (np.trace(gram) or 1.0) / self.m
                self._map = np.linalg.inv(gram / ridge + np.eye(self.m)).astype(np.float32)
        return self._map

    @property
    def uses_screening(self) -> bool:
        return not self.exact and self.k > N_CANDIDATES

    def screen(self, hint: Floats, excluded: Rows | None = None) -> Candidates:
        """The prototypes most correlated with ``hint`` (n x p), a guess of the residual."""
        n = len(hint)
        if not self.uses_screening:
            return all_candidates(n, self.k, excluded)
        out = Candidates(np.empty((n, 2 * N_CANDIDATES), np.int32), np.empty(n, np.int32))
        _kernels.screen(
            self.quantized(),
            self.k,
            hint,
            excluded,
            N_CANDIDATES,
            CORE_CANDIDATES,
            out.index,
            out.count,
        )
        return out

    def solve(
        self,
        targets: Floats,
        weight: Floats | None,
        candidates: Candidates,
        *,
        excluded: Rows | None = None,
    ) -> PathEnds:
        """Follow, certify, and follow again with what was missing, for one block of images."""
        return self._run(targets, weight, candidates=candidates, excluded=excluded)

    def follow(self, targets: Floats, weight: Floats | None, candidates: Candidates) -> PathEnds:
        """The paths over the candidates alone, without a certificate."""
        return self._run(targets, weight, candidates=candidates, certify=False)

    def _run(
        self,
        targets: Floats,
        weight: Floats | None = None,
        *,
        hint: Floats | None = None,
        candidates: Candidates | None = None,
        excluded: Rows | None = None,
        budget: Doubles | None = None,
        certify: bool = True,
    ) -> PathEnds:
        paths = PathEnds.empty(len(targets), self.max_nonzeros, targets.shape[1])
        _kernels.encode(
            self.rows,
            self.m,
            self.visual_gram,
            self.label_gram,
            self.weights,
            self.quantized(),
            self.budget,
            budget,
            NEAR_LAMBDA,
            N_CANDIDATES,
            self.k if self.exact else CORE_CANDIDATES,
            TIE_TOLERANCE,
            certify,
            targets,
            weight,
            hint,
            *(candidates or (None, None)),
            excluded,
            *paths,
        )
        return paths


def _needs_no_conversion(X: npt.ArrayLike) -> TypeGuard[Floats]:
    """Whether X needs no conversion; lengths about one tell later that its numbers are finite."""
    return (
        isinstance(X, np.ndarray)
        and X.dtype == np.float32
        and X.ndim == 2
        and X.size > 0
        and X.flags.c_contiguous
    )


def _is_single_unit_vector(X: npt.ArrayLike, coder: Coder) -> TypeGuard[Floats]:
    """Whether X is one vector as the kernels want it, about as long as the prototypes."""
    if not _needs_no_conversion(X) or X.shape != (1, coder.m) or coder._max_exponent:
        return False
    row = X[0]
    return bool(arrays.UNIT_LENGTH_FACTOR**-2 <= row.dot(row) <= arrays.UNIT_LENGTH_FACTOR**2)


@batch_name("Code images")
def _encode_batch(
    x: Floats,
    start: sparse.csr_array | None,
    excluded: Rows | None,
    ratio: Doubles | None,
    coder: Coder,
) -> PathEnds:
    """The paths of one block of images; ``ratio`` is by how much their codes were made smaller."""
    budget = None if ratio is None else coder.budget / ratio
    if not coder.uses_screening:
        paths = coder._run(
            x,
            candidates=all_candidates(len(x), coder.k, excluded),
            excluded=excluded,
            budget=budget,
        )
    else:
        if start is not None:
            hint = x - start @ coder.rows
        else:
            hint = x if coder._map is None else x @ coder._map
        paths = coder._run(x, hint=hint, excluded=excluded, budget=budget)
    if ratio is not None:
        paths.value[:] *= ratio[:, None].astype(np.float32)
    return paths
