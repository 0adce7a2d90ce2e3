"""One-vs-rest kernel ridge regression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils import check_random_state

from prototag.arrays import Floats
from prototag.coding.rbf_kernel import rbf_kernel
from prototag.engine import Threads, map_rows
from prototag.evaluation.leave_one_out import correct_loo_bias
from prototag.research.baselines.base import (
    AUTO,
    COUNT,
    POSITIVE,
    Baseline,
    combinations,
    quality,
    select_best,
)
from prototag.tagging.loo_ridge import kernel_ridge

GRIDS = {"gamma": (0.5, 1.0, 1.5, 2.5), "strength": (0.1, 0.3, 1.0, 3.0)}
N_LANDMARKS = 6_000  # for collections that are too large for an exact regression
BATCH_IMAGES = 256


@dataclass(eq=False, repr=False, kw_only=True)
class KernelRidge(Baseline):
    """One-vs-rest kernel ridge regression on 0/1 with ``k(x, x') = exp(-gamma ||x - x'||^2) + 1``.

    Scores are ``f_c(x) = sum_l k(x, x_l) b_lc``, for each tag the minimiser of

        sum_i (y_ic - f_c(x_i))^2 + strength ||f_c||_k^2,

    exact over all training images, or within the span of landmark images. Leave-one-out scores are
    in closed form.

    Parameters
    ----------
    gamma : float or "auto", default="auto"
        "auto" selects one of four values on leave-one-out scores of a sample.
    strength : float or "auto", default="auto"
        "auto" as for ``gamma``.
    max_landmarks : int, default=20000
        The largest number of images for an exact regression; larger collections use 6,000
        landmarks, or ``max_landmarks`` if that is fewer.
    pilot : int, default=3000
        The number of images in the sample.
    threshold : {"global", "per_tag"} or float, default="global"
    n_jobs : int, optional
    random_state : int, RandomState or None, default=0

    Attributes
    ----------
    landmarks_ : ndarray of shape (l, m)
    dual_ : ndarray of shape (l, t)
    gamma_, strength_ : float
    out_of_fold_scores_ : ndarray of shape (n, t)
        Leave-one-out scores.
    threshold_, classes_, n_features_in_, feature_names_in_
        As in :class:`prototag.MCDL`.
    """

    gamma: float | str = "auto"
    strength: float | str = "auto"
    max_landmarks: int = 20_000
    pilot: int = 3_000
    random_state: Any = 0

    _correct_loo_bias = True
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "gamma": [POSITIVE, AUTO],
        "strength": [POSITIVE, AUTO],
        "max_landmarks": [COUNT],
        "pilot": [COUNT],
        "random_state": ["random_state"],
    } | Baseline._shared_constraints
    _values: ClassVar[dict[str, type]] = {"gamma_": float, "strength_": float}

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> Self:
        """Fit to vectors (n x m, scaled to unit length) and tags (n x t, 0/1)."""
        X, Y = self.validate_training_data(X, y)
        T = Y.toarray()
        n = len(X)
        engine = Threads(self.n_jobs)
        rng = np.random.default_rng(int(check_random_state(self.random_state).randint(2**31 - 1)))
        sample = np.sort(rng.permutation(n)[: max(self.pilot, 2)])

        def sample_quality(setting: dict[str, float]) -> float:
            model = kernel_ridge(
                X[sample],
                T[sample],
                gamma=setting["gamma"],
                strength=setting["strength"],
                engine=engine,
            )
            return quality(Y[sample], correct_loo_bias(Y[sample], model.loo_predictions))

        setting = select_best(combinations(self._candidates(GRIDS)), sample_quality)
        self.gamma_ = setting["gamma"]
        self.strength_ = setting["strength"]
        landmarks = np.arange(n)
        if n > self.max_landmarks:
            landmarks = np.sort(rng.permutation(n)[: min(N_LANDMARKS, self.max_landmarks)])
        model = kernel_ridge(
            X, T, gamma=self.gamma_, strength=self.strength_, landmark_rows=landmarks, engine=engine
        )
        self.landmarks_ = X[landmarks]
        self.dual_ = model.dual
        self._normalize_arrays()
        self._end_fit(Y, model.loo_predictions)
        return self

    def _arrays(self) -> dict[str, str]:
        return {"landmarks_": "f4 l m", "dual_": "f4 l t"}

    def _prepare(self) -> None:
        # The kernel's constant contributes as much as all the rest: it is summed in float64.
        self._constant = self.dual_.sum(axis=0, dtype=np.float64).astype(np.float32)

    def _scores(self, X: Floats) -> Floats:
        shared = [self.landmarks_, self.gamma_, self.dual_, self._constant]
        return map_rows(Threads(self.n_jobs), score_batch, [X], shared, size=BATCH_IMAGES)


def score_batch(
    x: Floats, landmarks: Floats, gamma: float, dual: Floats, constant: Floats
) -> Floats:
    """Return the scores of a batch of images."""
    return rbf_kernel(x, landmarks, gamma) @ dual + constant
