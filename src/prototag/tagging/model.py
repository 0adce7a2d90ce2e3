"""What a Tagger has learned: arrays, and the arithmetic from network vectors to scores.

Without scikit-learn or SciPy, as both take longer to load than a picture takes to annotate. One
model serves :class:`prototag.Tagger`, :class:`prototag.Annotator`, the model file and any number of
threads.
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

BLOCK = 256  # images that the kernel compares at once
ROWS = 4096  # images projected at once
NEAREST = 200  # landmarks that explain what the kernel says of an image
CERTAIN = 1e-6  # probabilities are no nearer to 0 or 1 than this


class Codes(NamedTuple):
    """Sparse codes by place: ``value[i, j]`` of prototype ``index[i, j]``; 0 where unused."""

    index: Ints  # type: ignore[assignment]
    value: Floats


class Shares(NamedTuple):
    """The score of one image for some tags as a sum: of prototypes, of landmarks, of neither."""

    prototypes: Ints
    coded: Floats  # used prototypes x tags
    smooth: Floats  # landmarks x tags
    rest: Floats  # tags


class Judged(NamedTuple):
    """What a model says of images, both n x t."""

    scores: Floats  # what thresholds are compared with
    probabilities: Doubles  # of being right


class Projection(NamedTuple):
    """z-score and every linear map that follows it, as one product; its columns by their use.

    Where the components are all columns of the vectors (``scale`` is given), these come first.
    """

    map: Floats  # m x columns, without those that are only scaled
    constant: Floats  # columns
    short: slice  # principal components for codes
    predicted: slice  # linear predictions of the tags
    kernel: slice  # principal components for the kernel
    linear: slice  # linear predictions that scores are made of; where none was learned on, the same
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
    strength: float  # of the ridge that found the dual


class Linear(NamedTuple):
    """``predicted * scale + offset``: the linear predictions, with their share of the scores."""

    scale: Floats
    offset: Floats


class Relations(NamedTuple):
    """``scores @ R + offset``: what the scores of all tags say of each.

    R is t x t. Of few images and many tags it is known by its factors, ``I + left.T @ right``, of
    which one lies below the other.
    """

    coef: Floats  # R; or left and right, 2r x t with 2r < t
    offset: Floats  # t

    @property
    def factors(self) -> tuple[Floats, Floats] | None:
        """Left and right, both r x t; None where R itself is known."""
        rows, t = self.coef.shape
        return None if rows == t else (self.coef[: rows // 2], self.coef[rows // 2 :])

    def __call__(self, scores: Floats) -> Floats:
        if self.factors is None:
            return np.asarray(rowwise_matmul(scores, self.coef) + self.offset)
        left, right = self.factors
        common = np.empty((len(scores), len(left)), np.float32)
        _kernels.compare_rows(np.ascontiguousarray(scores, np.float32), left, common)
        return np.asarray(rowwise_matmul(common, right) + scores + self.offset)

    def columns(self, columns: Any) -> Floats:
        """Some columns of R, t x columns."""
        if self.factors is None:
            return np.asarray(self.coef[:, columns])
        left, right = self.factors
        found = left.T @ np.atleast_2d(right[:, columns])
        found[columns, np.arange(found.shape[1])] += 1
        return found

    def widened(self) -> Relations:
        """The same, and a new tag that is related to none."""
        offset = np.append(self.offset, np.float32(0))
        if self.factors is None:
            t = len(self.offset)
            coef = np.zeros((t + 1, t + 1), np.float32)
            coef[:t, :t] = self.coef
            coef[t, t] = 1
            return Relations(coef, offset)
        return Relations(np.pad(self.coef, [(0, 0), (0, 1)]), offset)


class Calibration(NamedTuple):
    """From raw scores to probabilities: a rising function for all tags, moved for each."""

    knots: Doubles
    rates: Doubles  # between CERTAIN and 1 - CERTAIN, linear between the knots
    offset: Doubles  # t, added to the log odds

    def __call__(self, scores: Array) -> Doubles:
        common = np.interp(np.asarray(scores, np.float64), self.knots, self.rates)
        odds = common / (1 - common) * np.exp(self.offset)
        return np.asarray(odds / (1 + odds))


@dataclass(frozen=True, eq=False)
class TagModel:
    """Scores, probabilities, codes and reasons of network vectors; tags are numbered columns."""

    projection: Projection
    lift_weight: float
    axes: Floats | None  # lifted columns x depth: principal axes of the lifted vectors
    prototypes: Floats  # k x depth, D
    semantics: SparseRows  # k x t, S
    max_nonzeros: int
    kernel: Kernel
    linear: Linear
    share: float  # of the kernel, against the codes
    linear_share: float  # of the linear predictions, against both
    relations: Relations
    tag_scale: Floats  # t, lets rare tags stand among the best of an image
    threshold: Doubles  # t, scores to exceed
    calibration: Calibration
    coder: Coder = field(init=False, repr=False)
    _known: tuple[Floats, Floats] = field(init=False, repr=False)  # of the kernel: sum, squares

    def __post_init__(self) -> None:
        # What the kernel's constant gives is as large as all the rest: summed apart, in float64.
        constant = self.kernel.dual.sum(axis=0, dtype=np.float64).astype(np.float32)
        coder = Coder(self.prototypes, max_nonzeros=self.max_nonzeros, predict_residuals=False)
        object.__setattr__(self, "coder", coder)
        # Reading all landmarks for their lengths takes a third of the time that an image takes.
        object.__setattr__(self, "_known", (constant, row_squared_norms(self.kernel.landmarks)))

    @property
    def n_features(self) -> int:
        return len(self.projection.map)

    @property
    def n_tags(self) -> int:
        return len(self.tag_scale)

    @property
    def coded_share(self) -> float:
        """How much of a score the codes bring."""
        return (1 - self.linear_share) * (1 - self.share)

    @property
    def smooth_share(self) -> float:
        """How much of a score the kernel brings."""
        return (1 - self.linear_share) * self.share

    # -- scores ------------------------------------------------------------------------------------

    def scores(self, X: Floats, engine: Engine = SINGLE_THREAD) -> Floats:
        """Scores of all tags, n x t: what thresholds are compared with."""
        return self.raw(X, engine) * self.tag_scale

    def probabilities(self, X: Floats, engine: Engine = SINGLE_THREAD) -> Doubles:
        """How likely each tag is right, n x t."""
        return self.calibration(self.raw(X, engine))

    def judge(self, X: Floats, engine: Engine = SINGLE_THREAD) -> Judged:
        """Scores and probabilities in one pass."""
        return self.judge_raw(self.raw(X, engine))

    def judge_raw(self, raw: Floats) -> Judged:
        """The same from raw scores that are known already."""
        return Judged(raw * self.tag_scale, self.calibration(raw))

    def raw(self, X: Floats, engine: Engine = SINGLE_THREAD) -> Floats:
        """Scores without the factors of the tags: what probabilities are made of."""
        parts = [self.related(self.mixed(X[rows], engine)) for rows in batch_slices(len(X), ROWS)]
        return np.concatenate(parts) if len(parts) > 1 else parts[0]

    def related(self, mixed: Floats) -> Floats:
        """Scores of each tag, and what those of all others say of it."""
        return np.asarray(self.relations(mixed), np.float32)

    def mixed(self, X: Floats, engine: Engine = SINGLE_THREAD) -> Floats:
        """Scores of each tag by itself."""
        projected = self.projection(X)
        parts: list[Floats] = []  # one that has no share costs no time
        if self.linear_share > 0:
            predicted = projected[:, self.projection.linear]
            parts.append(predicted * self.linear.scale + self.linear.offset)
        if self.coded_share > 0:
            coded = self.semantics.weighted_row_sums(*self._codes(projected, engine))
            parts.append(np.float32(self.coded_share) * coded)
        if self.smooth_share > 0:
            x = projected[:, self.projection.kernel]
            parts.append(np.float32(self.smooth_share) * self.smooth(x, engine))
        return np.asarray(sum(parts), np.float32)

    def smooth(self, short: Floats, engine: Engine = SINGLE_THREAD) -> Floats:
        """What the kernel says of each tag, by its own columns of the vectors."""
        constant, lengths = self._known
        return (
            map_rows(engine, _smooth_block, [short], [self.kernel, lengths], size=BLOCK) + constant
        )

    # -- codes -------------------------------------------------------------------------------------

    def codes(self, X: Floats, engine: Engine = SINGLE_THREAD) -> Codes:
        """Codes over the prototypes."""
        return self._codes(self.projection(X), engine)

    def _codes(self, projected: Floats, engine: Engine) -> Codes:
        paths = self.coder.encode_batches(self._lifted(projected), engine=engine)
        index, value = zip(*((part.index, part.value) for part in paths), strict=True)
        return Codes(np.concatenate(index), np.concatenate(value))

    def lifted(self, X: Floats) -> Floats:
        """The vectors that codes are made of."""
        return self._lifted(self.projection(X))

    def _lifted(self, projected: Floats) -> Floats:
        short = normalize_rows(projected[:, self.projection.short])
        predicted = projected[:, self.projection.predicted] * np.float32(self.lift_weight)
        lifted = normalize_rows(np.hstack([short, predicted]))
        return lifted if self.axes is None else normalize_rows(rowwise_matmul(lifted, self.axes))

    def short(self, X: Floats) -> Floats:
        """The vectors of the kernel: what the network says, shortened, whatever the tags."""
        return normalize_rows(self.projection(X)[:, self.projection.kernel])

    # -- reasons -----------------------------------------------------------------------------------

    def explain(self, X: Floats, columns: Sequence[int]) -> Shares:
        """Where the scores of one image (1 x m) come from; the shares of a tag add up to it."""
        columns = list(columns)
        relation = self.relations.columns(columns) * self.tag_scale[columns]
        codes = self.codes(X)
        used = codes.value[0] > 0
        index = codes.index[0][used]
        value = codes.value[0][used, None]
        coded = np.float32(self.coded_share) * value * (self.semantics.dense_rows(index) @ relation)
        smooth = np.float32(self.smooth_share) * self._smooth_shares(self.short(X), relation)
        rest = self.scores(X)[0, columns] - coded.sum(axis=0) - smooth.sum(axis=0)
        return Shares(index, coded, smooth, rest)

    def _smooth_shares(self, x: Floats, relation: Floats) -> Floats:
        """What landmarks give to the kernel's scores, landmarks x tags: zero but for the nearest.

        ``likeness @ dual`` says little of single landmarks, as dual weights are large and cancel.
        A ridge regression is also ``w @ T``, a weighted mean of the landmarks' own tags, with
        ``w = k (K + strength)^-1`` and ``T = (K + strength) dual``; the nearest landmarks alone
        have nearly all of it.
        """
        landmarks, dual, gamma, strength = self.kernel
        shares = np.zeros((len(landmarks), relation.shape[1]), np.float32)
        if self.smooth_share == 0:
            return shares
        near_by = rbf_kernel_by_row(x, landmarks, gamma, self._known[1])[0]
        near = np.argsort(-near_by, kind="stable")[:NEAREST]
        dual, close = dual @ relation, landmarks[near]
        tags = rbf_kernel_with_constant(close, landmarks, gamma) @ dual
        tags += np.float32(strength) * dual[near]
        inner = rbf_kernel_with_constant(close, close, gamma).astype(np.float64)
        inner[np.diag_indices_from(inner)] += strength
        weights = np.linalg.solve(inner, near_by[near].astype(np.float64) + 1)
        shares[near] = weights[:, None] * tags
        return shares

    # -- on disk -----------------------------------------------------------------------------------

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Plain values and arrays, for a model file."""
        columns = {name: getattr(self.projection, name) for name in USES}
        config = {
            "columns": {name: [part.start, part.stop] for name, part in columns.items()},
            "lift_weight": float(self.lift_weight),
            "max_nonzeros": int(self.max_nonzeros),
            "gamma": float(self.kernel.gamma),
            "strength": float(self.kernel.strength),
            "share": float(self.share),
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
        """The model that :meth:`to_arrays` described; everything in it is checked."""
        from prototag.tagging.model_io import read

        try:
            return read(config, arrays)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            if isinstance(error, ModelFileError):
                raise
            raise ModelFileError(f"the model's description is not complete: {error}") from error


USES = ("short", "predicted", "kernel", "linear")


@batch_name("Score by the kernel")
def _smooth_block(x: Floats, parameters: Kernel, lengths: Floats) -> Floats:
    """The kernel's scores of some images, without its constant."""
    near = rbf_kernel_by_row(normalize_rows(x), parameters.landmarks, parameters.gamma, lengths)
    return rowwise_matmul(near, parameters.dual)
