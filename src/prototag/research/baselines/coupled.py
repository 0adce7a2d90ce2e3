"""UDL and CDL, the baselines of the MCDL paper, with thresholds from out-of-fold scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar

from scipy import sparse

from prototag.arrays import Array, Arrays, Floats, add_prefix, select_prefix
from prototag.errors import ModelFileError
from prototag.mcdl.estimator import MCDL
from prototag.research.baselines.base import AUTO, COUNT
from prototag.research.baselines.cross_validated import CrossValidatedBaseline, Setting

ETAS = (0.25, 0.5, 1.0)


@dataclass(eq=False, repr=False)
class UDL(CrossValidatedBaseline):
    """Uncoupled dictionary learning: :meth:`prototag.MCDL.udl` with an out-of-fold threshold.

    Visual prototypes D and codes A minimise ``sum_i ||x_i - a_i D||^2`` with ``a_i >= 0``,
    ``sum(a_i) <= 1`` and rows of D in the unit ball, without regard to tags; then
    ``s_kc = min(v, sum_i a_ik y_ic / sum_i a_ik^2)``. Scores are ``a S``.

    Parameters
    ----------
    n_prototypes : int or float, default=0.2
        A number also applies to the folds, which have fewer images.
    max_nonzeros : int, default=20
    init_iter : int, default=20
        Alternations of coding and visual update. (The paper's 100 change little beyond 20.)
    threshold, n_folds, n_jobs
        As in :class:`Logistic`.
    random_state : int, RandomState or None, default=0
        Draws the folds and initializes k-means.

    Attributes
    ----------
    mcdl_ : MCDL
        The fitted model, with this estimator's threshold; it explains scores and can be saved.
    setting_ : dict
    out_of_fold_scores_, threshold_, classes_
        As in :class:`Logistic`.
    """

    n_prototypes: int | float = 0.2
    _: KW_ONLY
    max_nonzeros: int = 20
    init_iter: int = 20
    mcdl_: MCDL = field(init=False)

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        name: MCDL._parameter_constraints[name]
        for name in ("n_prototypes", "max_nonzeros", "init_iter")
    } | CrossValidatedBaseline._parameter_constraints

    def _preset(self) -> tuple[Callable[..., MCDL], dict[str, Any]]:
        return MCDL.udl, {}

    def _fit_models(
        self, X: Floats, Y: sparse.csr_array, settings: Sequence[Setting], seed: int
    ) -> list[MCDL]:
        build, options = self._preset()
        return [
            build(
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

    def _model_scores(self, model: MCDL, X: Floats) -> Floats:
        return model._scores(X)

    def _set_fitted(self, model: MCDL) -> None:
        # The model also gets the names of tags and features.
        for name in (
            "classes_",
            "feature_names_in_",
            "_single_label",
            "_sparse_tags",
            "_tag_dtype",
        ):
            if hasattr(self, name):
                setattr(model, name, getattr(self, name))
        model.threshold_ = self.threshold_
        self.mcdl_ = model

    def _get_fitted(self) -> MCDL:
        return self.mcdl_

    def _arrays(self) -> dict[str, str]:
        return {}  # all arrays belong to the MCDL model

    def _fitted_state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        config, arrays = super()._fitted_state()
        inner, parts = self.mcdl_.to_state()
        return {**config, "mcdl": inner}, {**arrays, **add_prefix("mcdl", parts)}

    def _restore(self, config: dict[str, Any], arrays: Arrays) -> None:
        super()._restore(config, arrays)
        self.mcdl_ = MCDL.from_state(config["mcdl"], select_prefix(arrays, "mcdl"))
        consistent = self.mcdl_.n_features_in_ == self.n_features_in_ and (
            self.mcdl_.classes_.tolist() == self.classes_.tolist()
        )
        if not consistent:
            raise ModelFileError("the parts of the model do not fit each other: it is damaged.")


@dataclass(eq=False, repr=False)
class CDL(UDL):
    """Coupled dictionary learning: :meth:`prototag.MCDL.cdl` with an out-of-fold threshold.

    Minimises ``sum_i [ (p_i / lam) ||x_i - a_i D||^2 + ||y_i - a_i S||^2 ]`` over D, S and A, with
    ``lam = eta^2 / t``, p_i the number of tags of image i and the constraints of
    :class:`prototag.MCDL`: its squared loss pulls scores to 0 and 1, and S is not sparse.

    Parameters
    ----------
    n_prototypes, max_nonzeros, init_iter, threshold, n_folds, n_jobs, random_state
        As in :class:`UDL`.
    eta : float or "auto", default="auto"
        Weight of the tags; "auto" selects one of three values on out-of-fold scores.
    max_iter : int, default=15

    Attributes
    ----------
    mcdl_, setting_, out_of_fold_scores_, threshold_, classes_
        As in :class:`UDL`.
    n_iter_ : int
    """

    _: KW_ONLY
    eta: float | str = "auto"
    max_iter: int = 15
    n_iter_: int = field(init=False)

    _grids: ClassVar[dict[str, tuple[float, ...]]] = {"eta": ETAS}
    _parameter_constraints: ClassVar[dict[str, Any]] = UDL._parameter_constraints | {
        "eta": [*MCDL._parameter_constraints["eta"], AUTO],
        "max_iter": [COUNT],
    }

    def _preset(self) -> tuple[Callable[..., MCDL], dict[str, Any]]:
        return MCDL.cdl, {"max_iter": self.max_iter}

    def _set_fitted(self, model: MCDL) -> None:
        super()._set_fitted(model)
        self.n_iter_ = model.n_iter_

    def _restore(self, config: dict[str, Any], arrays: Arrays) -> None:
        super()._restore(config, arrays)
        self.n_iter_ = self.mcdl_.n_iter_
