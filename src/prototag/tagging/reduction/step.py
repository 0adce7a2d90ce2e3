"""What the transformers share: checked input in float32 or float64, and a state to store."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

ROWS = 4096  # in one block
State = tuple[dict[str, Any], dict[str, np.ndarray]]


class Step(TransformerMixin, BaseEstimator):
    """A transformer whose fitted arrays go into a model file."""

    _stored: ClassVar[tuple[str, ...]] = ()  # names of the fitted arrays
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {}

    def _check(self, X: Any, *, reset: bool, least: int = 1) -> np.ndarray:
        return validate_data(
            self, X, reset=reset, dtype=[np.float64, np.float32], ensure_min_samples=least
        )

    def to_state(self) -> State:
        """Parameters and fitted arrays, for a model file."""
        check_is_fitted(self)
        parameters = self.get_params(deep=False)
        if not isinstance(parameters.get("random_state"), int | None):
            parameters["random_state"] = None  # a generator's place in its stream is not kept
        config = {"parameters": parameters, "n_features_in": int(self.n_features_in_)}
        return config, {name: np.asarray(getattr(self, name)) for name in self._stored}

    @classmethod
    def from_state(cls, config: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
        """The fitted transformer that :meth:`to_state` described."""
        step = cls(**config["parameters"])
        step.n_features_in_ = config["n_features_in"]
        for name in cls._stored:
            setattr(step, name, arrays[name] if arrays[name].ndim else arrays[name].item())
        return step

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
