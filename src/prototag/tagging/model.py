"""From network vectors to the scores of a fitted Tagger: arithmetic on its stored arrays.

Without scikit-learn or SciPy, as both take longer to load than a picture takes to annotate.
:class:`prototag.Tagger` scores through this, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from prototag.coding.coder import Coder
from prototag.engine import threads
from prototag.errors import ModelFileError
from prototag.storage import modelfile
from prototag.tagging import calibration, ridge

Floats = npt.NDArray[np.float32]
Arrays = Mapping[str, npt.NDArray[Any]]
BLOCK = 256  # images that the kernel compares at once
ROWS = 4096  # images projected at once
NEAREST = 200  # landmarks that explain what the kernel says of an image
GATHERED = 64  # images whose prototypes' semantics are gathered at once


class Codes(NamedTuple):
    """Sparse codes by place: ``value[i, j]`` of prototype ``index[i, j]``; 0 where unused."""

    index: npt.NDArray[np.int32]  # type: ignore[assignment]
    value: Floats


class Shares(NamedTuple):
    """The score of one image for some tags as a sum: of prototypes, of landmarks, of neither."""

    prototypes: npt.NDArray[np.int32]
    coded: Floats  # used prototypes x tags
    smooth: Floats  # landmarks x tags
    rest: Floats  # tags


class Projection:
    """z-score and every linear map that follows it, as one product.

    Columns: principal components for codes, predicted tags, principal components for the kernel.
    """

    def __init__(self, arrays: Arrays, m: int, width: int, t: int) -> None:
        def part(key: str, *shape: int | None) -> npt.NDArray[np.float64]:
            kind = arrays[key].dtype.str if key in arrays else "f8"
            return modelfile.expect(arrays, key, shape, kind).astype(np.float64, copy=False)

        maps, constants = [], []
        for name, count in (("lifting/reduction", None), ("reduction", width)):
            mean, scale = (part(f"{name}/zscore/{key}_", m) for key in ("mean", "scale"))
            axes = part(f"{name}/axes/components_", count, m).T
            maps.append((axes, scale))
            constants.append(-(mean / scale + part(f"{name}/axes/mean_", m)) @ axes)
            if name == "lifting/reduction":
                coef = part("lifting/coef_", m, t)
                maps.append((coef, scale))
                constants.append(part("lifting/intercept_", t) - (mean / scale) @ coef)
        ends = np.cumsum([linear.shape[1] for linear, _ in maps])
        # Straight into its place: large arrays in between would take longer than an image.
        self.map = np.empty((m, ends[-1]), np.float32)
        for (linear, scale), end in zip(maps, ends, strict=True):
            place = self.map[:, end - linear.shape[1] : end]
            np.divide(linear, scale[:, None], out=place, casting="same_kind")
        self.constant = np.concatenate(constants).astype(np.float32)
        first = int(ends[0])
        self.short, self.predicted = slice(0, first), slice(first, first + t)
        self.kernel = slice(first + t, None)

    def __call__(self, X: Floats) -> Floats:
        projected = X @ self.map
        projected += self.constant
        return projected


class Scorer:
    """Scores, codes and probabilities of network vectors.

    Parameters
    ----------
    config, arrays
        What :meth:`prototag.Tagger.to_state` returned; from a file, so everything is checked.
    n_jobs : int, optional
    """

    def __init__(
        self, config: Mapping[str, Any], arrays: Arrays, *, n_jobs: int | None = None
    ) -> None:
        self.n_jobs = n_jobs
        try:
            self._read(config, arrays)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            if isinstance(error, ModelFileError):
                raise
            raise ModelFileError(f"the model's description is not complete: {error}") from error

    def _read(self, config: Mapping[str, Any], arrays: Arrays) -> None:
        m, count, width, t = (int(size) for size in config["shape"])
        self.n_features = m
        self.names: list[Any] = _names(config["vocabulary"], t)
        choices = config["choices"]
        self.share, self.gamma = float(choices["share"]), float(choices["gamma"])
        self.strength = float(choices.get("strength", 1.0))
        self.linear = float(choices.get("linear", 0.0))
        if self.linear > 0:  # a file from before there was a linear part has none
            self._linear_scale = modelfile.expect(arrays, "linear/scale", (t,), "f4")
            self._linear_offset = modelfile.expect(arrays, "linear/offset", (t,), "f4")
        per_tag = bool(config["per_tag"])
        threshold = modelfile.expect(arrays, "threshold", (t if per_tag else 1,), "f8")
        self.threshold = np.broadcast_to(threshold, t)
        self.tag_scale = modelfile.expect(arrays, "tag_scale", (t,), "f4")
        self._relation = modelfile.expect(arrays, "relations/coef", (t, t), "f4")
        self._offset = modelfile.expect(arrays, "relations/offset", (t,), "f4")
        self._knots = modelfile.expect(arrays, "calibration/knots", (None,), "f8")
        size = (len(self._knots),)
        self._rates = modelfile.expect(arrays, "calibration/probabilities", size, "f8")

        self._project = Projection(arrays, m, width, t)
        self._landmarks = modelfile.expect(arrays, "kernel/landmarks", (count, width), "f4")
        self._dual = modelfile.expect(arrays, "kernel/dual", (count, t), "f4")
        # What the kernel's constant gives is as large as all the rest: summed apart, in float64.
        self._constant = self._dual.sum(axis=0, dtype=np.float64).astype(np.float32)

        self._lift_weight = np.float32(config["lifting"]["parameters"]["weight"])
        lifted, recipe = self._project.kernel.start, config["mcdl"]["recipe"]
        k, depth, _ = config["mcdl"]["shape"]
        self._axes = None
        if "lifting/axes_" in arrays:
            axes = modelfile.expect(arrays, "lifting/axes_", (lifted, depth), "f8")
            self._axes = axes.astype(np.float32)
        elif depth != lifted:
            raise ModelFileError("the parts of the model do not fit each other: it is damaged.")
        prototypes = modelfile.expect(arrays, "mcdl/visual_prototypes", (k, depth), "f4")
        self.semantics = modelfile.unpack_dense(arrays, "mcdl/semantic_prototypes", (k, t))
        self._coder = Coder(
            prototypes,
            budget=recipe["budget"],
            max_nonzeros=recipe["max_nonzeros"],
            exact=recipe["exact"],
        )

    @property
    def coded_share(self) -> float:
        """How much of a score the codes bring."""
        return (1 - self.linear) * (1 - self.share)

    @property
    def smooth_share(self) -> float:
        """How much of a score the kernel brings."""
        return (1 - self.linear) * self.share

    def scores(self, X: Floats) -> Floats:
        """Scores of all tags, n x t: what thresholds are compared with."""
        return self.plain(X) * self.tag_scale

    def plain(self, X: Floats) -> Floats:
        """Scores without the factors of the tags: what probabilities are made of."""
        parts = [self._plain(self._project(X[rows])) for rows in threads.blocks(len(X), ROWS)]
        return np.concatenate(parts) if len(parts) > 1 else parts[0]

    def _plain(self, projected: Floats) -> Floats:
        parts: list[Floats] = []  # one that has no share costs no time
        if self.linear > 0:
            parts.append(self._straight(projected))
        if self.coded_share > 0:
            parts.append(np.float32(self.coded_share) * self._coded(projected))
        if self.smooth_share > 0:
            parts.append(np.float32(self.smooth_share) * self._smooth(projected))
        return np.asarray(sum(parts) @ self._relation + self._offset, np.float32)

    def probabilities(self, plain: Floats) -> npt.NDArray[np.float64]:
        """How likely each tag is right, given :meth:`plain` scores."""
        return calibration.apply(plain, self._knots, self._rates)

    def codes(self, X: Floats) -> Codes:
        """Codes over the prototypes."""
        return self._codes(self._project(X))

    def lifted(self, X: Floats) -> Floats:
        """The vectors that codes are made of."""
        return self._lifted(self._project(X))

    def short(self, X: Floats) -> Floats:
        """The vectors of the kernel: what the network says, shortened, whatever the tags."""
        return unit(self._project(X)[:, self._project.kernel])

    def shares(self, X: Floats, columns: Sequence[int]) -> Shares:
        """Where the scores of one image (1 x m) come from; the shares of a tag add up to it."""
        columns = list(columns)
        relation = self._relation[:, columns] * self.tag_scale[columns]
        codes = self.codes(X)
        used = codes.value[0] > 0
        index, value = codes.index[0][used], codes.value[0][used, None]
        coded = np.float32(self.coded_share) * value * (self.semantics[index] @ relation)
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
        shares = np.zeros((len(self._landmarks), relation.shape[1]), np.float32)
        if self.smooth_share == 0:
            return shares
        likeness = ridge.likeness(x, self._landmarks, self.gamma)[0]
        near = np.argsort(-likeness, kind="stable")[:NEAREST]
        dual, close = self._dual @ relation, self._landmarks[near]
        tags = ridge.kernel(close, self._landmarks, self.gamma) @ dual
        tags += np.float32(self.strength) * dual[near]
        inner = ridge.kernel(close, close, self.gamma).astype(np.float64)
        inner[np.diag_indices_from(inner)] += self.strength
        weights = np.linalg.solve(inner, likeness[near].astype(np.float64) + 1)
        shares[near] = weights[:, None] * tags
        return shares

    @property
    def landmarks(self) -> Floats:
        """The vectors that the kernel compares with."""
        return self._landmarks

    def _lifted(self, projected: Floats) -> Floats:
        short = unit(projected[:, self._project.short])
        predicted = projected[:, self._project.predicted] * self._lift_weight
        lifted = unit(np.hstack([short, predicted]))
        return lifted if self._axes is None else unit(lifted @ self._axes)

    def _codes(self, projected: Floats) -> Codes:
        paths = self._coder.paths(self._lifted(projected), n_jobs=self.n_jobs)
        return Codes(
            np.concatenate([part.index for part in paths]),
            np.concatenate([part.value for part in paths]),
        )

    def _straight(self, projected: Floats) -> Floats:
        """The linear predictions, with their share."""
        if self.linear == 0:
            return np.zeros((len(projected), len(self.tag_scale)), np.float32)
        predicted = projected[:, self._project.predicted]
        return predicted * self._linear_scale + self._linear_offset

    def _coded(self, projected: Floats) -> Floats:
        return _combine(self._codes(projected), self.semantics)

    def _smooth(self, projected: Floats) -> Floats:
        def block(part: slice) -> Floats:
            x = unit(projected[part, self._project.kernel])
            return ridge.likeness(x, self._landmarks, self.gamma) @ self._dual

        found = threads.map_blocks(block, len(projected), size=BLOCK, n_jobs=self.n_jobs)
        return np.concatenate(found) + self._constant


def unit(rows: npt.NDArray[Any]) -> Floats:
    """Rows at unit length; a row of zeros stays."""
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.divide(rows, np.where(length > 0, length, 1))


def _combine(codes: Codes, semantics: Floats) -> Floats:
    """codes @ semantics, some rows at a time so that they stay in the processor's cache."""
    total = np.zeros((len(codes.index), semantics.shape[1]), np.float32)
    for rows in threads.blocks(len(total), GATHERED):
        places, values = codes.index[rows].T, codes.value[rows].T
        for index, value in zip(places, values, strict=True):
            total[rows] += value[:, None] * semantics[index]
    return total


def _names(vocabulary: Any, t: int) -> list[Any]:
    if not isinstance(vocabulary, list) or not 0 < len(set(vocabulary)) == len(vocabulary) == t:
        raise ModelFileError(f"The vocabulary does not name {t} different tags.")
    return vocabulary
