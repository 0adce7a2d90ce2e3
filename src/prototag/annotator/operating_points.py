"""What left-out pictures say of each tag: how well it is given, and which cut reaches a precision.

Of the cuts of a tag only those are kept that a lower cut does not equal in precision: some ten
numbers instead of one for each picture, and the answer for every precision is still exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from prototag.arrays import Array, Bools, Doubles
from prototag.errors import InputError, ModelFileError
from prototag.storage import modelfile

Counts = npt.NDArray[np.int64]
WEAK = 0.1  # an F1 below this is no better than what luck gives a rare tag


class OperatingPoints(NamedTuple):
    """Of t tags, from scores of training pictures that were left out."""

    count: Counts  # type: ignore[assignment]  # t, pictures that have the tag
    precision: Doubles  # t, at the tag's own threshold
    recall: Doubles
    limits: Counts  # t + 1, where the cuts of each tag begin
    cut: Doubles  # scores to exceed, rising within a tag
    reached: Doubles  # the precision above each cut, rising within a tag

    @classmethod
    def collect(cls, Y: Any, scores: Array, threshold: Array | float) -> Self:
        """From tags (n x t, 0/1), out-of-fold scores, and the thresholds that were chosen."""
        from prototag.evaluation.cuts import as_pair, columns, ratio, tag_cuts
        from prototag.evaluation.thresholds import between

        true, scores = as_pair(Y, scores)
        given = scores > threshold
        hits = np.count_nonzero(given & true, axis=0)
        count = np.count_nonzero(true, axis=0)
        cuts, reached, limits = [], [], [0]
        for present, column in columns(true, scores):
            found = tag_cuts(present, column)
            precision = ratio(found.hits, found.given)[::-1]
            better = np.flatnonzero(
                precision > np.append(0.0, np.maximum.accumulate(precision))[:-1]
            )
            pairs = zip(found.lower[::-1][better], found.scores[::-1][better], strict=True)
            cuts += [float(between(low, high)) for low, high in pairs]
            reached += precision[better].tolist()
            limits.append(len(cuts))
        return cls(
            count,
            ratio(hits, np.count_nonzero(given, axis=0)),
            ratio(hits, count),
            np.array(limits),
            np.array(cuts),
            np.array(reached),
        )

    @property
    def f1(self) -> Doubles:
        total = self.precision + self.recall
        return np.divide(
            2 * self.precision * self.recall, total, out=np.zeros(len(total)), where=total > 0
        )

    @property
    def weak(self) -> Bools:
        """Tags that were not learned, as far as left-out pictures can tell."""
        return self.f1 < WEAK

    def thresholds(self, precision: float) -> Doubles:
        """For each tag the lowest cut that reached the precision; infinity where none did."""
        if not 0 < precision <= 1:
            raise InputError(f"precision={precision}: give a number above 0 and at most 1.")
        answer = np.full(len(self.count), np.inf)
        for tag in range(len(answer)):
            part = slice(self.limits[tag], self.limits[tag + 1])
            first = int(np.searchsorted(self.reached[part], precision))
            if first < part.stop - part.start:
                answer[tag] = self.cut[part][first]
        return answer

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        return self._asdict()

    @classmethod
    def of(cls, arrays: Mapping[str, npt.NDArray[Any]], t: int) -> Self:
        """From arrays of a model file, checked."""
        limits = modelfile.expect(arrays, "limits", (t + 1,), "i8")
        cut = modelfile.expect(arrays, "cut", (None,), "f8")
        if limits[0] != 0 or limits[-1] != len(cut) or (np.diff(limits) < 0).any():
            raise ModelFileError("the cuts of the thresholds do not fit the tags.")
        return cls(
            modelfile.expect(arrays, "count", (t,), "i8"),
            modelfile.expect(arrays, "precision", (t,), "f8"),
            modelfile.expect(arrays, "recall", (t,), "f8"),
            limits,
            cut,
            modelfile.expect(arrays, "reached", cut.shape, "f8"),
        )
