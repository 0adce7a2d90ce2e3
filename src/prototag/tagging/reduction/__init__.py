"""Network vectors -> short vectors of unit length: z-score, principal axes, unit norm.

Each step is a scikit-learn transformer; :class:`Reduction` is the three in a row, with memory for
one block of rows at a time, so that the vectors may lie in a memory-mapped file.
"""

from __future__ import annotations

from copy import copy
from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, clone
from sklearn.utils.validation import check_is_fitted

from prototag.arrays import Array, unit
from prototag.engine import blocks
from prototag.tagging.reduction.axes import PrincipalAxes
from prototag.tagging.reduction.scaling import UnitNorm, ZScore
from prototag.tagging.reduction.transformer import ROWS, Transformer

__all__ = ["PrincipalAxes", "Reduction", "UnitNorm", "ZScore"]


class Reduction(ClassNamePrefixFeaturesOutMixin, Transformer):
    """z-score, principal axes, unit norm: what the published recipe does before coding.

    Parameters
    ----------
    n_components : int or None, default=200
        Of :class:`PrincipalAxes`; None keeps all columns as they are.
    solver, random_state
        Of :class:`PrincipalAxes`.
    prior : float, default=0.0
        Of :class:`ZScore`.

    Attributes
    ----------
    zscore_ : ZScore
    axes_ : PrincipalAxes or None
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **PrincipalAxes._parameter_constraints,
        **ZScore._parameter_constraints,
        "n_components": [*PrincipalAxes._parameter_constraints["n_components"], None],
    }

    def __init__(
        self,
        n_components: int | None = 200,
        *,
        solver: str = "auto",
        prior: float = 0.0,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.solver = solver
        self.prior = prior
        self.random_state = random_state

    @property
    def _n_features_out(self) -> int:
        return self.n_features_in_ if self.axes_ is None else len(self.axes_.components_)

    def fit(self, X: Any, y: object = None) -> Reduction:  # noqa: ARG002
        """Learn deviations, then axes; with the incremental solver in memory for one block."""
        self._validate_params()
        X = self._check(X, reset=True, least=2)
        self.zscore_ = ZScore(prior=self.prior).fit(X)
        self.axes_: PrincipalAxes | None = None
        if self.n_components is not None:
            options = {"solver": self.solver, "random_state": self.random_state}
            self.axes_ = PrincipalAxes(self.n_components, **options)
            self.axes_.fit_standard(X, self.zscore_)
        return self

    def first(self, count: int) -> Reduction:
        """The same with at most so many components; all columns stay where all are kept."""
        if self.axes_ is None:
            return self
        shorter: Reduction = clone(self).set_params(n_components=count)
        shorter.n_features_in_, shorter.zscore_ = self.n_features_in_, self.zscore_
        shorter.axes_ = copy(self.axes_)
        shorter.axes_.components_ = self.axes_.components_[:count]
        return shorter

    def transform(self, X: Any) -> Array:
        """Short vectors of unit length."""
        check_is_fitted(self)
        X = self._check(X, reset=False)
        short = np.empty((len(X), self._n_features_out), X.dtype)
        for rows in blocks(len(X), ROWS):
            short[rows] = self.project(self.zscore_.transform(X[rows]))
        return unit(short)

    def project(self, standard: Array) -> Array:
        """Vectors that were z-scored, on the axes."""
        return standard if self.axes_ is None else self.axes_.transform(standard)
