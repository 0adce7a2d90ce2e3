"""Base class of the baselines that cross-validate hyperparameters and thresholds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse
from sklearn.base import _fit_context
from sklearn.utils import check_random_state

from prototag.arrays import Floats
from prototag.research.baselines.base import FOLDS, Baseline, combinations, draw_folds, quality

Setting = dict[str, float]
# Out-of-fold images on which settings are compared, at least; smaller collections use all images.
# On the remaining folds only the best setting is fitted, which saves time.
MIN_TUNING_IMAGES = 3_000


@dataclass(eq=False, repr=False, kw_only=True)
class CrossValidatedBaseline(Baseline):
    """A baseline whose held-out scores are out-of-fold scores.

    A subclass declares the grids of its hyperparameters (``_grids``), fits one model per setting
    (``_fit_models``, in one call, because settings may share work), scores images with a model
    (``_model_scores``), stores a model as fitted attributes (``_set_fitted``) and restores it from
    them (``_get_fitted``). Settings are compared on the first folds that hold ``MIN_TUNING_IMAGES``
    together, by F1 and mean average precision; the best one also scores the other folds. The
    thresholds are selected on these scores, and the final model is fitted to all images.
    """

    n_folds: int = 3
    random_state: Any = 0
    setting_: Setting = field(init=False)

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **Baseline._shared_constraints,
        "n_folds": [FOLDS],
        "random_state": ["random_state"],
    }
    _values: ClassVar[dict[str, type]] = {"setting_": dict}
    _grids: ClassVar[dict[str, tuple[float, ...]]] = {}

    def _settings(self) -> list[Setting]:
        return combinations(self._candidates(self._grids))

    def _fit_models(
        self, X: Floats, Y: sparse.csr_array, settings: Sequence[Setting], seed: int
    ) -> list[Any]:
        raise NotImplementedError

    def _model_scores(self, model: Any, X: Floats) -> Floats:
        raise NotImplementedError

    def _set_fitted(self, model: Any) -> None:
        raise NotImplementedError

    def _get_fitted(self) -> Any:
        raise NotImplementedError

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> Self:
        """Fit to vectors (n x m, scaled to unit length) and tags (n x t, 0/1)."""
        X, Y = self.validate_training_data(X, y)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        fold = draw_folds(len(X), self.n_folds, seed)

        settings = self._settings()
        scores = np.empty(Y.shape, np.float32)
        fold_scores: list[list[Floats]] = []  # by each setting, for each fold so far
        rows = np.empty(0, np.intp)
        for number in range(fold.max() + 1):
            held_out = np.flatnonzero(fold == number)
            others = np.flatnonzero(fold != number)
            models = self._fit_models(X[others], Y[others], settings, seed)
            by_setting = [self._model_scores(model, X[held_out]) for model in models]
            if len(settings) == 1:
                scores[held_out] = by_setting[0]
                continue
            fold_scores.append(by_setting)
            rows = np.append(rows, held_out)
            if len(rows) >= MIN_TUNING_IMAGES or len(rows) == len(X):
                joined = [np.concatenate(parts) for parts in zip(*fold_scores, strict=True)]
                best = int(np.argmax([quality(Y[rows], candidate) for candidate in joined]))
                scores[rows] = joined[best]
                settings = [settings[best]]
                fold_scores.clear()
        self.setting_ = settings[0]
        self._end_fit(Y, scores)
        self._set_fitted(self._fit_models(X, Y, settings, seed)[0])
        self._normalize_arrays()
        return self

    def _scores(self, X: Floats) -> Floats:
        return self._model_scores(self._get_fitted(), X)
