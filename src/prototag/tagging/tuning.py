"""Parameters by validation, within a limit of time."""

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
# What Tagger does not choose inside fit, the most telling first.
RECOMMENDED: Grid = {
    "relations": (0.0, 0.25, 0.5, 0.75, 1.0),
    "kernel_components": (150, 300, 600),
    "n_components": (100, 200, 400),
    "max_nonzeros": (15, 25, 40),
    "width": (150, 200, 300),
}
VALIDATION_ITERATIONS = 2  # of Algorithm 1 while validating, as in the paper


@dataclass
class _Search:
    """Fits on some folds, judged on the others; remembers what it has seen."""

    X: npt.NDArray[Any]
    Y: Any
    fold: npt.NDArray[np.intp]
    start: TagEstimator
    scoring: Callable[[Any, Any, Any], float]
    deadline: float
    report_trial: Callable[[dict[str, Any], float | None], None]
    last: float  # how much longer than these the fit to all images takes
    found: dict[tuple[Any, ...], list[float]] = field(default_factory=dict)
    curve: list[dict[str, Any]] = field(default_factory=list)
    longest: float = 0.0
    starts: dict[int, dict[Any, Any]] = field(default_factory=dict)

    def judge(self, params: dict[str, Any], number: int) -> float | None:
        """Quality on one fold; None where the time would run out."""
        seen = self.found.setdefault(tuple(sorted(params.items())), [])
        if number < len(seen):
            return seen[number]
        began = time.monotonic()
        if self.curve and began + self.longest * (1 + self.last) > self.deadline:
            return None
        inside = np.flatnonzero(self.fold == number)
        outside = np.flatnonzero(self.fold != number)
        model = clone(self.start).set_params(**params)
        self._fit(model, outside, number)
        seen.append(self.scoring(model, self.X[inside], self.Y[inside]))
        spent = time.monotonic() - began
        self.longest = max(self.longest, spent)
        self.curve.append(
            {**params, "fold": number, "quality": round(seen[-1], 5), "seconds": round(spent, 2)}
        )
        self.report_trial(params, float(np.mean(seen)))
        return seen[-1]

    def _fit(self, model: Any, rows: npt.NDArray[np.intp], number: int) -> None:
        X = self.X[rows]
        Y = self.Y[rows]
        if isinstance(model, MCDL):
            # Where the prototypes begin does not depend on most of the grid: found once a fold.
            model.fit_from(X, Y, self.starts.setdefault(number, {}))
        else:
            model.fit(X, Y)

    def better(self, params: dict[str, Any], best: dict[str, Any]) -> bool | None:
        """Whether ``params`` beat ``best`` by more than the folds differ; None: out of time.

        A candidate that loses on the first fold is not tried on the others.
        """
        gains: list[float] = []
        for number in range(self.fold.max() + 1):
            old = self.judge(best, number)
            new = self.judge(params, number)
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
    """Choose an annotator's parameters on held-out training images, then fit it to all.

    Parameters
    ----------
    X, Y : vectors (n x m) and tags (n x t, 0/1)
    estimator : annotator, optional
        Where the search begins; :func:`prototag.recommended` by default.
    grid : mapping of parameter to values, optional
        By default the paper's grids for ``MCDL.paper()``, ``MCDL.published()`` and alike (two
        iterations while validating), and for others what their fit does not choose by itself.
    search : {"coordinate", "grid"}
        One parameter after the other from the best so far, until a round changes nothing; or every
        combination.
    scoring : {"balanced", "f1", "map"} or callable(model, X, Y)
        "balanced" is the mean of F1 (at the model's own thresholds) and mean average precision.
    seconds : float
        The time that it may take, the last fit to all images included as far as that can be
        foretold. The start is judged once in any case.
    n_folds : int
        Multi-label stratified folds. A value is taken if it is better by more than the standard
        error over the folds.
    max_images : int
        Of more images the search sees a stratified sample.
    progress : callable, optional
        Told an :class:`prototag.events.Event` after each fit: seconds of seconds, and what was
        tried.
    random_state : int, RandomState or None

    Returns
    -------
    annotator
        Fitted to all images. Its ``tuning_`` says what was chosen and every fit that led there; a
        model file keeps it.

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
    vectors, tags = clone(start).validate_training_data(
        X, Y
    )  # refuses what fit would, before time is spent
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
    quality: dict[str, float] = {}

    def report_trial(params: dict[str, Any], mean: float | None) -> None:
        if mean is not None and params == best:
            quality["best"] = mean
        changed = [f"{name} {value}" for name, value in params.items() if value != at_start[name]]
        message = ", ".join(changed) or "the start"
        if mean is not None:
            message = f"{100 * mean:.1f}% for {message}"
        if progress is not None:
            spent = time.monotonic() - began
            progress(Event("Tuning", round(spent), round(seconds), None, message))

    hunt = _Search(
        np.asarray(X)[rows],
        tags[rows],
        splits.stratified_folds(tags[rows], n_folds, random_state=seed),
        _while_validating(start, n),
        SCORINGS[scoring] if isinstance(scoring, str) else scoring,
        began + seconds,
        report_trial,
        # A fit takes as long as images squared, or a little less.
        last=(n / (len(rows) * (1 - 1 / n_folds))) ** 2,
    )
    finished = (_coordinates if search == "coordinate" else _combinations)(hunt, grid, best)
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
        "curve": hunt.curve,
    }
    report_trial(best, None)
    return model


def default_grid(start: TagEstimator) -> Grid:
    """What :func:`tune` searches where no grid is given."""
    for kind, grid in ((MCDL, PAPER), (ExemplarMCDL, EXEMPLARS), (Tagger, RECOMMENDED)):
        if isinstance(start, kind):
            return grid
    raise ValueError(
        f"there is no default grid for a {type(start).__name__}: give grid={{parameter: values}}."
    )


def _coordinates(hunt: _Search, grid: Grid, best: dict[str, Any]) -> bool:
    """Change ``best`` one parameter at a time; whether it came to rest before the time was over."""
    hunt.judge(best, 0)
    changed = True
    while changed:
        changed = False
        for name, values in grid.items():
            for value in _nearest_first(values, best[name]):
                won = hunt.better({**best, name: value}, best)
                if won is None:
                    return False
                if won:
                    best[name] = value
                    changed = True
        changed = changed and len(grid) > 1
    return True


def _combinations(hunt: _Search, grid: Grid, best: dict[str, Any]) -> bool:
    """Change ``best`` to every combination that beats it; whether there was time for all."""
    hunt.judge(best, 0)
    for values in itertools.product(*grid.values()):
        params = dict(zip(grid, values, strict=True))
        won = params != best and hunt.better(params, best)
        if won is None:
            return False
        if won:
            best.update(params)
    return True


def _nearest_first(values: Sequence[Any], value: Any) -> list[Any]:
    """The values of a grid but one, those nearest to it in the grid's order first."""
    where = values.index(value) if value in values else 0
    order = sorted(range(len(values)), key=lambda place: abs(place - where))
    return [values[place] for place in order if values[place] != value]


def _while_validating(start: TagEstimator, n: int) -> TagEstimator:
    """The start as the search fits it: few iterations, prototypes as a share of fewer images."""
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
    """At most so many images, stratified by their tags."""
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
