"""Base class of the baselines: held-out thresholds, hyperparameter selection, model files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import product
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

# Images on which hyperparameters are selected, a limit of time; thresholds are selected on all.
MAX_TUNING_IMAGES = 4000

POSITIVE = Interval(Real, 0, None, closed="neither")
NOT_NEGATIVE = Interval(Real, 0, None, closed="left")
COUNT = Interval(Integral, 1, None, closed="left")
FOLDS = Interval(Integral, 2, None, closed="left")
AUTO = StrOptions({"auto"})

Candidates = dict[str, tuple[Any, ...]]
T = TypeVar("T")


@dataclass(eq=False, repr=False, kw_only=True)
class Baseline(TagEstimator):
    """Base class of the baselines.

    Subclasses are data classes whose fields are the hyperparameters. ``fit`` begins with
    ``validate_training_data`` and ends with ``_end_fit``. A subclass declares the content of its
    model file: arrays in ``_arrays()``, numbers and dictionaries of numbers in ``_values``. When
    ``fit`` has set the arrays, it calls ``_normalize_arrays``. ``_prepare`` derives from them what
    scoring needs besides; a loaded model calls it too.

    Attributes
    ----------
    out_of_fold_scores_ : ndarray of shape (n, t)
        Held-out scores of the training images, on which thresholds are selected.
    """

    _shared_constraints: ClassVar[dict[str, Any]] = {
        "threshold": [
            StrOptions({"global", "per_tag"}),
            Interval(Real, None, None, closed="neither"),
        ],
        "n_jobs": [Integral, None],
    }
    _threshold_shrinkage: ClassVar[float] = THRESHOLD_SHRINKAGE
    # Whether a held-out score is a leave-one-out sum over the other images that have the tag:
    # thresholds are then selected on prototag.evaluation.shrunk_loo_scores, as in ProtoTag.
    _correct_loo_bias: ClassVar[bool] = False
    _values: ClassVar[dict[str, type]] = {}  # fitted attributes: int, float or dict

    threshold: str | float = "global"
    n_jobs: int | None = None
    out_of_fold_scores_: Floats = field(init=False)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.kind = cls.__name__.lower()  # as in the registry

    def validate_training_data(self, X: Any, y: Any) -> tuple[Floats, sparse.csr_array]:
        X, Y = super().validate_training_data(X, y)
        if len(X) < 2:
            raise ValueError(
                "n_samples=1: each image is scored by a model of the others, give two or more."
            )
        return X, Y

    def _end_fit(self, Y: sparse.csr_array, scores: Floats) -> None:
        self.out_of_fold_scores_ = scores
        self._fit_threshold(Y, shrunk_loo_scores(Y, scores) if self._correct_loo_bias else scores)

    def _candidates(self, grids: Mapping[str, tuple[Any, ...]]) -> Candidates:
        """Return the values to try: the grid of a hyperparameter that is "auto", or its value."""
        candidates: Candidates = {}
        for name, grid in grids.items():
            value = getattr(self, name)
            candidates[name] = grid if value == "auto" else (type(grid[0])(value),)
        return candidates

    # -- model files -------------------------------------------------------------------------------

    def _arrays(self) -> dict[str, str]:
        """Declare the fitted arrays, see :mod:`prototag.research.baselines.serialization`."""
        raise NotImplementedError

    def _prepare(self) -> None:
        """Derive from the fitted arrays what scoring needs besides."""

    def _normalize_arrays(self) -> None:
        """Store arrays in the memory order of a model file, so that a loaded model is identical."""
        for name, declaration in self._arrays().items():
            if not serialization.is_sparse(declaration):
                dtype = declaration.split()[0]
                setattr(self, name, np.ascontiguousarray(getattr(self, name), dtype))
        self._prepare()

    def result_parameters(self) -> dict[str, Any]:
        return {
            name: serialization.plain(value) for name, value in super().result_parameters().items()
        }

    def _fitted_state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        values = {name: serialization.plain(getattr(self, name)) for name in self._values}
        return {"fitted": values}, serialization.pack(self, self._arrays())

    def _restore(self, config: dict[str, Any], arrays: Arrays) -> None:
        values = config["fitted"]
        serialization.check(values, self._values, self._parameter_constraints)
        sizes = {"m": int(self.n_features_in_), "t": len(self.classes_)}
        for name in self._values:
            setattr(self, name, values[name])
        for name, array in serialization.unpack(arrays, self._arrays(), sizes).items():
            setattr(self, name, array)
        self._prepare()


def quality(Y: Any, scores: Floats) -> float:
    """Sum the three reported measures: F1 with a threshold, F1 with five tags, and mAP."""
    return thresholds.validation_score(Y, scores, five=True)


def select_best(options: Iterable[T], value: Callable[[T], float]) -> T:
    """Return the first option of the highest value; a single one is not evaluated."""
    options = list(options)
    return options[0] if len(options) == 1 else max(options, key=value)


def combinations(candidates: Mapping[str, Iterable[Any]]) -> list[dict[str, Any]]:
    """List every combination of the candidates, the last hyperparameter varying fastest."""
    return [dict(zip(candidates, values, strict=True)) for values in product(*candidates.values())]


def coordinate_search(
    candidates: Candidates, value: Callable[[dict[str, Any]], float]
) -> dict[str, Any]:
    """Select one hyperparameter after the other, with the others at their first or best value."""
    selected = {name: values[0] for name, values in candidates.items()}
    for name, values in candidates.items():
        options = [{**selected, name: option} for option in values]
        selected = select_best(options, value)
    return selected


def tuning_sample(n: int) -> npt.NDArray[np.intp]:
    """Return at most ``MAX_TUNING_IMAGES`` evenly spread of n images."""
    return np.arange(0, n, -(-n // MAX_TUNING_IMAGES))


def draw_folds(n: int, n_folds: int, random_state: Any) -> npt.NDArray[np.intp]:
    """Draw the fold of each image; the sizes of folds differ by at most one."""
    return np.asarray(check_random_state(random_state).permutation(n) % min(n_folds, n))


def fold_rows(fold: npt.NDArray[np.intp]) -> list[npt.NDArray[np.intp]]:
    """Return the rows of each fold."""
    return [np.flatnonzero(fold == number) for number in range(fold.max() + 1)]
