"""Settings and thresholds from images that were left out, the same way for every rival."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse
from sklearn.base import _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from prototag.arrays import Floats
from prototag.research.baselines.base import Baseline, draw_folds, quality

Setting = dict[str, float]
PILOT = 3_000  # left-out images that settings are tried on, at least; of fewer images all

POSITIVE = Interval(Real, 0, None, closed="neither")
COUNT = Interval(Integral, 1, None, closed="left")
AUTO = StrOptions({"auto"})
FOLDED: dict[str, Any] = Baseline._shared_constraints | {
    "n_folds": [Interval(Integral, 2, None, closed="left")],
    "random_state": ["random_state"],
}


class CrossValidatedBaseline(Baseline):
    """An annotator whose left-out scores come from folds.

    A subclass says which settings may be tried (``_settings``), learns a model for each of several
    settings (``_learn``: together, so that they may share work), scores with one (``_apply``),
    keeps the last as fitted attributes (``_keep``) and makes it from these again (``_kept``).
    Settings are tried on the first folds, on ``PILOT`` images or all; the one of best quality
    (F1 and mean average precision) also scores the other folds. The threshold is chosen from these
    scores; at last all images are learned from.
    """

    n_folds: int
    random_state: Any
    setting_: Setting
    _parameter_constraints: ClassVar[dict[str, Any]] = FOLDED
    _values: ClassVar[dict[str, type]] = {"setting_": dict}

    def _settings(self) -> list[Setting]:
        raise NotImplementedError

    def _learn(
        self, X: Floats, Y: sparse.csr_array, settings: Sequence[Setting], seed: int
    ) -> list[Any]:
        raise NotImplementedError

    def _apply(self, model: Any, X: Floats) -> Floats:
        raise NotImplementedError

    def _keep(self, model: Any) -> None:
        """What users may look at: fitted attributes named as in the docstring."""
        raise NotImplementedError

    def _kept(self) -> Any:
        raise NotImplementedError

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> Self:
        """Learn from vectors (n x m, brought to unit length) and tags (n x t, 0/1)."""
        X, Y = self.validate_training_data(X, y)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        fold = draw_folds(len(X), self.n_folds, seed)

        settings = self._settings()
        scores = np.empty(Y.shape, np.float32)
        tried: list[list[Floats]] = []  # for each fold, scores by each setting
        rows = np.empty(0, np.intp)
        for number in range(fold.max() + 1):
            inside = np.flatnonzero(fold == number)
            outside = np.flatnonzero(fold != number)
            models = self._learn(X[outside], Y[outside], settings, seed)
            answers = [self._apply(model, X[inside]) for model in models]
            if len(settings) == 1:
                scores[inside] = answers[0]
                continue
            tried.append(answers)
            rows = np.append(rows, inside)
            if len(rows) >= PILOT or len(rows) == len(X):
                found = [np.concatenate(parts) for parts in zip(*tried, strict=True)]
                best = int(np.argmax([quality(Y[rows], by_one) for by_one in found]))
                scores[rows], settings = found[best], [settings[best]]
                tried.clear()
        self.setting_ = settings[0]
        self._end_fit(Y, scores)
        self._keep(self._learn(X, Y, settings, seed)[0])
        self._settle()
        return self

    def _scores(self, X: Floats) -> Floats:
        return self._apply(self._kept(), X)


def grid(**choices: Any) -> list[Setting]:
    """Every combination of the values given; a single number stands for itself."""
    answer: list[Setting] = [{}]
    for name, values in choices.items():
        answer = [{**setting, name: float(v)} for setting in answer for v in np.atleast_1d(values)]
    return answer
