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
    """z-score, principal axes, and the scores of tags by their names, as one matrix product.

    With ``scale`` all columns of the image's vector are kept: they are scaled, and the columns of
    the product follow them.
    """

    map: Floats  # m x columns
    constant: Floats  # columns, those that are only scaled included
    width: int  # the first columns are the reduced vector, the others are scores by names
    scale: Floats | None = None  # m

    def __call__(self, X: Floats) -> Floats:
        projected = rowwise_matmul(X, self.map) if self.map.shape[1] else X[:, :0]
        if self.scale is not None:
            projected = np.hstack([X * self.scale, projected])
        return np.asarray(projected + self.constant, np.float32)


class Kernel(NamedTuple):
    """``(exp(-gamma ||x - d_l||^2) + 1) @ dual``, summed over the landmarks d_l."""

    landmarks: Floats  # l x width
    dual: Floats  # l x t
    gamma: float
    strength: float  # penalty of the ridge regression


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
    prototypes: Floats  # k x width, D
    semantics: SparseRows  # k x t, S
    max_nonzeros: int
    kernel: Kernel
    kernel_share: float  # against the codes
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
        parts = [self._raw(X[rows], engine) for rows in batch_slices(len(X), PROJECTION_BATCH)]
        return np.concatenate(parts) if len(parts) > 1 else parts[0]

    def _raw(self, X: Floats, engine: Engine) -> Floats:
        """Return the weighted sum of the scores of codes, kernel and names."""
        projected = self.projection(X)
        vectors = normalize_rows(projected[:, : self.projection.width])
        raw = np.zeros((len(X), self.n_tags), np.float32)  # parts without weight are not computed
        if self.kernel_share < 1:
            coded = self.semantics.weighted_row_sums(*self._codes(vectors, engine))
            raw += np.float32(1 - self.kernel_share) * coded
        if self.kernel_share > 0:
            raw += np.float32(self.kernel_share) * self.kernel_scores(vectors, engine)
        if projected.shape[1] > self.projection.width:
            raw += projected[:, self.projection.width :]
        return raw

    def kernel_scores(self, vectors: Floats, engine: Engine = SINGLE_THREAD) -> Floats:
        """Return scores of the kernel regression for reduced vectors."""
        constant, norms = self._kernel_cache
        shared = [self.kernel, norms]
        return map_rows(engine, _kernel_batch, [vectors], shared, size=KERNEL_BATCH) + constant

    # -- codes -------------------------------------------------------------------------------------

    def vectors(self, X: Floats) -> Floats:
        """Return reduced vectors of unit length, which codes and kernel share."""
        return normalize_rows(self.projection(X)[:, : self.projection.width])

    def codes(self, X: Floats, engine: Engine = SINGLE_THREAD) -> Codes:
        """Return codes over the prototypes."""
        return self._codes(self.vectors(X), engine)

    def _codes(self, vectors: Floats, engine: Engine) -> Codes:
        paths = self.coder.encode_batches(vectors, engine=engine)
        index, value = zip(*((part.index, part.value) for part in paths), strict=True)
        return Codes(np.concatenate(index), np.concatenate(value))

    # -- explanations ------------------------------------------------------------------------------

    def explain(self, X: Floats, columns: Sequence[int]) -> Contributions:
        """Attribute the scores of one image (1 x m): contributions to a tag add up to its score."""
        columns = list(columns)
        factors = self.tag_scale[columns]
        codes = self.codes(X)
        used = codes.value[0] > 0
        index = codes.index[0][used]
        value = codes.value[0][used, None]
        semantics = self.semantics.dense_rows(index)[:, columns] * factors
        code_scores = np.float32(1 - self.kernel_share) * value * semantics
        of_landmarks = self._landmark_contributions(self.vectors(X), columns) * factors
        kernel_scores = np.float32(self.kernel_share) * of_landmarks
        rest = self.scores(X)[0, columns] - code_scores.sum(axis=0) - kernel_scores.sum(axis=0)
        return Contributions(index, code_scores, kernel_scores, rest)

    def _landmark_contributions(self, x: Floats, columns: list[int]) -> Floats:
        """Attribute the kernel scores to the nearest landmarks (landmarks x tags).

        ``k @ dual`` does not explain, because dual coefficients are large and cancel. A ridge
        regression is also ``w @ T``, a weighted mean of the tags of the landmarks, with
        ``w = k (K + strength)^-1`` and ``T = (K + strength) dual``; the nearest landmarks have
        nearly all of the weight.
        """
        landmarks, dual, gamma, strength = self.kernel
        shares = np.zeros((len(landmarks), len(columns)), np.float32)
        if self.kernel_share == 0:
            return shares
        near_by = rbf_kernel_by_row(x, landmarks, gamma, self._kernel_cache.norms)[0]
        near = np.argsort(-near_by, kind="stable")[:EXPLAINING_LANDMARKS]
        dual = dual[:, columns]
        close = landmarks[near]
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
        config = {
            "width": int(self.projection.width),
            "max_nonzeros": int(self.max_nonzeros),
            "gamma": float(self.kernel.gamma),
            "strength": float(self.kernel.strength),
            "kernel_share": float(self.kernel_share),
        }
        arrays: dict[str, Array] = {
            "projection/map": self.projection.map,
            "projection/constant": self.projection.constant,
            "prototypes": self.prototypes,
            "kernel/dual": self.kernel.dual,
            "tag_scale": self.tag_scale,
            "threshold": self.threshold,
            "calibration/knots": self.calibration.knots,
            "calibration/rates": self.calibration.rates,
            "calibration/offset": self.calibration.offset,
        }
        if self.kernel.landmarks is not self.prototypes:
            arrays["kernel/landmarks"] = self.kernel.landmarks
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


@batch_name("Score by the kernel")
def _kernel_batch(x: Floats, parameters: Kernel, norms: Floats) -> Floats:
    """Return scores of the kernel regression without the kernel's constant."""
    K = rbf_kernel_by_row(x, parameters.landmarks, parameters.gamma, norms)
    return rowwise_matmul(K, parameters.dual)
