"""What left-out pictures say: which tags were learned, and which cut keeps which precision.

A tag is learned if it ranks left-out pictures better than chance, with a bound. Only learned tags
are given. All of them share one cut of the probability: it is chosen by the precision of everything
given, with a bound, over all tags together, as a single tag has too few pictures to promise for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from prototag.annotator.types import Learned
from prototag.arrays import Array, Bools, Doubles, Rows
from prototag.errors import InputError, ModelFileError
from prototag.storage import modelfile

if TYPE_CHECKING:
    from prototag.tagging.fit_result import FitResult

Counts = npt.NDArray[np.int64]
SURE = 2.33  # deviations above chance: one tag of noise in a hundred passes
CAUTION = 1.28  # deviations below the precision seen that are promised: nine times in ten it holds
FEW = 200  # pictures; of so few, or fewer, the deviations themselves are guesses, and count more
CUTS = 200  # probabilities that are looked at
USUAL = 0.7  # precision that is kept unless another is asked for
LIKELY = (
    0.5  # probability that a tag needs then, too: what is given is more likely right than wrong
)
SUGGESTED = 0.25  # probability from which on a tag is suggested
SUGGESTIONS = 5  # at most, for one picture


class TagChoice(NamedTuple):
    """Which tags to give."""

    allowed: Bools  # t
    scores: Doubles | None  # t, to exceed: the research protocol
    probability: float | None  # to reach
    top: int | None

    def columns(self, scores: Array, probability: Array) -> Rows:
        """Numbers of the tags that one picture is given."""
        given = self.allowed.copy()
        if self.scores is not None:
            given &= scores > self.scores
        if self.probability is not None:
            given &= probability >= self.probability
        found = np.flatnonzero(given)
        if self.top is not None:
            order = probability if self.scores is None else scores
            found = found[np.argsort(-order[found], kind="stable")[: self.top]]
        return found

    def suggested(self, probability: Array, given: Rows) -> Rows:
        """Numbers of tags that are likely, too, the likeliest first; only where a cut decides."""
        if self.scores is not None or self.probability is None:
            return np.empty(0, np.intp)
        likely = self.allowed & (probability >= SUGGESTED)
        likely[given] = False
        found = np.flatnonzero(likely)
        return found[np.argsort(-probability[found], kind="stable")[:SUGGESTIONS]]


class OperatingPoints(NamedTuple):
    """Of t tags, from probabilities of training pictures that were left out."""

    count: Counts  # type: ignore[assignment]  # t, pictures that have the tag
    ranking: Doubles  # t, chance that a picture with the tag scores above one without (AUC)
    learned: Bools  # t
    precision: Doubles  # t, of what is given at the usual cut; NaN where nothing is
    recall: Doubles  # t
    cut: Doubles  # falling probabilities
    reached: Doubles  # precision of all that is given from the cut on
    bound: Doubles  # what is promised of it

    @classmethod
    def of_fit(cls, result: FitResult) -> Self:
        """From the held-out evidence of a fit."""
        held_out = result.held_out
        return cls.collect(
            held_out.labels,
            held_out.corrected,
            held_out.probabilities,
            (result.n_examples, result.positives, result.auc),
        )

    @classmethod
    def collect(
        cls,
        Y: Any,
        scores: Array,
        probabilities: Doubles,
        whole: tuple[int, Counts, Doubles] | None = None,
    ) -> Self:
        """From tags (n x t, 0/1), and scores and probabilities while pictures were left out.

        Where these are a sample, ``whole`` tells of all pictures how many they are, how many have
        each tag, and how well each tag ranks them.
        """
        from prototag.evaluation.ranking import check_tags_and_scores, safe_ratio, tag_auc

        true, scores = check_tags_and_scores(Y, scores)
        seen = np.count_nonzero(true, axis=0)
        n, count, ranking = whole or (len(true), seen, tag_auc(true, scores))
        learned = above_chance(n, count, ranking) > SURE
        cut, reached, bound = _curve(true[:, learned], probabilities[:, learned])
        points = cls(
            count=count,
            ranking=ranking,
            learned=learned,
            precision=np.full(len(count), np.nan),
            recall=np.zeros(len(count)),
            cut=cut,
            reached=reached,
            bound=bound,
        )
        given = (probabilities >= points.usual) & learned
        hits = np.count_nonzero(given & true, axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            precision = hits / np.count_nonzero(given, axis=0)
        return points._replace(precision=precision, recall=safe_ratio(hits, seen))

    def threshold(self, precision: float) -> float:
        """The lowest probability that promises a precision of all that is given; else infinity."""
        if not 0 < precision <= 1:
            raise InputError(f"precision={precision}: give a number above 0 and at most 1.")
        good = np.flatnonzero(self.bound >= precision)
        return float(self.cut[good[-1]]) if len(good) else np.inf

    @property
    def usual(self) -> float:
        """The probability from which on tags are given unless something else is asked for."""
        return max(self.threshold(USUAL), LIKELY)

    def promised(self, cut: float) -> float:
        """The precision that left-out pictures showed from a probability on; 0 if none is given."""
        above = np.flatnonzero(self.cut >= cut)
        return float(self.reached[above[-1]]) if len(above) and np.isfinite(cut) else 0.0

    def to_arrays(self) -> dict[str, Array]:
        """Under the names of the fields."""
        arrays = self._asdict()
        return {**arrays, "precision": np.nan_to_num(self.precision, nan=-1.0)}

    @classmethod
    def of(cls, arrays: Mapping[str, Array], t: int) -> Self:
        """From arrays of a model file, checked."""
        cut = modelfile.expect_array(arrays, "cut", (None,), "f8")
        precision = modelfile.expect_array(arrays, "precision", (t,), "f8")
        found = cls(
            modelfile.expect_array(arrays, "count", (t,), "i8"),
            modelfile.expect_array(arrays, "ranking", (t,), "f8"),
            modelfile.expect_array(arrays, "learned", (t,), "?"),
            np.where(precision < 0, np.nan, precision),
            modelfile.expect_array(arrays, "recall", (t,), "f8"),
            cut,
            modelfile.expect_array(arrays, "reached", cut.shape, "f8"),
            modelfile.expect_array(arrays, "bound", cut.shape, "f8"),
        )
        shares = [found.ranking, found.recall, found.cut, found.reached, found.bound]
        shares.append(np.nan_to_num(found.precision))
        if any(((part < 0) | (part > 1)).any() for part in shares) or (np.diff(cut) > 0).any():
            raise ModelFileError("the operating points of the model make no sense: it is damaged.")
        return found


def rankings(true: Bools, scores: Array) -> tuple[Doubles, Doubles]:
    """How well each tag ranks pictures (AUC), and how many deviations that is above chance."""
    from prototag.evaluation.ranking import tag_auc

    ranking = tag_auc(true, scores)
    return ranking, above_chance(len(true), np.count_nonzero(true, axis=0), ranking)


def above_chance(n: int, present: Counts, ranking: Doubles) -> Doubles:
    """By how many deviations tags rank n pictures better (AUC) than chance would."""
    pairs = present * (n - present)
    deviation = np.sqrt((n + 1) / (12 * np.maximum(pairs, 1)))
    return np.where(pairs > 0, (ranking - 0.5) / deviation, 0.0)


def _curve(true: Bools, probabilities: Doubles) -> tuple[Doubles, Doubles, Doubles]:
    """Cuts of the probability, the precision from each on, its lower bound, and what is given.

    Pictures are counted, not pairs: what is wrong with one picture is often wrong with several of
    its tags. The bound is Wilson's for as many pairs as would vary as much.
    """
    if not true.size:
        return np.ones(0), np.ones(0), np.zeros(0)
    order = np.sort(probabilities, axis=None)[::-1]
    places = np.unique(np.geomspace(1, len(order), CUTS).astype(np.intp)) - 1
    cuts = []
    reached = []
    bounds = []
    caution = CAUTION * np.sqrt(1 + FEW / len(true))
    for cut in np.unique(order[places])[::-1]:
        given = probabilities >= cut
        by_image = np.count_nonzero(given, axis=1)
        right = np.count_nonzero(given & true, axis=1)
        pairs = by_image.sum()
        hits = right.sum()
        share = hits / pairs
        spread = np.square(right - share * by_image).sum()
        independent = pairs * share * (1 - share)
        size = pairs / max(spread / independent, 1.0) if independent > 0 else float(pairs)
        cuts.append(cut)
        reached.append(share)
        bounds.append(_wilson(share, size, caution))
    return np.array(cuts), np.array(reached), np.array(bounds)


def _wilson(share: float, size: float, deviations: float) -> float:
    """The lower end of Wilson's interval."""
    square = deviations**2
    middle = share + square / (2 * size)
    width = deviations * np.sqrt(share * (1 - share) / size + square / (4 * size**2))
    return float(max((middle - width) / (1 + square / size), 0.0))


def vocabulary(given: Any, t: int) -> list[str]:
    """The vocabulary of a file, checked."""
    text = isinstance(given, list) and all(isinstance(n, str) and n.strip() for n in given)
    if not text or not 0 < len(set(given)) == len(given) == t:
        raise ModelFileError(f"The vocabulary does not name {t} different tags.")
    return list(given)


def counts(values: dict[str, Any]) -> Learned:
    """The counts of a file, checked."""
    rare = values["too_rare"]
    fields = ("pictures", "tags", "untagged", "unreadable")
    found = {name: values[name] for name in fields}
    whole = all(type(count) is int and count >= 0 for count in [*found.values(), *rare.values()])
    if not (whole and all(isinstance(tag, str) for tag in rare)):
        raise ModelFileError("The counts of what was learned make no sense: it is damaged.")
    return Learned(too_rare=dict(rare), **found)
