"""Encoder: certified solutions of the non-negative lasso by screening and LARS.

A code solves, for one image,

    min_a ||x - a D||^2 + w ||target - a S||^2    s.t.  a >= 0,  sum(a) <= budget,

by the LARS path, which ends at the budget or at ``max_nonzeros``; visual coding has no label part.
*Screening* selects candidate prototypes, over which the path is computed. *Certification* checks
the optimality of its end over all prototypes; violators become candidates, and the path is computed
again. Both passes over all prototypes are int8 products with an error bound, which tells the
prototypes that need exact products. The certificate is the duality gap
``2 (budget max(c) - a.c)``.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard

import numpy as np
import numpy.typing as npt

from prototag import _kernels, arrays
from prototag.arrays import Array, Bools, Doubles, Exponents, Floats, Ints, Rows
from prototag.engine import SINGLE_THREAD, Engine, single_threaded_blas
from prototag.engine.task_names import batch_name

if TYPE_CHECKING:  # SciPy is slow to import, and annotation does not need it
    from scipy import sparse

RowSelection = Rows | Bools  # row indices or a mask
# Numbers of candidates: in the first path, and in total.
CORE_CANDIDATES = 32
N_CANDIDATES = 128
# Reasons why a path ended (kernels/coding/encoder.hpp).
ENDED_AT_CAP = 2
ENDED_STALLED = 3
BATCH_IMAGES = 512  # images per batch
NEAR_LAMBDA = (
    0.95  # a path cut by the cap is tried again with prototypes above this share of lambda
)
MAP_MIN_IMAGES = 64  # number of images for which computing the screening map pays
MAP_SAMPLE = 2048  # prototypes from which the screening map is computed
MAP_MAX_COLUMNS = 2048  # columns of a screening map, whose cost is cubic
GRAM_BYTES = 1 << 28
TIE_TOLERANCE = 1e-5  # of lambda: closer correlations are ties, such as duplicate prototypes


TILE_PROTOTYPES = (
    64  # prototypes whose products are computed together (kernels/coding/int8_quantization.hpp)
)


class PathEnds(NamedTuple):
    """Ends of the LARS paths of a batch of images."""

    index: Ints  # type: ignore[assignment]  # n x max_nonzeros; the first ``count`` are used, sorted
    value: Floats
    count: Ints  # type: ignore[assignment]
    lam: Floats  # correlation of the active prototypes
    ending: npt.NDArray[np.int8]
    residual: Floats  # n x (m + t): [x - a D | w (target - a S)]
    fit: npt.NDArray[np.float64]  # a . correlation
    largest: Floats  # upper bound of the correlations of all prototypes, if certified

    @classmethod
    def empty(cls, n: int, cap: int, width: int) -> PathEnds:
        return cls(
            np.empty((n, cap), np.int32),
            np.empty((n, cap), np.float32),
            np.empty(n, np.int32),
            np.empty(n, np.float32),
            np.empty(n, np.int8),
            np.empty((n, width), np.float32),
            np.empty(n),
            np.empty(n, np.float32),
        )

    @classmethod
    def from_codes(cls, codes: sparse.csr_array, cap: int, width: int) -> PathEnds:
        """Convert existing codes to ends of paths."""
        paths = cls.empty(codes.shape[0], cap, width)
        for array in paths:
            array.fill(0)
        paths.count[:] = np.diff(codes.indptr)
        used = np.arange(cap) < paths.count[:, None]
        paths.index[used] = codes.indices
        paths.value[used] = codes.data
        return paths

    @classmethod
    def concatenate(cls, parts: list[PathEnds]) -> PathEnds:
        """Concatenate the ends of several batches, without residuals."""
        return cls(
            index=np.concatenate([part.index for part in parts]),
            value=np.concatenate([part.value for part in parts]),
            count=np.concatenate([part.count for part in parts]),
            lam=np.concatenate([part.lam for part in parts]),
            ending=np.concatenate([part.ending for part in parts]),
            residual=parts[0].residual[:0].copy(),
            fit=np.concatenate([part.fit for part in parts]),
            largest=np.concatenate([part.largest for part in parts]),
        )

    def take(self, rows: RowSelection) -> PathEnds:
        arrays: tuple[Any, ...] = self
        return PathEnds(*(array[rows] for array in arrays))

    def put(self, rows: RowSelection, other: PathEnds) -> None:
        arrays: tuple[Any, ...] = self
        for mine, theirs in zip(arrays, other, strict=True):
            mine[rows] = theirs

    def codes(self, k: int) -> sparse.csr_array:
        used = self.value > 0
        data = self.value[used]
        indices = self.index[used]
        indptr = np.zeros(len(used) + 1, np.int32)
        if len(used) == 1:
            indptr[1] = len(data)
        else:
            np.cumsum(np.count_nonzero(used, axis=1), out=indptr[1:])
        return csr_unchecked(data, indices, indptr, (len(used), k))


class Candidates(NamedTuple):
    """Candidate prototypes of each image of a batch, best first."""

    index: Ints  # type: ignore[assignment]  # n x room
    count: Ints  # type: ignore[assignment]  # n


class QuantizedPrototypes(NamedTuple):
    """Int8-quantized prototypes in the layout of the kernels."""

    codes: Array  # tiles x quads of columns x TILE x 4, flat
    bounds: Floats  # 3 x prototypes: scales, and bounds of the quantization error
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
    """Quality of the codes of several images."""

    gap: float  # largest duality gap of codes that are not capped
    capped: int  # number of codes that ended at ``max_nonzeros``
    stalled: int  # number of codes that ended for lack of float64 precision


class Encoded(NamedTuple):
    """Codes of n images with their certificates."""

    codes: sparse.csr_array  # n x k, sorted indices
    gap: Doubles  # n, duality gaps
    capped: Bools  # n, whether the path ended at ``max_nonzeros``
    stalled: Bools  # n, whether it ended for lack of float64 precision

    @property
    def certificate(self) -> Certificate:
        gap = float(self.gap[~self.capped].max(initial=0.0))
        return Certificate(gap, int(self.capped.sum()), int(self.stalled.sum()))


class Coder:
    """Encoder over a fixed set of prototypes.

    Solves for each row of ``X``, as :func:`prototag.sparse_encode` does,

        min_a ||x - a prototypes||^2   s.t.  a >= 0,  sum(a) <= budget,

    with at most ``max_nonzeros`` entries. Values that depend on the prototypes only are computed
    once.

    Parameters
    ----------
    prototypes : array-like of shape (k, m)
        Visual prototypes D.
    labels : (k, t) float32, optional
        Semantic prototypes S, for coupled coding.
    budget : float
        beta0, the largest l1 norm of a code.
    max_nonzeros : int
        Maximum number of non-zeros of a code.
    exact : bool
        Compute every path over all prototypes. Otherwise ends of paths are certified too, but a
        capped path may miss a prototype that would have entered and left.
    gram : bool, optional
        Precompute D D^T (and S S^T), k x k each. The default is coupled coding only, if both fit
        into ``gram_bytes``; products of short visual vectors are as fast as lookups.
    weights : (k,) float32, optional
        Weights of the coefficients in the budget: sum(weights * a) <= budget.
    predict_residuals : bool
        Predict residuals by the screening map if there are many images, which saves some time.
        Otherwise codes, even capped ones, never depend on the number of images.

    Examples
    --------
    >>> import numpy as np
    >>> from prototag import Coder
    >>> coder = Coder(np.eye(3))
    >>> encoded = coder.encode([[0.6, 0.3, -0.2]])
    >>> encoded.codes.toarray().round(3)
    array([[0.6, 0.3, 0. ]], dtype=float32)
    >>> bool(encoded.gap[0] < 1e-5)
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
        if labels is None and (exponent := arrays.length_exponents(visual)) is not None:
            self._max_exponent = int(exponent.max())
            visual = arrays.divide_by_powers(visual, self._max_exponent)
        self.rows: Floats = visual if labels is None else np.hstack([visual, labels])
        self.budget = float(budget)
        # More prototypes cannot be linearly independent.
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
        """Encode the rows of ``X`` and certify the codes.

        Parameters
        ----------
        start : csr_array of shape (n, k), optional
            Initial codes, which save time.
        excluded : array of shape (n,), optional
            Prototype that each image must not use, for leave-one-out codes; -1 for none. Gaps are
            measured over the other prototypes.
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
        encoded = self.collect(parts, self.budget / ratio)
        return encoded._replace(gap=encoded.gap * np.exp2(2.0 * exponent))

    def _encode_one(self, x: Floats) -> Encoded:
        """Encode one unit vector with little overhead around the kernel."""
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
        """Encode batches, and return the buffers of the kernel."""
        return self._encode_batches(*self._scale_to_unit_length(X), start, excluded, engine)

    def _scale_to_unit_length(self, X: npt.ArrayLike) -> tuple[Floats, Exponents | None]:
        """Scale rows to about unit length; return them and the exponents of two, if any."""
        x = X if _needs_no_conversion(X) else arrays.check_vectors(X)
        if x.shape[1] != self.m:
            raise ValueError(
                f"X has {x.shape[1]} columns and prototypes have {self.m}: "
                "both must be vectors of the same width."
            )
        exponent = arrays.length_exponents(x)
        if exponent is None and not self._max_exponent:
            return x, None
        x = arrays.check_vectors(x)
        if exponent is None:
            exponent = np.zeros(len(x), np.int32)
        return arrays.divide_by_powers(x, exponent), exponent

    def _encode_batches(
        self,
        x: Floats,
        exponent: Exponents | None,
        start: sparse.csr_array | None,
        excluded: Rows | None,
        engine: Engine,
    ) -> list[PathEnds]:
        self.quantized()  # once, before all batches
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
        if len(x) == 1:  # limiting the BLAS threads takes longer than the batch
            return [_encode_batch(x, start, excluded, ratio, self)]
        return engine.map(_encode_batch, [x, start, excluded, ratio], [self], size=BATCH_IMAGES)

    def collect(self, parts: list[PathEnds], budget: Doubles | None = None) -> Encoded:
        """Combine the results of all batches into one matrix of codes."""
        whole = parts[0] if len(parts) == 1 else PathEnds.concatenate(parts)
        most = self.budget if budget is None else budget
        gap = 2 * (most * np.maximum(whole.largest, 0) - whole.fit)
        ending = whole.ending
        return Encoded(whole.codes(self.k), gap, ending == ENDED_AT_CAP, ending == ENDED_STALLED)

    def quantized(self) -> QuantizedPrototypes:
        """Return the quantized prototypes, computed once."""
        if self._quantized is None:
            self._quantized = QuantizedPrototypes.quantize(self.rows, self.m, self.weights)
        return self._quantized

    def prepare(self) -> None:
        """Compute what all batches share before they are sent to an engine."""
        self.quantized()
        if self.uses_screening:
            self.screening_map()

    def screening_map(self) -> Floats:
        """Return the linear map M that predicts the residual of an image, r ~ x M.

        Prototypes that enter late correlate with the residual, not with the image: x M D^T needs a
        third of the candidates of x D^T. M removes what a ridge regression over the prototypes
        explains, with the mean variance of their columns as penalty. The quality of M affects
        speed, never exactness.
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
        """Whether candidates are screened; otherwise all prototypes are candidates."""
        return not self.exact and self.k > N_CANDIDATES

    def screen(self, hint: Floats, excluded: Rows | None = None) -> Candidates:
        """Select the prototypes most correlated with predicted residuals ``hint`` (n x p)."""
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
        """Compute certified paths for a batch of images."""
        return self._run(targets, weight, candidates=candidates, excluded=excluded)

    def follow(self, targets: Floats, weight: Floats | None, candidates: Candidates) -> PathEnds:
        """Compute paths over the candidates only, without a certificate."""
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
    """Return whether X is a float32 matrix in C order; the later length check covers NaN."""
    return (
        isinstance(X, np.ndarray)
        and X.dtype == np.float32
        and X.ndim == 2
        and X.size > 0
        and X.flags.c_contiguous
    )


def _is_single_unit_vector(X: npt.ArrayLike, coder: Coder) -> TypeGuard[Floats]:
    """Return whether X is one float32 vector of about unit length, like the prototypes."""
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
    """Encode a batch of images; ``ratio`` is the factor by which scaling reduced their codes."""
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


@lru_cache(maxsize=64)
def _empty(shape: tuple[int, int]) -> Any:
    from scipy import sparse

    return sparse.csr_array(shape, dtype=np.float32)


def csr_unchecked(data: Any, indices: Any, indptr: Any, shape: tuple[int, int]) -> sparse.csr_array:
    """Create a CSR matrix from valid parts without the checks of the constructor.

    The checks take longer than encoding one image.
    """
    empty = _empty(shape)
    matrix: sparse.csr_array = object.__new__(type(empty))
    matrix.__dict__.update(empty.__dict__)
    matrix.data = data
    matrix.indices = indices
    matrix.indptr = indptr
    matrix.has_sorted_indices = matrix.has_canonical_format = True
    return matrix


def all_candidates(n: int, k: int, excluded: Rows | None) -> Candidates:
    """Return all prototypes as candidates of n images, except the excluded one of each."""
    index = np.empty((n, k), np.int32)
    index[:] = np.arange(k)
    count = np.full(n, k, np.int32)
    if excluded is not None:  # the excluded one goes last, where it is not counted
        rows = np.flatnonzero(excluded >= 0)
        index[rows, excluded[rows]] = k - 1
        index[rows, -1] = excluded[rows]
        count[rows] -= 1
    return Candidates(index, count)
