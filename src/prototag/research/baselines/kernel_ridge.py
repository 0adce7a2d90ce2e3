"""Kernel ridge regression as an annotator."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils import check_random_state

from prototag.arrays import Floats
from prototag.coding.rbf_kernel import rbf_kernel
from prototag.engine import Threads, map_rows
from prototag.evaluation.leave_one_out import correct_loo_bias
from prototag.research.baselines.base import Baseline, quality
from prototag.research.baselines.cross_validated import AUTO, COUNT, POSITIVE, grid
from prototag.tagging.loo_ridge import kernel_ridge

GAMMAS = (0.5, 1.0, 1.5, 2.5)
STRENGTHS = (0.1, 0.3, 1.0, 3.0)
LANDMARKS = 6_000  # of more images than an exact regression can take
BLOCK = 256


class KernelRidge(Baseline):
    """One-vs-rest kernel ridge regression on 0/1 with ``k(x, x') = exp(-gamma ||x - x'||^2) + 1``.

    Scores are ``f_c(x) = sum_l k(x, x_l) b_lc``, for each tag the minimiser of

        sum_i (y_ic - f_c(x_i))^2 + strength ||f_c||_k^2,

    exact, over all training images, or within the span of some that are landmarks. Scores of
    left-out images are in closed form.

    Parameters
    ----------
    gamma : float or "auto", default="auto"
        "auto" is the best of four by images left out of a sample.
    strength : float or "auto", default="auto"
        Likewise.
    max_landmarks : int, default=20000
        Of more images than this 6,000 are landmarks (or this many, if that is fewer).
    pilot : int, default=3000
        Images in the sample on which gamma and strength are tried.
    threshold : {"global", "per_tag"} or float, default="global"
    n_jobs : int, optional
    random_state : int, RandomState or None, default=0

    Attributes
    ----------
    landmarks_ : ndarray of shape (l, m)
    dual_ : ndarray of shape (l, t)
    gamma_, strength_ : float
    out_of_fold_scores_ : ndarray of shape (n, t)
        Of each training image by the regression without it.
    threshold_, classes_, n_features_in_, feature_names_in_
        As in :class:`prototag.MCDL`.
    """

    _one_left_out = True
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "gamma": [POSITIVE, AUTO],
        "strength": [POSITIVE, AUTO],
        "max_landmarks": [COUNT],
        "pilot": [COUNT],
        "random_state": ["random_state"],
    } | Baseline._shared_constraints
    _values: ClassVar[dict[str, type]] = {"gamma_": float, "strength_": float}

    def __init__(
        self,
        *,
        gamma: float | str = "auto",
        strength: float | str = "auto",
        max_landmarks: int = 20_000,
        pilot: int = 3_000,
        threshold: str | float = "global",
        n_jobs: int | None = None,
        random_state: Any = 0,
    ) -> None:
        self.gamma = gamma
        self.strength = strength
        self.max_landmarks = max_landmarks
        self.pilot = pilot
        self.threshold = threshold
        self.n_jobs = n_jobs
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> Self:
        """Learn from vectors (n x m, brought to unit length) and tags (n x t, 0/1)."""
        X, Y = self.validate_training_data(X, y)
        T = Y.toarray()
        n = len(X)
        engine = Threads(self.n_jobs)
        rng = np.random.default_rng(int(check_random_state(self.random_state).randint(2**31 - 1)))
        settings = grid(
            gamma=GAMMAS if self.gamma == "auto" else self.gamma,
            strength=STRENGTHS if self.strength == "auto" else self.strength,
        )
        sample = np.sort(rng.permutation(n)[: max(self.pilot, 2)])
        if len(settings) > 1:
            settings.sort(
                key=lambda setting: quality(
                    Y[sample],
                    correct_loo_bias(
                        Y[sample],
                        kernel_ridge(
                            X[sample],
                            T[sample],
                            gamma=setting["gamma"],
                            strength=setting["strength"],
                            engine=engine,
                        ).loo_predictions,
                    ),
                ),
                reverse=True,
            )
        self.gamma_ = settings[0]["gamma"]
        self.strength_ = settings[0]["strength"]
        chosen = np.arange(n)
        if n > self.max_landmarks:
            chosen = np.sort(rng.permutation(n)[: min(LANDMARKS, self.max_landmarks)])
        model = kernel_ridge(
            X, T, gamma=self.gamma_, strength=self.strength_, landmark_rows=chosen, engine=engine
        )
        self.landmarks_ = X[chosen]
        self.dual_ = model.dual
        self._settle()
        self._end_fit(Y, model.loo_predictions)
        return self

    def _arrays(self) -> dict[str, str]:
        return {"landmarks_": "f4 l m", "dual_": "f4 l t"}

    def _prepare(self) -> None:
        # What the kernel's constant gives is as large as all the rest: summed apart, in float64.
        self._constant = self.dual_.sum(axis=0, dtype=np.float64).astype(np.float32)

    def _scores(self, X: Floats) -> Floats:
        shared = [self.landmarks_, self.gamma_, self.dual_, self._constant]
        return map_rows(Threads(self.n_jobs), score_block, [X], shared, size=BLOCK)


def score_block(
    x: Floats, landmarks: Floats, gamma: float, dual: Floats, constant: Floats
) -> Floats:
    return rbf_kernel(x, landmarks, gamma) @ dual + constant
