"""The trained model: arrays, and the arithmetic from network vectors to scores.

It imports neither scikit-learn nor SciPy, because both take longer to load than a picture takes to
annotate. :class:`prototag.Tagger`, :class:`prototag.Annotator`, the model file and any number of
threads share one model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from prototag import _kernels
from prototag.arrays import (
    Array,
    Arrays,
    Doubles,
    Floats,
    Ints,
    SparseRows,
    normalize_rows,
    row_squared_norms,
    rowwise_matmul,
)
from prototag.coding.coder import Coder
from prototag.coding.rbf_kernel import rbf_kernel_by_row, rbf_kernel_with_constant
from prototag.engine import SINGLE_THREAD, Engine, batch_slices, map_rows
from prototag.engine.task_names import batch_name
from prototag.errors import ModelFileError
from prototag.storage import modelfile

KERNEL_BATCH = 256  # images whose kernel is computed in one batch
PROJECTION_BATCH = 4096  # images that are projected at once, which bounds memory
EXPLAINING_LANDMARKS = 200  # nearest landmarks that the kernel score of an image is attributed to
MIN_PROBABILITY = 1e-6  # probabilities lie between this and 1 - this, so that odds are finite


class Codes(NamedTuple):
    """Sparse codes: image i has ``value[i, j]`` of prototype ``index[i, j]``; unused are 0."""

    index: Ints  # type: ignore[assignment]
    value: Floats


class Contributions(NamedTuple):
    """The scores of one image for some tags, as sums over prototypes and landmarks and a rest."""

    prototypes: Ints
    code_scores: Floats  # used prototypes x tags
    kernel_scores: Floats  # landmarks x tags
    rest: Floats  # tags


class Predictions(NamedTuple):
    """Scores and probabilities of images, both n x t."""

    scores: Floats  # compared with thresholds
    probabilities: Doubles  # that the tag is correct


class Projection(NamedTuple):
    """z-score and all linear maps that follow it, as one product, and the use of its columns.

    If ``scale`` is given, the components are all columns of the vectors, and precede the product.
    """

    map: Floats  # m x columns, without those that are only scaled
    constant: Floats  # columns
    components: slice  # principal components for codes
    predicted: slice  # linear predictions that lift the vectors
    kernel: slice  # principal components for the kernel
    linear: slice  # linear predictions in the scores; the same without incremental updates
    scale: Floats | None = None  # m

    def __call__(self, X: Floats) -> Floats:
        projected = rowwise_matmul(X, self.map)
        if self.scale is not None:
            projected = np.hstack([X * self.scale, projected])
        projected += self.constant
        return projected


class Kernel(NamedTuple):
    """``(exp(-gamma ||x - d_l||^2) + 1) @ dual``, summed over the landmarks d_l."""

    landmarks: Floats  # l x width
    dual: Floats  # l x t
    gamma: float
    strength: float  # penalty of the ridge regression


class Linear(NamedTuple):
    """``predicted * scale + offset``: linear predictions, weighted by their share of the scores."""

    scale: Floats
    offset: Floats


class Relations(NamedTuple):
    """``scores @ R + offset``: regression of each tag on the scores of all tags.

    R is t x t. With few images and many tags it is given by factors, ``I + left.T @ right``, which
    are stacked in ``coef``.
    """

    coef: Floats  # R; or left and right, 2r x t with 2r < t
    offset: Floats  # t

    @property
    def factors(self) -> tuple[Floats, Floats] | None:
        """Left and right factor, both r x t; None if ``coef`` is R."""
        rows, t = self.coef.shape
        return None if rows == t else (self.coef[: rows // 2], self.coef[rows // 2 :])

    def __call__(self, scores: Floats) -> Floats:
        if self.factors is None:
            return np.asarray(rowwise_matmul(scores, self.coef) + self.offset)
        left, right = self.factors
        common = np.empty((len(scores), len(left)), np.float32)
        _kernels.rowwise_matmul_transposed(np.ascontiguousarray(scores, np.float32), left, common)
        return np.asarray(rowwise_matmul(common, right) + scores + self.offset)

    def columns(self, columns: Any) -> Floats:
        """Return some columns of R, t x columns."""
        if self.factors is None:
            return np.asarray(self.coef[:, columns])
        left, right = self.factors
        selected = left.T @ np.atleast_2d(right[:, columns])
        selected[columns, np.arange(selected.shape[1])] += 1
        return selected

    def widened(self) -> Relations:
        """Return these relations and one more tag, which is related to none."""
        offset = np.append(self.offset, np.float32(0))
        if self.factors is None:
            t = len(self.offset)
            coef = np.zeros((t + 1, t + 1), np.float32)
            coef[:t, :t] = self.coef
            coef[t, t] = 1
            return Relations(coef, offset)
        return Relations(np.pad(self.coef, [(0, 0), (0, 1)]), offset)


class Calibration(NamedTuple):
    """Raw scores to probabilities: an increasing function of all tags, and an offset of each."""

    knots: Doubles
    rates: Doubles  # probabilities at the knots, increasing; linear between them
    offset: Doubles  # t, added to the log odds

    def __call__(self, scores: Array) -> Doubles:
        common = np.interp(np.asarray(scores, np.float64), self.knots, self.rates)
        odds = common / (1 - common) * np.exp(self.offset)
        return np.asarray(odds / (1 + odds))


class KernelCache(NamedTuple):
    """Sums over the landmarks that every score needs."""

    constant: Floats  # t, contribution of the kernel's constant
    norms: Floats  # l, squared norms of the landmarks


@dataclass(frozen=True, eq=False)
class TagModel:
    """Scores, probabilities, codes and explanations of network vectors; tags are column numbers."""

    projection: Projection
    lift_weight: float
    axes: Floats | None  # lifted columns x depth: principal axes of the lifted vectors
    prototypes: Floats  # k x depth, D
    semantics: SparseRows  # k x t, S
    max_nonzeros: int
    kernel: Kernel
    linear: Linear
    kernel_share: float  # against the codes
    linear_share: float  # of the linear predictions, against both
    relations: Relations
    tag_scale: Floats  # t, factor of each score, which ranks the tags of an image
    threshold: Doubles  # t, scores to exceed
    calibration: Calibration
    coder: Coder = field(init=False, repr=False)
    _kernel_cache: KernelCache = field(init=False, repr=False)

    def __post_init__(self) -> None:
        # The contribution of the kernel's constant is as large as the rest: summed in float64.
        constant = self.kernel.dual.sum(axis=0, dtype=np.float64).astype(np.float32)
        coder = Coder(self.prototypes, max_nonzeros=self.max_nonzeros, predict_residuals=False)
        object.__setattr__(self, "coder", coder)
        # Computing the norms of all landmarks takes a third of the time of an image.
        cache = KernelCache(constant, row_squared_norms(self.kernel.landmarks))
        object.__setattr__(self, "_kernel_cache", cache)

    @property
    def n_features(self) -> int:
        return len(self.projection.map)

    @property
    def n_tags(self) -> int:
        return len(self.tag_scale)

    @property
    def code_weight(self) -> float:
        """The weight of the codes in a score."""
        return (1 - self.linear_share) * (1 - self.kernel_share)

    @property
    def kernel_weight(self) -> float:
        """The weight of the kernel regression in a score."""
        return (1 - self.linear_share) * self.kernel_share

    # -- scores ------------------------------------------------------------------------------------

    def scores(self, X: Floats, engine: Engine = SINGLE_THREAD) -> Floats:
        """Return scores of all tags (n x t), to compare with thresholds."""
        return self.raw(X, engine) * self.tag_scale

    def probabilities(self, X: Floats, engine: Engine = SINGLE_THREAD) -> Doubles:
        """Return the probability of each tag, n x t."""
        return self.calibration(self.raw(X, engine))

    def predict(self, X: Floats, engine: Engine = SINGLE_THREAD) -> Predictions:
        """Return scores and probabilities."""
        return self.predict_from_raw(self.raw(X, engine))

    def predict_from_raw(self, raw: Floats) -> Predictions:
        """Return scores and probabilities for raw scores."""
        return Predictions(raw * self.tag_scale, self.calibration(raw))

    def raw(self, X: Floats, engine: Engine = SINGLE_THREAD) -> Floats:
        """Return scores without the factors of the tags, which the calibration takes."""
        parts = [
            self.related(self.mixed(X[rows], engine))
            for rows in batch_slices(len(X), PROJECTION_BATCH)
        ]
        return np.concatenate(parts) if len(parts) > 1 else parts[0]

    def related(self, mixed: Floats) -> Floats:
        """Apply the relations between tags to mixed scores."""
        return np.asarray(self.relations(mixed), np.float32)

    def mixed(self, X: Floats, engine: Engine = SINGLE_THREAD) -> Floats:
        """Return the weighted sum of codes, kernel and linear part, before relations."""
        projected = self.projection(X)
        parts: list[Floats] = []  # parts without weight are not computed
        if self.linear.scale.any():
            predicted = projected[:, self.projection.linear]
            parts.append(predicted * self.linear.scale + self.linear.offset)
        if self.code_weight > 0:
            coded = self.semantics.weighted_row_sums(*self._codes(projected, engine))
            parts.append(np.float32(self.code_weight) * coded)
        if self.kernel_weight > 0:
            x = projected[:, self.projection.kernel]
            parts.append(np.float32(self.kernel_weight) * self.kernel_scores(x, engine))
        return np.asarray(sum(parts), np.float32)

    def kernel_scores(self, components: Floats, engine: Engine = SINGLE_THREAD) -> Floats:
        """Return scores of the kernel regression from its columns of the projection."""
        constant, norms = self._kernel_cache
        shared = [self.kernel, norms]
        return map_rows(engine, _kernel_batch, [components], shared, size=KERNEL_BATCH) + constant

    # -- codes -------------------------------------------------------------------------------------

    def codes(self, X: Floats, engine: Engine = SINGLE_THREAD) -> Codes:
        """Return codes over the prototypes."""
        return self._codes(self.projection(X), engine)

    def _codes(self, projected: Floats, engine: Engine) -> Codes:
        paths = self.coder.encode_batches(self._lifted(projected), engine=engine)
        index, value = zip(*((part.index, part.value) for part in paths), strict=True)
        return Codes(np.concatenate(index), np.concatenate(value))

    def lifted(self, X: Floats) -> Floats:
        """Return the lifted vectors, which are coded."""
        return self._lifted(self.projection(X))

    def _lifted(self, projected: Floats) -> Floats:
        reduced = normalize_rows(projected[:, self.projection.components])
        predicted = projected[:, self.projection.predicted] * np.float32(self.lift_weight)
        lifted = normalize_rows(np.hstack([reduced, predicted]))
        return lifted if self.axes is None else normalize_rows(rowwise_matmul(lifted, self.axes))

    def kernel_vectors(self, X: Floats) -> Floats:
        """Return the vectors of the kernel: principal components of unit length."""
        return normalize_rows(self.projection(X)[:, self.projection.kernel])

    # -- explanations ------------------------------------------------------------------------------

    def explain(self, X: Floats, columns: Sequence[int]) -> Contributions:
        """Attribute the scores of one image (1 x m): contributions to a tag add up to its score."""
        columns = list(columns)
        relation = self.relations.columns(columns) * self.tag_scale[columns]
        codes = self.codes(X)
        used = codes.value[0] > 0
        index = codes.index[0][used]
        value = codes.value[0][used, None]
        semantics = self.semantics.dense_rows(index) @ relation
        code_scores = np.float32(self.code_weight) * value * semantics
        of_landmarks = self._landmark_contributions(self.kernel_vectors(X), relation)
        kernel_scores = np.float32(self.kernel_weight) * of_landmarks
        rest = self.scores(X)[0, columns] - code_scores.sum(axis=0) - kernel_scores.sum(axis=0)
        return Contributions(index, code_scores, kernel_scores, rest)

    def _landmark_contributions(self, x: Floats, relation: Floats) -> Floats:
        """Attribute the kernel scores to the nearest landmarks (landmarks x tags).

        ``k @ dual`` does not explain, because dual coefficients are large and cancel. A ridge
        regression is also ``w @ T``, a weighted mean of the tags of the landmarks, with
        ``w = k (K + strength)^-1`` and ``T = (K + strength) dual``; the nearest landmarks have
        nearly all of the weight.
        """
        landmarks, dual, gamma, strength = self.kernel
        shares = np.zeros((len(landmarks), relation.shape[1]), np.float32)
        if self.kernel_weight == 0:
            return shares
        near_by = rbf_kernel_by_row(x, landmarks, gamma, self._kernel_cache.norms)[0]
        near = np.argsort(-near_by, kind="stable")[:EXPLAINING_LANDMARKS]
        dual, close = dual @ relation, landmarks[near]
        tags = rbf_kernel_with_constant(close, landmarks, gamma) @ dual
        tags += np.float32(strength) * dual[near]
        inner = rbf_kernel_with_constant(close, close, gamma).astype(np.float64)
        inner[np.diag_indices_from(inner)] += strength
        weights = np.linalg.solve(inner, near_by[near].astype(np.float64) + 1)
        shares[near] = weights[:, None] * tags
        return shares

    # -- model file --------------------------------------------------------------------------------

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return plain values and arrays for a model file."""
        columns = {name: getattr(self.projection, name) for name in COLUMN_USES}
        config = {
            "columns": {name: [part.start, part.stop] for name, part in columns.items()},
            "lift_weight": float(self.lift_weight),
            "max_nonzeros": int(self.max_nonzeros),
            "gamma": float(self.kernel.gamma),
            "strength": float(self.kernel.strength),
            "kernel_share": float(self.kernel_share),
            "linear_share": float(self.linear_share),
        }
        arrays: dict[str, Array] = {
            "projection/map": self.projection.map,
            "projection/constant": self.projection.constant,
            "prototypes": self.prototypes,
            "kernel/landmarks": self.kernel.landmarks,
            "kernel/dual": self.kernel.dual,
            "linear/scale": self.linear.scale,
            "linear/offset": self.linear.offset,
            "relations/coef": self.relations.coef,
            "relations/offset": self.relations.offset,
            "tag_scale": self.tag_scale,
            "threshold": self.threshold,
            "calibration/knots": self.calibration.knots,
            "calibration/rates": self.calibration.rates,
            "calibration/offset": self.calibration.offset,
        }
        if self.axes is not None:
            arrays["axes"] = self.axes
        if self.projection.scale is not None:
            arrays["projection/scale"] = self.projection.scale
        return config, arrays | modelfile.pack_csr("semantics", self.semantics.csr())

    @classmethod
    def from_arrays(cls, config: Mapping[str, Any], arrays: Arrays) -> TagModel:
        """Build the model from a file; everything is validated."""
        from prototag.tagging.model_io import read

        try:
            return read(config, arrays)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            if isinstance(error, ModelFileError):
                raise
            raise ModelFileError(f"the model's description is not complete: {error}") from error


COLUMN_USES = ("components", "predicted", "kernel", "linear")


@batch_name("Score by the kernel")
def _kernel_batch(x: Floats, parameters: Kernel, norms: Floats) -> Floats:
    """Return scores of the kernel regression without the kernel's constant."""
    K = rbf_kernel_by_row(normalize_rows(x), parameters.landmarks, parameters.gamma, norms)
    return rowwise_matmul(K, parameters.dual)
