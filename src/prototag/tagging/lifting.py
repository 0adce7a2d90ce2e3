"""Lifting: reduced vectors with linear predictions of the tags appended.

This is the learned transformation that the paper announces as future work. It couples codes with
tags for new images, too.
"""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.base import ClassNamePrefixFeaturesOutMixin
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_array, check_consistent_length, check_is_fitted

from prototag.arrays import Array, normalize_rows
from prototag.evaluation import ranking
from prototag.evaluation.leave_one_out import correct_loo_bias
from prototag.tagging.loo_ridge import ridge
from prototag.tagging.reduction import Reduction, Transformer

# Penalties of the regression, in units of n. On IAPRTC-12 0.07 to 0.2 are best.
STRENGTHS = (0.02, 0.07, 0.2, 0.7, 2.0, 7.0)


class Lifting(ClassNamePrefixFeaturesOutMixin, Transformer):
    """``unit([x, weight * p / scale])`` with x the reduced vector and p the predicted tags.

    The prediction is a ridge regression of the z-scored vector to tags whitened by frequency,
    ``(y - f) / sqrt(f)``; its strength is selected by the ranking of leave-one-out predictions,
    and ``scale`` is their mean length. ``fit_transform`` appends leave-one-out predictions, so that
    the vector of a training image does not depend on its own tags.

    Parameters
    ----------
    n_components : int, default=200
        Length of x, see :class:`prototag.tagging.reduction.Reduction`.
    weight : float, default=1.0
        Length of the prediction relative to x. 0 appends zeros.
    width : int, optional
        Principal axes of the lifted vectors to keep, which saves time in coding; None keeps all.
    random_state : int, generator or None
        Seed of the reduction.

    Attributes
    ----------
    reduction_ : Reduction
    coef_ : array, columns x tags
    intercept_ : array, tags
        Both divided by ``scale``.
    axes_ : array, lifted columns x width, or None
    strength_ : float
        Penalty of the regression, in units of the number of images.
    scale_ : float
    loo_predictions_ : array, images x tags
        Leave-one-out predictions of the training images, divided by ``scale``. Model files contain
        neither ``scale_`` nor these.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "weight": [Interval(Real, 0, None, closed="left")],
        "width": [Interval(Integral, 1, None, closed="left"), None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_components: int = 200,
        *,
        weight: float = 1.0,
        width: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.weight = weight
        self.width = width
        self.random_state = random_state

    @property
    def n_features_out(self) -> int:
        """Columns of lifted vectors."""
        if self.axes_ is not None:
            return int(self.axes_.shape[1])
        return int(self.reduction_.n_features_out + len(self.intercept_))

    _n_features_out = n_features_out  # which scikit-learn reads

    def fit(self, X: Any, y: Any) -> Lifting:
        """Fit the reduction, and the regression to the tags y (n x t, 0/1)."""
        self.fit_transform(X, y)
        return self

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Array:  # noqa: ARG002
        """Fit, and lift the training images by leave-one-out predictions."""
        self._validate_params()
        X = self._check(X, reset=True, least=2)
        Y = _dense(y)
        check_consistent_length(X, Y)
        reduction = Reduction(self.n_components, random_state=self.random_state).fit(X)
        lifted = self.learn(X, Y, reduction)
        return lifted if self.width is None else self.compress(lifted, self.width)

    def learn(self, X: Array, Y: Array, reduction: Reduction) -> Array:
        """Fit to validated vectors and a fitted reduction; return the lifted training images."""
        self.n_features_in_ = X.shape[1]
        self.reduction_ = reduction
        frequency = np.maximum(Y.mean(axis=0), 1 / len(Y))
        standard = reduction.zscore_.transform(X).astype(np.float32)
        root = np.sqrt(frequency)

        # Squared error depends on the noise of rare tags, and would select too large a penalty.
        def ranking_quality(predicted: Array) -> float:
            scores = correct_loo_bias(Y > 0.5, predicted * root + frequency)
            return ranking.mean_average_precision(Y > 0.5, scores)

        model = ridge(standard, (Y - frequency) / root, STRENGTHS, quality=ranking_quality)
        self.scale_ = scale = float(np.linalg.norm(model.loo_predictions, axis=1).mean()) or 1.0
        self.coef_ = model.coef / scale
        self.intercept_ = model.intercept / scale
        self.loo_predictions_ = model.loo_predictions / np.float32(scale)
        self.strength_ = model.strength
        self.axes_: Array | None = None
        return self.join(reduction.transform(X), self.loo_predictions_)

    def transform(self, X: Any) -> Array:
        """Lift new images."""
        check_is_fitted(self)
        X = self._check(X, reset=False)
        standard = self.reduction_.zscore_.transform(X)
        reduced = normalize_rows(self.reduction_.project(standard))
        predicted = standard @ self.coef_.astype(X.dtype) + self.intercept_.astype(X.dtype)
        lifted = self.join(reduced, predicted)
        return lifted if self.axes_ is None else normalize_rows(lifted @ self.axes_.astype(X.dtype))

    def compress(self, lifted: Array, width: int) -> Array:
        """Fit principal axes to lifted vectors, and return the vectors projected on them.

        The axes are not centered, because codes depend on inner products.
        """
        from scipy.linalg import eigh

        columns = lifted.shape[1]
        width = min(width, columns)
        gram = (lifted.T @ lifted).astype(np.float64)
        axes = eigh(gram, subset_by_index=[columns - width, columns - 1])[1][:, ::-1]
        self.axes_ = axes
        return normalize_rows(lifted @ axes.astype(lifted.dtype))

    def reweigh(self, lifted: Array, weight: float) -> Array:
        """Return lifted vectors with another ``weight``."""
        if self.weight == 0 or self.axes_ is not None:
            raise ValueError(
                f"weight={self.weight} and width={self.width}: these vectors do not hold the "
                "predictions separately. Lift with a weight above 0 and no width first."
            )
        x = self.reduction_.n_features_out
        lifted = lifted.copy()
        lifted[:, x:] *= lifted.dtype.type(weight / self.weight)
        return normalize_rows(lifted)

    def join(self, reduced: Array, predicted: Array) -> Array:
        """Append weighted predictions to reduced vectors."""
        lifted = np.hstack(
            [reduced, predicted.astype(reduced.dtype) * reduced.dtype.type(self.weight)]
        )
        return normalize_rows(lifted)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        return tags


def _dense(y: Any) -> Array:
    """Return tags as n x t in float32; a vector becomes one column."""
    if y is None:
        raise ValueError(
            "Lifting is fitted to tags: requires y to be passed, but the target y is None."
        )
    is_sparse = sparse.issparse(y)  # a variable, so that type checkers do not narrow y
    if is_sparse:
        return np.asarray(y.toarray(), np.float32)
    values = check_array(y, dtype=np.float32, ensure_2d=False, input_name="y")
    return np.asarray(values[:, None] if values.ndim == 1 else values)
