"""Evaluation of an annotator on labeled images, with likely label errors.

:func:`evaluate` computes an :class:`Evaluation` of plain numbers and names for pages, tables and
JSON. Metrics treat the labels as correct; the lists of label issues contain labels that are likely
missing or wrong.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from prototag.evaluation import metrics
from prototag.evaluation.ranking import Bools, check_tags, check_tags_and_scores, safe_ratio

Rates = npt.NDArray[np.float64]
CURVE_POINTS = 200  # points of the precision-recall curve
MAX_CONFUSIONS = 3  # tags named for each tag as what it is confused with
MAX_LABEL_ISSUES = 200  # of the person's tags, on each list
RELIABILITY_BINS = 10
_MIN_EXCESS = 1e-3  # images; float32 products leave less
_MIN_PROBABILITY = 1e-6  # probability; a step function may say 0, which no number of images proves


class Confusion(NamedTuple):
    """A tag of ``images`` images to which another tag was applied by mistake."""

    name: str
    images: int


@dataclass(frozen=True)
class TagFigures:
    """Metrics of one tag.

    Precision is 0 for a tag that was never applied; recall is 0 and average precision is NaN for a
    tag that never occurs. ``training_images`` is None if the training tags are unknown.
    """

    name: str
    support: int  # images with the label
    applied: int  # images to which it was applied
    correct: int  # images that have the label and to which it was applied
    precision: float
    recall: float
    f1: float
    average_precision: float
    threshold: float
    training_images: int | None
    confused: tuple[Confusion, ...]


class LabelIssue(NamedTuple):
    """A label that is likely missing or wrong."""

    image: int
    tag: int
    probability: float


class Reliability(NamedTuple):
    """Reliability diagram: expected and observed precision in equal bins (NaN if empty)."""

    expected: Rates
    observed: Rates
    pairs: Rates
    error: float  # expected calibration error: mean absolute difference over all pairs


@dataclass(frozen=True)
class Evaluation:
    """Result of :func:`evaluate`; images and tags are indexed as in its arguments."""

    images: tuple[str, ...]
    tags: tuple[TagFigures, ...]
    figures: dict[str, float]  # metrics.report, and micro_precision, micro_recall
    curve: metrics.Curve
    margins: metrics.Distributions  # scores minus thresholds, of present and absent tags
    reliability: Reliability | None
    missing: tuple[LabelIssue, ...]
    wrong: tuple[LabelIssue, ...]
    image_f1: Rates = field(repr=False)
    present: Bools = field(repr=False)  # n x t
    applied: Bools = field(repr=False)  # n x t
    probabilities: Rates | None = field(repr=False)  # n x t

    def to_json(self) -> dict[str, Any]:
        """Convert all but the n x t arrays to JSON values; NaN and infinity become null."""
        named = {"images": len(self.images), "tags": [_to_json(asdict(tag)) for tag in self.tags]}
        suspects = {
            name: [self._named(suspect) for suspect in getattr(self, name)]
            for name in ("missing", "wrong")
        }
        figures = {
            name: None if values is None else values._asdict()
            for name in ("curve", "margins", "reliability")
            for values in [getattr(self, name)]
        }
        by_image = {"image_f1": dict(zip(self.images, self.image_f1.tolist(), strict=True))}
        whole = {**named, "figures": self.figures, **suspects, **figures, **by_image}
        return {name: _to_json(value) for name, value in whole.items()}

    def _named(self, suspect: LabelIssue) -> dict[str, Any]:
        return {
            "image": self.images[suspect.image],
            "tag": self.tags[suspect.tag].name,
            "probability": suspect.probability,
        }


def evaluate(
    Y: Any,
    scores: npt.ArrayLike,
    threshold: npt.ArrayLike,
    *,
    tags: Sequence[Any],
    probabilities: npt.ArrayLike | None = None,
    images: Sequence[str] | None = None,
    Y_train: Any = None,
    suspects: int = MAX_LABEL_ISSUES,
) -> Evaluation:
    """Compare the tags of an annotator with labels.

    Parameters
    ----------
    Y : array or sparse matrix of shape (n, t), 0/1
        Labels.
    scores : array of shape (n, t)
    threshold : float, or array of shape (t,)
        A tag is applied if its score exceeds it.
    tags : sequence of t names
    probabilities : array of shape (n, t), optional
        Calibrated probabilities, required for the reliability diagram and label issues.
    images : sequence of n names, optional
        By default their indices.
    Y_train : array or sparse matrix of shape (n_train, t), optional
        Adds training counts of tags, and metrics of rare and frequent tags.
    suspects : int
        Maximum length of each list of label issues.
    """
    present, scores = check_tags_and_scores(Y, scores)
    n, t = present.shape
    limits = np.broadcast_to(np.asarray(threshold, np.float64), (t,))
    _check_names(tags, t, "tags")
    names = [str(tag) for tag in tags]
    pictures = tuple(str(number) for number in range(n)) if images is None else tuple(images)
    _check_names(pictures, n, "images")
    applied = scores > limits
    chances = None if probabilities is None else _check_probabilities(probabilities, (n, t))
    learned = None if Y_train is None else check_tags(Y_train, name="Y_train").sum(axis=0)
    figures = metrics.report(present, scores, limits, Y_train=Y_train)
    correct = int(np.count_nonzero(present & applied))
    figures["micro_precision"] = float(safe_ratio(correct, np.count_nonzero(applied)))
    figures["micro_recall"] = float(safe_ratio(correct, np.count_nonzero(present)))
    return Evaluation(
        images=pictures,
        tags=_tag_figures(names, present, applied, scores, limits, learned),
        figures=figures,
        curve=metrics.precision_recall_curve(present, scores, points=CURVE_POINTS),
        margins=_margins(present, scores, limits),
        reliability=None if chances is None else _reliability(present, chances),
        missing=() if chances is None else likely_missing(present, applied, chances, suspects),
        wrong=() if chances is None else likely_wrong(present, applied, chances, suspects),
        image_f1=metrics.image_precision_recall_f1(present, applied)[2],
        present=present,
        applied=applied,
        probabilities=chances,
    )


def likely_missing(
    present: Bools, applied: Bools, probabilities: Rates, count: int
) -> tuple[LabelIssue, ...]:
    """List likely missing labels: applied tags without a label, by decreasing probability."""
    image, tag = np.nonzero(applied & ~present)
    return _label_issues(image, tag, -probabilities[image, tag], probabilities, count)


def likely_wrong(
    present: Bools, applied: Bools, probabilities: Rates, count: int
) -> tuple[LabelIssue, ...]:
    """List likely wrong labels, by decreasing likelihood ratio against the label.

    A rare tag is improbable for every image, even with the label. The evidence against a label is a
    probability p *below* the frequency f of the tag: with odds ``o(p) = p / (1 - p)`` the
    likelihood ratio is ``o(f) / o(p)``. Only labels with a ratio above 1 are listed.
    """
    image, tag = np.nonzero(present & ~applied)
    frequency = present.mean(axis=0)[tag]
    evidence = _log_odds(frequency) - _log_odds(probabilities[image, tag])
    doubted = evidence > 0
    image = image[doubted]
    tag = tag[doubted]
    return _label_issues(image, tag, -evidence[doubted], probabilities, count)


def _label_issues(
    image: npt.NDArray[np.intp],
    tag: npt.NDArray[np.intp],
    order: Rates,
    probabilities: Rates,
    count: int,
) -> tuple[LabelIssue, ...]:
    first = np.argsort(order, kind="stable")[:count]
    pairs = zip(image[first].tolist(), tag[first].tolist(), strict=True)
    return tuple(LabelIssue(i, j, float(probabilities[i, j])) for i, j in pairs)


def _log_odds(p: Rates) -> Rates:
    inside = np.clip(p, _MIN_PROBABILITY, 1 - _MIN_PROBABILITY)
    return np.asarray(np.log(inside / (1 - inside)))


def _tag_figures(
    names: Sequence[str],
    present: Bools,
    applied: Bools,
    scores: npt.NDArray[Any],
    limits: Rates,
    learned: npt.NDArray[Any] | None,
) -> tuple[TagFigures, ...]:
    precision, recall = metrics.tag_precision_recall(present, applied)
    f1 = metrics.harmonic_mean(precision, recall)
    average = metrics.average_precision(present, scores)
    support = present.sum(axis=0)
    n_applied = applied.sum(axis=0)
    correct = (present & applied).sum(axis=0)
    return tuple(
        TagFigures(
            name,
            int(support[j]),
            int(n_applied[j]),
            int(correct[j]),
            float(precision[j]),
            float(recall[j]),
            float(f1[j]),
            float(average[j]),
            float(limits[j]),
            None if learned is None else int(learned[j]),
            confused,
        )
        for j, (name, confused) in enumerate(
            zip(names, _confusions(names, present, applied), strict=True)
        )
    )


def _confusions(
    names: Sequence[str], present: Bools, applied: Bools
) -> Iterator[tuple[Confusion, ...]]:
    """Yield for each tag the tags that are overrepresented among its false positives.

    The excess is relative to the frequency of a tag among all images without the mistaken tag, so
    that frequent tags are not listed for their frequency.
    """
    Y = present.astype(np.float32)  # products of counts are exact below 2^24 images
    counts = (applied & ~present).astype(np.float32).T @ Y
    mistakes = np.count_nonzero(applied & ~present, axis=0)[:, None]
    support = Y.sum(axis=0)
    elsewhere = safe_ratio(support - Y.T @ Y, len(Y) - support[:, None])
    excess = counts - mistakes * elsewhere
    for j, order in enumerate(
        np.argsort(-excess, axis=1, kind="stable")[:, :MAX_CONFUSIONS].tolist()
    ):
        yield tuple(
            Confusion(names[i], int(counts[j, i])) for i in order if excess[j, i] > _MIN_EXCESS
        )


def _margins(present: Bools, scores: npt.NDArray[Any], limits: Rates) -> metrics.Distributions:
    """Compute distributions of score minus threshold, which is comparable across tags."""
    usable = np.isfinite(limits)
    if not usable.any():
        return metrics.score_distributions(present, scores)
    return metrics.score_distributions(present[:, usable], (scores - limits)[:, usable])


def _reliability(present: Bools, probabilities: Rates) -> Reliability:
    expected, observed, pairs = metrics.reliability(present, probabilities, RELIABILITY_BINS)
    error = float(np.nansum(pairs * np.abs(expected - observed)) / pairs.sum())
    return Reliability(expected, observed, pairs, error)


def _check_probabilities(probabilities: npt.ArrayLike, shape: tuple[int, int]) -> Rates:
    chances = np.asarray(probabilities, np.float64)
    if chances.shape != shape:
        raise ValueError(f"probabilities have shape {chances.shape}, the tags {shape}: give both.")
    if not ((chances >= 0) & (chances <= 1)).all():
        raise ValueError("probabilities hold numbers outside [0, 1]: scores go into `scores`.")
    return chances


def _check_names(names: Sequence[Any], count: int, kind: str) -> None:
    if len(names) != count:
        raise ValueError(f"{len(names)} names of {kind} for {count} {kind}: give one for each.")


def _to_json(value: Any) -> Any:
    """Convert to JSON values; NaN and infinity become None."""
    if isinstance(value, np.ndarray | np.generic):
        return _to_json(value.tolist())
    if isinstance(value, dict):
        return {key: _to_json(item) for key, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return _to_json(value._asdict())
    if isinstance(value, list | tuple):
        return [_to_json(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
