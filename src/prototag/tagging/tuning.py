"""Hyperparameter search by cross-validation, within a time limit."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.utils import check_random_state

from prototag.estimator import TagEstimator
from prototag.evaluation import metrics, splits
from prototag.events import Event, Progress
from prototag.mcdl.estimator import MCDL
from prototag.mcdl.exemplar_mcdl import ExemplarMCDL
from prototag.tagging.tagger import Tagger, recommended

Grid = Mapping[str, Sequence[Any]]

# The grids of the paper; margin is its C, and tau follows it.
PAPER: Grid = {
    "eta": (0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0),
    "beta1": (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.75, 1.0),
    "margin": (0.25, 0.5),
}
EXEMPLARS: Grid = {
    "max_nonzeros": (10, 15, 25, 40),
    "margin": (0.25, 0.5),
    "beta1": (0.05, 0.15, 0.5),
    "n_sweeps": (1, 2),
}
# Parameters that Tagger does not choose inside fit, those with the largest effect first.
RECOMMENDED: Grid = {
    "n_components": (150, 300, 600),
    "max_nonzeros": (15, 25, 40),
}
VALIDATION_ITERATIONS = 2  # of Algorithm 1 while validating, as in the paper


@dataclass
class _Search:
    """Cross-validation scores of parameter settings, each computed once."""

    X: npt.NDArray[Any]
    Y: Any
    fold: npt.NDArray[np.intp]
    start: TagEstimator
    scoring: Callable[[Any, Any, Any], float]
    deadline: float
    report: Callable[[dict[str, Any], float | None], None]
    final_fit_ratio: float  # duration of the fit to all images, in fits of the search
    fold_scores: dict[tuple[Any, ...], list[float]] = field(default_factory=dict)
    curve: list[dict[str, Any]] = field(default_factory=list)
    longest_seconds: float = 0.0  # of a fit of the search
    initializations: dict[int, dict[Any, Any]] = field(default_factory=dict)

    def score(self, params: dict[str, Any], number: int) -> float | None:
        """Return the score on one fold; None if the time limit would be exceeded."""
        scores = self.fold_scores.setdefault(tuple(sorted(params.items())), [])
        if number < len(scores):
            return scores[number]
        began = time.monotonic()
        if self.curve and began + self.longest_seconds * (1 + self.final_fit_ratio) > self.deadline:
            return None
        held_out = np.flatnonzero(self.fold == number)
        training = np.flatnonzero(self.fold != number)
        model = clone(self.start).set_params(**params)
        self._fit(model, training, number)
        scores.append(self.scoring(model, self.X[held_out], self.Y[held_out]))
        spent = time.monotonic() - began
        self.longest_seconds = max(self.longest_seconds, spent)
        self.curve.append(
            {**params, "fold": number, "quality": round(scores[-1], 5), "seconds": round(spent, 2)}
        )
        self.report(params, float(np.mean(scores)))
        return scores[-1]

    def _fit(self, model: Any, rows: npt.NDArray[np.intp], number: int) -> None:
        X = self.X[rows]
        Y = self.Y[rows]
        if isinstance(model, MCDL):
            # Initial prototypes depend on few parameters of the grid: each fold reuses them.
            model.fit_from(X, Y, self.initializations.setdefault(number, {}))
        else:
            model.fit(X, Y)

    def is_better(self, params: dict[str, Any], best: dict[str, Any]) -> bool | None:
        """Return whether ``params`` beat ``best`` by more than the standard error of the gain.

        None means that the time is over. A candidate is rejected at the first fold at which its
        mean gain is not positive.
        """
        gains: list[float] = []
        for number in range(self.fold.max() + 1):
            old = self.score(best, number)
            new = self.score(params, number)
            if old is None or new is None:
                return None
            gains.append(new - old)
            if sum(gains) <= 0:
                return False
        error = float(np.std(gains, ddof=1)) / math.sqrt(len(gains)) if len(gains) > 1 else 0.0
        return float(np.mean(gains)) > error


def tune(
    X: Any,
    Y: Any,
    estimator: TagEstimator | None = None,
    *,
    grid: Grid | None = None,
    search: str = "coordinate",
    scoring: str | Callable[[Any, Any, Any], float] = "balanced",
    seconds: float = 600.0,
    n_folds: int = 3,
    max_images: int = 6_000,
    progress: Progress | None = None,
    random_state: Any = 0,
) -> Any:
    """Choose an annotator's parameters by cross-validation, then fit it to all images.

    Parameters
    ----------
    X, Y : vectors (n x m) and tags (n x t, 0/1)
    estimator : annotator, optional
        The start of the search; :func:`prototag.recommended` by default.
    grid : mapping of parameter to values, optional
        By default the paper's grids for any ``MCDL`` (two iterations while validating), and for
        other annotators the parameters that their fit does not choose.
    search : {"coordinate", "grid"}
        Coordinate search changes one parameter of the best setting at a time, until a round changes
        nothing; grid search tries every combination.
    scoring : {"balanced", "f1", "map"} or callable(model, X, Y)
        "balanced" is the mean of F1 (at the model's own thresholds) and mean average precision.
    seconds : float
        Time limit, including the final fit to all images as far as its duration can be estimated.
        The start is always scored on one fold.
    n_folds : int
        Multi-label stratified folds. A value is taken if it is better by more than the standard
        error over the folds.
    max_images : int
        The search uses a stratified sample if there are more images.
    progress : callable, optional
        Receives an :class:`prototag.events.Event` after each fit: seconds spent, the time limit,
        and the parameters with their score.
    random_state : int, RandomState or None

    Returns
    -------
    annotator
        Fitted to all images. Its ``tuning_`` has the chosen parameters and the score of every fit;
        it is saved in the model file.

    Examples
    --------
    >>> from prototag import ExemplarMCDL, tune
    >>> from prototag.research.datasets import planted
    >>> data = planted(n=200, t=8, k=20, random_state=0)
    >>> start = ExemplarMCDL(random_state=0)
    >>> grid = {"max_nonzeros": (5, 25)}
    >>> model = tune(data.X, data.Y, start, grid=grid, random_state=0)
    >>> sorted(model.tuning_["chosen"])
    ['max_nonzeros']
    """
    began = time.monotonic()
    start = recommended() if estimator is None else estimator
    if not isinstance(start, TagEstimator):
        raise TypeError(
            f"estimator is a {type(start).__name__}: give an annotator of prototag, "
            "such as recommended() or MCDL.paper()."
        )
    grid = {
        name: [value.item() if isinstance(value, np.generic) else value for value in values]
        for name, values in (default_grid(start) if grid is None else grid).items()
    }
    _check(start, grid, search, seconds, n_folds)
    if isinstance(scoring, str) and scoring not in SCORINGS:
        raise ValueError(f"scoring={scoring!r}: give one of {sorted(SCORINGS)} or a callable.")
    # Invalid data fails here, before the search, with the message of fit.
    vectors, tags = clone(start).validate_training_data(X, Y)
    n = len(vectors)
    if n < 2 * n_folds:
        raise ValueError(
            f"{n} images in {n_folds} folds: give at least {2 * n_folds} images, or fit "
            "without tuning."
        )
    seed = int(check_random_state(random_state).randint(2**31 - 1))
    rows = _sample(tags, max_images, seed)
    best: dict[str, Any] = {name: start.get_params()[name] for name in grid}
    at_start = dict(best)

    def report(params: dict[str, Any], mean: float | None) -> None:
        changed = [f"{name} {value}" for name, value in params.items() if value != at_start[name]]
        message = ", ".join(changed) or "the start"
        if mean is not None:
            message = f"{100 * mean:.1f}% for {message}"
        if progress is not None:
            spent = time.monotonic() - began
            progress(Event("Tuning", round(spent), round(seconds), None, message))

    folds = _Search(
        np.asarray(X)[rows],
        tags[rows],
        splits.stratified_folds(tags[rows], n_folds, random_state=seed),
        _while_validating(start, n),
        SCORINGS[scoring] if isinstance(scoring, str) else scoring,
        began + seconds,
        report,
        # The duration of a fit grows with the square of the images, or slightly less.
        final_fit_ratio=(n / (len(rows) * (1 - 1 / n_folds))) ** 2,
    )
    finished = (_coordinates if search == "coordinate" else _combinations)(folds, grid, best)
    model = clone(start).set_params(**best).fit(X, Y)
    model.tuning_ = {
        "chosen": best,
        "start": at_start,
        "grid": grid,
        "scoring": scoring
        if isinstance(scoring, str)
        else getattr(scoring, "__name__", "callable"),
        "search": search,
        "finished": finished,
        "images": len(rows),
        "n_folds": n_folds,
        "time_limit": seconds,
        "seconds": round(time.monotonic() - began, 1),
        "seed": seed,
        "curve": folds.curve,
    }
    report(best, None)
    return model


def default_grid(start: TagEstimator) -> Grid:
    """Return the grid of :func:`tune` for an annotator, if the caller gives none."""
    for kind, grid in ((MCDL, PAPER), (ExemplarMCDL, EXEMPLARS), (Tagger, RECOMMENDED)):
        if isinstance(start, kind):
            return grid
    raise ValueError(
        f"there is no default grid for a {type(start).__name__}: give grid={{parameter: values}}."
    )


def _coordinates(folds: _Search, grid: Grid, best: dict[str, Any]) -> bool:
    """Improve ``best`` by coordinate search; return whether it converged within the time limit."""
    folds.score(best, 0)
    changed = True
    while changed:
        changed = False
        for name, values in grid.items():
            for value in _nearest_first(values, best[name]):
                is_better = folds.is_better({**best, name: value}, best)
                if is_better is None:
                    return False
                if is_better:
                    best[name] = value
                    changed = True
        changed = changed and len(grid) > 1
    return True


def _combinations(folds: _Search, grid: Grid, best: dict[str, Any]) -> bool:
    """Improve ``best`` by grid search; return whether all combinations were tried in time."""
    folds.score(best, 0)
    for values in itertools.product(*grid.values()):
        params = dict(zip(grid, values, strict=True))
        is_better = params != best and folds.is_better(params, best)
        if is_better is None:
            return False
        if is_better:
            best.update(params)
    return True


def _nearest_first(values: Sequence[Any], value: Any) -> list[Any]:
    """Return the other values of a grid by their distance to one value in the grid's order."""
    position = values.index(value) if value in values else 0
    order = sorted(range(len(values)), key=lambda i: abs(i - position))
    return [values[i] for i in order if values[i] != value]


def _while_validating(start: TagEstimator, n: int) -> TagEstimator:
    """Return the estimator of the search: fewer iterations, the same share of prototypes."""
    model: TagEstimator = clone(start)
    if "progress" in model.get_params():
        model.set_params(progress=None)
    if isinstance(model, MCDL):
        model.set_params(max_iter=min(model.max_iter, VALIDATION_ITERATIONS), checkpoint=None)
    count = model.get_params().get("n_prototypes")
    if isinstance(count, Integral):
        model.set_params(n_prototypes=min(1.0, int(count) / n))
    return model


def _sample(Y: Any, size: int, seed: int) -> npt.NDArray[np.intp]:
    """Return the rows of at most ``size`` images, stratified by their tags."""
    n = Y.shape[0]
    if n <= size:
        return np.arange(n)
    return np.sort(splits.stratified_split(Y, size / n, random_state=seed)[1])


def _check(start: TagEstimator, grid: Grid, search: str, seconds: float, n_folds: int) -> None:
    unknown = sorted(set(grid) - set(start.get_params()))
    if unknown:
        raise ValueError(
            f"grid names {unknown}, which {type(start).__name__} does not have: "
            f"it has {sorted(start.get_params())}."
        )
    empty = sorted(name for name, values in grid.items() if len(values) == 0)
    if empty or not grid:
        raise ValueError(f"grid has no values for {empty or 'any parameter'}: give one or more.")
    if search not in ("coordinate", "grid"):
        raise ValueError(f'search={search!r}: give "coordinate" or "grid".')
    if not seconds > 0:
        raise ValueError(f"seconds={seconds}: give the time that tuning may take, above 0.")
    if n_folds < 2:
        raise ValueError(f"n_folds={n_folds}: give 2 or more.")


def _f1(model: Any, X: Any, Y: Any) -> float:
    return metrics.f1_of_means(Y, model.predict(X))


def _map(model: Any, X: Any, Y: Any) -> float:
    return metrics.mean_average_precision(Y, model.decision_function(X))


def _balanced(model: Any, X: Any, Y: Any) -> float:
    scores = model.decision_function(X)
    f1 = metrics.f1_of_means(Y, scores > model.threshold_)
    return (f1 + metrics.mean_average_precision(Y, scores)) / 2


SCORINGS: dict[str, Callable[[Any, Any, Any], float]] = {
    "balanced": _balanced,
    "f1": _f1,
    "map": _map,
}
