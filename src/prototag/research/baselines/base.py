"""What all rivals share: thresholds from scores that did not see the image, choices by them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from numbers import Integral, Real
from typing import Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from prototag.arrays import Array, Arrays, Floats
from prototag.estimator import TagEstimator
from prototag.evaluation import thresholds
from prototag.evaluation.leave_one_out import shrunk_loo_scores
from prototag.evaluation.thresholds import THRESHOLD_SHRINKAGE
from prototag.research.baselines import serialization

PILOT = 4000  # images whose scores decide between parameters; thresholds are chosen from all
T = TypeVar("T")


class Baseline(TagEstimator):
    """Base of the rivals: ``fit`` begins with ``validate_training_data``, ends with ``_end_fit``.

    A rival declares what a model file keeps of it: ``_arrays()``, and ``_values`` for plain numbers
    and dictionaries of them. Once ``fit`` has set the arrays it calls ``_settle``; whatever else
    scoring needs is made of them in ``_prepare``, which a loaded model calls, too.

    Attributes
    ----------
    out_of_fold_scores_ : ndarray of shape (n, t)
        What the training images would score as new ones; thresholds come from these.
    """

    # What every rival's _parameter_constraints include.
    _shared_constraints: ClassVar[dict[str, Any]] = {
        "threshold": [
            StrOptions({"global", "per_tag"}),
            Interval(Real, None, None, closed="neither"),
        ],
        "n_jobs": [Integral, None],
    }
    _shrink: ClassVar[float] = THRESHOLD_SHRINKAGE
    # Whether a left-out score is a sum over the other images that have the tag: then thresholds are
    # chosen as ours are (prototag.evaluation.shrunk_loo_scores).
    _one_left_out: ClassVar[bool] = False
    _values: ClassVar[dict[str, type]] = {}  # fitted attributes: int, float or dict
    n_jobs: int | None
    out_of_fold_scores_: Floats

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.kind = cls.__name__.lower()  # as the registry looks for it

    def validate_training_data(self, X: Any, y: Any) -> tuple[Floats, sparse.csr_array]:
        X, Y = super().validate_training_data(X, y)
        if len(X) < 2:
            raise ValueError("n_samples=1: an image is judged by others, give two or more.")
        return X, Y

    def _end_fit(self, Y: sparse.csr_array, scores: Floats) -> None:
        self.out_of_fold_scores_ = scores
        self._fit_threshold(Y, shrunk_loo_scores(Y, scores) if self._one_left_out else scores)

    # -- on disk -----------------------------------------------------------------------------------

    def _arrays(self) -> dict[str, str]:
        """Fitted attributes and their form, see
        :mod:`prototag.research.baselines.serialization`.
        """
        raise NotImplementedError

    def _prepare(self) -> None:
        """Make what scoring needs from the fitted arrays."""

    def _settle(self) -> None:
        """Arrays in the memory order in which a file gives them back, so that bits stay."""
        for name, form in self._arrays().items():
            if not serialization.is_tags(form):
                setattr(self, name, np.ascontiguousarray(getattr(self, name), form.split()[0]))
        self._prepare()

    def _recipe(self) -> dict[str, Any]:
        return {name: serialization.plain(value) for name, value in super()._recipe().items()}

    def _fitted_state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        values = {name: serialization.plain(getattr(self, name)) for name in self._values}
        return {"fitted": values}, serialization.pack(self, self._arrays())

    def _restore(self, config: dict[str, Any], arrays: Arrays) -> None:
        values = config["fitted"]
        serialization.check(values, self._values, self._parameter_constraints)
        sizes = {"m": int(self.n_features_in_), "t": len(self.classes_)}
        found = serialization.unpack(arrays, self._arrays(), sizes)
        for name, value in {**{name: values[name] for name in self._values}, **found}.items():
            setattr(self, name, value)
        self._prepare()


def quality(Y: Any, scores: Floats) -> float:
    """By a threshold, by the best five, as rankings: a rival is tuned for all it is measured by."""
    return thresholds.validation_score(Y, scores, five=True)


def best(choices: Iterable[T], value: Callable[[T], float]) -> T:
    """The choice of the highest value, the first of equals; a single one is not evaluated."""
    choices = list(choices)
    return choices[0] if len(choices) == 1 else max(choices, key=value)


def in_turn(
    grids: dict[str, tuple[Any, ...]], given: Any, value: Callable[[dict[str, Any]], float]
) -> dict[str, Any]:
    """The best of each grid, one parameter after the other, the others at their first or best.

    ``given`` is an estimator; a parameter of it that is not "auto" stays as it is.
    """
    options = {
        name: grid if getattr(given, name) == "auto" else (getattr(given, name),)
        for name, grid in grids.items()
    }
    chosen = {name: grid[0] for name, grid in options.items()}
    for name, grid in options.items():
        tried = [{**chosen, name: choice} for choice in grid]
        chosen = best(tried, value)
    return chosen


def pilot(n: int) -> npt.NDArray[np.intp]:
    """At most ``PILOT`` of n images, evenly spread."""
    return np.arange(0, n, -(-n // PILOT))


def draw_folds(n: int, n_folds: int, random_state: Any) -> npt.NDArray[np.intp]:
    """The fold of each image, drawn at random; folds differ by at most one image."""
    return np.asarray(check_random_state(random_state).permutation(n) % min(n_folds, n))
