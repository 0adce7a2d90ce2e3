"""The paper's own baselines, UDL and CDL, with thresholds from images that were left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from scipy import sparse

from prototag.arrays import Array, Arrays, Floats, add_prefix, select_prefix
from prototag.errors import ModelFileError
from prototag.mcdl.estimator import MCDL
from prototag.research.baselines.cross_validated import (
    AUTO,
    COUNT,
    FOLDED,
    CrossValidatedBaseline,
    Setting,
    grid,
)

ETAS = (0.25, 0.5, 1.0)


class UDL(CrossValidatedBaseline):
    """Uncoupled dictionary learning: :meth:`prototag.MCDL.udl`, its threshold out of fold.

    Visual prototypes D and codes A minimise ``sum_i ||x_i - a_i D||^2`` with ``a_i >= 0``,
    ``sum(a_i) <= 1`` and rows of D in the unit ball, without regard to tags; then
    ``s_kc = min(v, sum_i a_ik y_ic / sum_i a_ik^2)``. Scores are ``a S``.

    Parameters
    ----------
    n_prototypes : int or float, default=0.2
        A number counts for the folds too, which have fewer images.
    max_nonzeros : int, default=20
    init_iter : int, default=20
        Alternations of coding and visual update. (The paper's 100 change little beyond 20.)
    threshold, n_folds, n_jobs
        As in :class:`Logistic`.
    random_state : int, RandomState or None, default=0
        Draws the folds, and starts k-means.

    Attributes
    ----------
    mcdl_ : MCDL
        The fitted model, which explains and can be saved; it has this estimator's threshold.
    setting_ : dict
    out_of_fold_scores_, threshold_, classes_
        As in :class:`Logistic`.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        name: MCDL._parameter_constraints[name]
        for name in ("n_prototypes", "max_nonzeros", "init_iter")
    } | FOLDED

    def __init__(
        self,
        n_prototypes: int | float = 0.2,
        *,
        max_nonzeros: int = 20,
        init_iter: int = 20,
        threshold: str | float = "global",
        n_folds: int = 3,
        n_jobs: int | None = None,
        random_state: Any = 0,
    ) -> None:
        self.n_prototypes = n_prototypes
        self.max_nonzeros = max_nonzeros
        self.init_iter = init_iter
        self.threshold = threshold
        self.n_folds = n_folds
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _settings(self) -> list[Setting]:
        return [{}]

    def _preset(self) -> tuple[Callable[..., MCDL], dict[str, Any]]:
        return MCDL.udl, {}

    def _learn(
        self, X: Floats, Y: sparse.csr_array, settings: Sequence[Setting], seed: int
    ) -> list[MCDL]:
        make, options = self._preset()
        return [
            make(
                self.n_prototypes,
                max_nonzeros=self.max_nonzeros,
                init_iter=self.init_iter,
                threshold=0.0,
                n_jobs=self.n_jobs,
                random_state=seed,
                **options,
                **setting,
            ).fit(X, Y)
            for setting in settings
        ]

    def _apply(self, model: MCDL, X: Floats) -> Floats:
        return model._scores(X)

    def _keep(self, model: MCDL) -> None:
        """The model, with what users called tags and features."""
        for name in ("classes_", "feature_names_in_", "_labels", "_sparse_tags", "_tag_dtype"):
            if hasattr(self, name):
                setattr(model, name, getattr(self, name))
        model.threshold_ = self.threshold_
        self.mcdl_ = model

    def _kept(self) -> MCDL:
        return self.mcdl_

    def _arrays(self) -> dict[str, str]:
        return {}  # all are of the model

    def _fitted_state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        config, arrays = super()._fitted_state()
        inner, parts = self.mcdl_.to_state()
        return {**config, "mcdl": inner}, {**arrays, **add_prefix("mcdl", parts)}

    def _restore(self, config: dict[str, Any], arrays: Arrays) -> None:
        super()._restore(config, arrays)
        self.mcdl_ = MCDL.from_state(config["mcdl"], select_prefix(arrays, "mcdl"))
        fits = self.mcdl_.n_features_in_ == self.n_features_in_ and (
            self.mcdl_.classes_.tolist() == self.classes_.tolist()
        )
        if not fits:
            raise ModelFileError("the parts of the model do not fit each other: it is damaged.")


class CDL(UDL):
    """Coupled dictionary learning: :meth:`prototag.MCDL.cdl`, its threshold out of fold.

    Minimises ``sum_i [ (p_i / lam) ||x_i - a_i D||^2 + ||y_i - a_i S||^2 ]`` over D, S and A, with
    ``lam = eta^2 / t``, p_i the number of tags of image i and the constraints of
    :class:`prototag.MCDL`: its squared loss pulls scores to 0 and 1, and S is not sparse.

    Parameters
    ----------
    n_prototypes, max_nonzeros, init_iter, threshold, n_folds, n_jobs, random_state
        As in :class:`UDL`.
    eta : float or "auto", default="auto"
        Weight of the tags; "auto" is the best of three by left-out images.
    max_iter : int, default=15

    Attributes
    ----------
    mcdl_, setting_, out_of_fold_scores_, threshold_, classes_
        As in :class:`UDL`.
    n_iter_ : int
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = UDL._parameter_constraints | {
        "eta": [*MCDL._parameter_constraints["eta"], AUTO],
        "max_iter": [COUNT],
    }

    def __init__(
        self,
        n_prototypes: int | float = 0.2,
        *,
        eta: float | str = "auto",
        max_iter: int = 15,
        max_nonzeros: int = 20,
        init_iter: int = 20,
        threshold: str | float = "global",
        n_folds: int = 3,
        n_jobs: int | None = None,
        random_state: Any = 0,
    ) -> None:
        super().__init__(
            n_prototypes,
            max_nonzeros=max_nonzeros,
            init_iter=init_iter,
            threshold=threshold,
            n_folds=n_folds,
            n_jobs=n_jobs,
            random_state=random_state,
        )
        self.eta = eta
        self.max_iter = max_iter

    def _settings(self) -> list[Setting]:
        return grid(eta=ETAS if self.eta == "auto" else self.eta)

    def _preset(self) -> tuple[Callable[..., MCDL], dict[str, Any]]:
        return MCDL.cdl, {"max_iter": self.max_iter}

    def _keep(self, model: MCDL) -> None:
        super()._keep(model)
        self.n_iter_ = model.n_iter_

    def _restore(self, config: dict[str, Any], arrays: Arrays) -> None:
        super()._restore(config, arrays)
        self.n_iter_ = self.mcdl_.n_iter_
