"""Network vectors -> short vectors of unit length: z-score, principal axes, unit norm.

Each step is a scikit-learn transformer; :class:`Reduction` is the three in a row, with memory for
one block of rows at a time, so that the vectors may lie in a memory-mapped file.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin
from sklearn.utils.validation import check_is_fitted

from prototag.engine.threads import blocks
from prototag.tagging.reduction.axes import PrincipalAxes
from prototag.tagging.reduction.scaling import UnitNorm, ZScore
from prototag.tagging.reduction.step import ROWS, State, Step

__all__ = ["PrincipalAxes", "Reduction", "UnitNorm", "ZScore"]


class Reduction(ClassNamePrefixFeaturesOutMixin, Step):
    """z-score, principal axes, unit norm: what the published recipe does before coding.

    Parameters
    ----------
    n_components, solver, random_state
        Of :class:`PrincipalAxes`.

    Attributes
    ----------
    zscore_ : ZScore
    axes_ : PrincipalAxes
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = PrincipalAxes._parameter_constraints

    def __init__(
        self, n_components: int = 200, *, solver: str = "auto", random_state: Any = None
    ) -> None:
        self.n_components = n_components
        self.solver = solver
        self.random_state = random_state

    @property
    def _n_features_out(self) -> int:
        return len(self.axes_.components_)

    def fit(self, X: Any, y: object = None) -> Reduction:  # noqa: ARG002
        """Learn deviations, then axes; with the incremental solver in memory for one block."""
        self._validate_params()
        X = self._check(X, reset=True, least=2)
        self.zscore_ = ZScore().fit(X)
        self.axes_ = PrincipalAxes(**self.get_params(deep=False))
        if self.axes_.choose_solver(*X.shape) == "incremental":
            self.axes_.fit_blocks(self.zscore_.transform(X[rows]) for rows in blocks(len(X), ROWS))
        else:
            self.axes_.fit(self.zscore_.transform(X))
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Short vectors of unit length."""
        check_is_fitted(self)
        X = self._check(X, reset=False)
        short = np.empty((len(X), self._n_features_out), X.dtype)
        for rows in blocks(len(X), ROWS):
            short[rows] = self.axes_.transform(self.zscore_.transform(X[rows]))
        norms = np.linalg.norm(short, axis=1, keepdims=True)
        return np.divide(short, norms, out=short, where=norms > 0)

    def to_state(self) -> State:
        """Parameters and fitted arrays, for a model file."""
        config, _ = super().to_state()
        parts = {"zscore": self.zscore_.to_state(), "axes": self.axes_.to_state()}
        config |= {name: part for name, (part, _) in parts.items()}
        arrays = {
            f"{name}/{key}": a for name, (_, kept) in parts.items() for key, a in kept.items()
        }
        return config, arrays

    @classmethod
    def from_state(cls, config: dict[str, Any], arrays: dict[str, np.ndarray]) -> Reduction:
        """The fitted reduction that :meth:`to_state` described."""
        reduction = super().from_state(config, arrays)
        for name, step in (("zscore", ZScore), ("axes", PrincipalAxes)):
            kept = {k.partition("/")[2]: a for k, a in arrays.items() if k.startswith(f"{name}/")}
            setattr(reduction, f"{name}_", step.from_state(config[name], kept))
        return reduction
