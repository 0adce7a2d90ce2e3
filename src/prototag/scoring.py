"""The scores of a fitted Tagger as arithmetic on its stored arrays, without scikit-learn or SciPy.

Both take longer to load than a picture takes to annotate. What is here is what
:meth:`prototag.Tagger.decision_function` computes, and the tests hold the two together.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from prototag import calibration, modelfile, parallel, regression
from prototag.codes import Coder
from prototag.errors import ModelFileError

Floats = npt.NDArray[np.float32]
Arrays = Mapping[str, npt.NDArray[Any]]
BLOCK = 256  # images scored at once


class Codes(NamedTuple):
    """Sparse codes by place: ``value[i, j]`` of prototype ``index[i, j]``; 0 where unused."""

    index: npt.NDArray[np.int32]  # type: ignore[assignment]
    value: Floats


class Short(NamedTuple):
    """z-score, principal axes, unit length: :class:`prototag.Reduction` on arrays."""

    mean: Floats
    scale: Floats
    centre: Floats
    axes: Floats

    @classmethod
    def of(cls, arrays: Arrays, name: str, m: int, width: int | None) -> Short:
        def part(key: str, *shape: int | None) -> Floats:
            return modelfile.expect(arrays, f"{name}/{key}", shape, "f8").astype(np.float32)

        return cls(
            part("zscore/mean_", m),
            part("zscore/scale_", m),
            part("axes/mean_", m),
            part("axes/components_", width, m),
        )

    def standard(self, X: Floats) -> Floats:
        return (X - self.mean) / self.scale

    def shorten(self, standard: Floats) -> Floats:
        return unit((standard - self.centre) @ self.axes.T)


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
        self.names: list[str] = _names(config["vocabulary"], t)
        self.share, self.gamma = (float(config["choices"][name]) for name in ("share", "gamma"))
        per_tag = bool(config["per_tag"])
        threshold = modelfile.expect(arrays, "threshold", (t if per_tag else 1,), "f8")
        self.threshold = np.broadcast_to(threshold, t)
        self.tag_scale = modelfile.expect(arrays, "tag_scale", (t,), "f4")
        self._relation = modelfile.expect(arrays, "relations/coef", (t, t), "f4")
        self._offset = modelfile.expect(arrays, "relations/offset", (t,), "f4")
        self._knots = modelfile.expect(arrays, "calibration/knots", (None,), "f8")
        size = (len(self._knots),)
        self._rates = modelfile.expect(arrays, "calibration/probabilities", size, "f8")

        self._short = Short.of(arrays, "reduction", m, width)
        self._landmarks = modelfile.expect(arrays, "kernel/landmarks", (count, width), "f4")
        self._dual = modelfile.expect(arrays, "kernel/dual", (count, t), "f4")
        # What the kernel's constant gives is as large as all the rest: summed apart, in float64.
        self._constant = self._dual.sum(axis=0, dtype=np.float64).astype(np.float32)

        self._lift = Short.of(arrays, "lifting/reduction", m, None)
        self._lift_weight = np.float32(config["lifting"]["parameters"]["weight"])
        # Of float64 or float32, as the regression left them.
        coef, intercept = arrays["lifting/coef_"], arrays["lifting/intercept_"]
        self._coef = modelfile.expect(arrays, "lifting/coef_", (m, t), coef.dtype.str).astype("f4")
        self._intercept = modelfile.expect(
            arrays, "lifting/intercept_", (t,), intercept.dtype.str
        ).astype("f4")
        lifted, recipe = len(self._lift.axes) + t, config["mcdl"]["recipe"]
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

    def scores(self, X: Floats) -> Floats:
        """Scores of all tags, n x t: what thresholds are compared with."""
        return self.plain(X) * self.tag_scale

    def plain(self, X: Floats) -> Floats:
        """Scores without the factors of the tags: what probabilities are made of."""
        # A part that has no share costs no time.
        return self._mix(X, self.codes(X) if self.share < 1 else None)

    def plain_and_codes(self, X: Floats) -> tuple[Floats, Codes]:
        """Both, from coding once."""
        codes = self.codes(X)
        return self._mix(X, codes if self.share < 1 else None), codes

    def _mix(self, X: Floats, coded: Codes | None) -> Floats:
        parts = []
        if coded is not None:
            weight = np.float32(1 - self.share) if self.share > 0 else np.float32(1)
            parts.append(weight * _combine(coded, self.semantics))
        if self.share > 0:
            weight = np.float32(self.share) if self.share < 1 else np.float32(1)
            parts.append(weight * self._smooth(X))
        return np.asarray(sum(parts) @ self._relation + self._offset, np.float32)

    def probabilities(self, plain: Floats) -> npt.NDArray[np.float64]:
        """How likely each tag is right, given :meth:`plain` scores."""
        return calibration.apply(plain, self._knots, self._rates)

    def codes(self, X: Floats) -> Codes:
        """Codes over the prototypes."""
        paths = self._coder.paths(self.lifted(X), n_jobs=self.n_jobs)
        return Codes(
            np.concatenate([part.index for part in paths]),
            np.concatenate([part.value for part in paths]),
        )

    def lifted(self, X: Floats) -> Floats:
        """The vectors that codes are made of."""
        standard = self._lift.standard(X)
        predicted = standard @ self._coef + self._intercept
        joined = np.hstack([self._lift.shorten(standard), predicted * self._lift_weight])
        lifted = unit(joined)
        return lifted if self._axes is None else unit(lifted @ self._axes)

    def short(self, X: Floats) -> Floats:
        """The vectors of the kernel: what the network says, shortened, whatever the tags."""
        return self._short.shorten(self._short.standard(X))

    def _smooth(self, X: Floats) -> Floats:
        def block(part: slice) -> Floats:
            x = self.short(X[part])
            return regression.likeness(x, self._landmarks, self.gamma) @ self._dual

        found = parallel.map_blocks(block, len(X), size=BLOCK, n_jobs=self.n_jobs)
        return np.concatenate(found) + self._constant


def unit(rows: npt.NDArray[Any]) -> Floats:
    """Rows at unit length; a row of zeros stays."""
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.divide(rows, length, out=rows, where=length > 0)


def _combine(codes: Codes, semantics: Floats) -> Floats:
    """codes @ semantics, summed in the order of the prototypes as a sparse product does."""
    total = np.zeros((len(codes.index), semantics.shape[1]), np.float32)
    for index, value in zip(codes.index.T, codes.value.T, strict=True):
        total += value[:, None] * semantics[index]
    return total


def _names(vocabulary: Any, t: int) -> list[str]:
    fine = isinstance(vocabulary, list) and all(isinstance(name, str) for name in vocabulary)
    if not fine or not 0 < len(set(vocabulary)) == len(vocabulary) == t:
        raise ModelFileError(f"The vocabulary does not name {t} different tags.")
    return vocabulary
