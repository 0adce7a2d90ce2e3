"""Base class of all annotators of vectors: MCDL, the tagger and the baselines.

An annotator is a scikit-learn multilabel classifier: it is trained on an n x t matrix of 0/1,
scores every tag, and applies the tags whose score exceeds a threshold.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_is_fitted, column_or_1d, validate_data

from prototag.arrays import Arrays, Floats, normalize_rows_at_any_scale
from prototag.errors import ModelFileError
from prototag.evaluation import metrics, thresholds
from prototag.events import SharedByClones
from prototag.storage import modelfile

_TAG_NAME_TYPES = {str, int, float, bool}  # that a model file can store


class TagEstimator(SharedByClones, ClassifierMixin, BaseEstimator):
    """Base class of annotators: validation, thresholds and model files.

    A subclass implements ``fit`` (which begins with ``validate_training_data`` and ends with
    ``_fit_threshold``), ``_scores(X)``, and for model files ``_fitted_state`` and ``_restore``. Its
    parameters include ``threshold``: "global" (one value with the best F1 of the means), "per_tag"
    (one for each tag with that tag's best F1), or a number.
    """

    kind: ClassVar[str] = ""  # of a model file
    # In images; thresholds of rarer tags are closer to the global one.
    _threshold_shrinkage: ClassVar[float] = 0.0
    # Parameters that do not affect the result; a model file does not store them.
    _unsaved_parameters: ClassVar[frozenset[str]] = frozenset(
        {"n_jobs", "engine", "random_state", "progress"}
    )

    threshold: str | float
    threshold_: float | npt.NDArray[Any]
    tuning_: dict[str, Any]  # record of prototag.tune, if it selected the parameters

    # -- training ----------------------------------------------------------------------------------

    def validate_training_data(self, X: Any, y: Any) -> tuple[Floats, sparse.csr_array]:
        """Validate X and y; return unit vectors and tags as CSR, and set ``classes_``."""
        X = validate_data(self, X, dtype=[np.float64, np.float32], ensure_min_samples=1)
        Y = self._validate_tags(y)
        if Y.shape[0] != X.shape[0]:
            raise ValueError(
                f"X has {X.shape[0]} images and Y has tags for {Y.shape[0]}: "
                "found input variables with inconsistent numbers of samples."
            )
        return self._vectors(X), Y

    def _validate_tags(self, y: Any) -> sparse.csr_array:
        if y is None:
            raise ValueError(
                f"{type(self).__name__} learns from tags: requires y to be passed, but the target "
                "y is None. Give an n x t matrix of 0/1, or one label for each image."
            )
        self._sparse_tags = sparse.issparse(y)
        names = getattr(y, "columns", None)
        if names is not None and len(set(names)) < len(names):
            repeated = sorted({str(name) for name in names if list(names).count(name) > 1})
            raise ValueError(f"Y has several columns of the tags {repeated}: give unique names.")
        if self._sparse_tags:
            Y = sparse.csr_array(y, copy=True)
            Y.sum_duplicates()  # a repeated entry becomes 2, which is invalid
        else:
            values = np.asarray(y)
            if values.ndim == 1 or (
                values.ndim == 2 and values.shape[1] == 1 and not _is_binary(values)
            ):
                return self._validate_labels(values)
            values = check_array(y, dtype=None, ensure_2d=True, input_name="Y")
            if not _is_binary(values):
                raise ValueError(_not_binary_message(values))
            self._tag_dtype = values.dtype
            Y = sparse.csr_array(values.astype(np.float32))
        if 0 in Y.shape:
            raise ValueError(f"Y has shape {Y.shape}: at least one image and one tag are needed.")
        if Y.nnz and not _is_binary(Y.data):
            raise ValueError(_not_binary_message(Y.data))
        if self._sparse_tags:
            self._tag_dtype = Y.dtype
        Y = Y.astype(np.float32)
        Y.eliminate_zeros()
        self._single_label = False
        self.classes_ = np.arange(Y.shape[1]) if names is None else np.asarray(names, dtype=object)
        return Y

    def _validate_labels(self, y: npt.NDArray[Any]) -> sparse.csr_array:
        """Convert one class per image to an indicator matrix."""
        y = column_or_1d(y, warn=True)
        check_array(y, dtype=None, ensure_2d=False, input_name="y")
        check_classification_targets(y)
        self.classes_, label = np.unique(y, return_inverse=True)
        self._single_label = True
        n = len(y)
        ones = np.ones(n, np.float32)
        return sparse.csr_array((ones, label, np.arange(n + 1)), shape=(n, len(self.classes_)))

    def _fit_threshold(self, Y: sparse.csr_array, scores: Floats) -> None:
        """Select ``threshold_`` on scores by exact search."""
        self.threshold_ = thresholds.choose_threshold(
            self.threshold, Y, scores, shrink=self._threshold_shrinkage
        )

    # -- scoring -----------------------------------------------------------------------------------

    def _validate_vectors(self, X: Any) -> Floats:
        check_is_fitted(self)
        return self._vectors(validate_data(self, X, dtype=[np.float64, np.float32], reset=False))

    def _vectors(self, X: npt.NDArray[Any]) -> Floats:
        """Normalize vectors to unit length; subclasses may override this."""
        return normalize_rows_at_any_scale(X)

    def _scores(self, X: Floats) -> Floats:
        raise NotImplementedError

    def decision_function(self, X: Any) -> npt.NDArray[Any]:
        """Compute scores of all tags, n x t; of two classes one score, positive for the second."""
        scores = self._scores(self._validate_vectors(X))
        if self._single_label and len(self.classes_) == 2:
            return np.asarray(scores[:, 1] - scores[:, 0])
        return scores

    def predict(self, X: Any, *, count: int | None = None) -> Any:
        """Predict tags as 0/1, n x t: above ``threshold_``, or the ``count`` best of each image.

        The result is CSR if y was sparse in ``fit``. With one class per image, the class with the
        largest score is predicted.
        """
        scores = self._scores(self._validate_vectors(X))
        if self._single_label:
            if count is not None:
                raise ValueError(
                    f"count={count}: the model was fitted with one class per image and predicts "
                    "one. Fit an n x t matrix of 0/1 to predict several tags."
                )
            if len(self.classes_) == 2:  # consistent with decision_function for ties
                return self.classes_[(scores[:, 1] - scores[:, 0] > 0).astype(np.intp)]
            return self.classes_[scores.argmax(axis=1)]
        tags = (
            thresholds.assign_tags(scores, threshold=self.threshold_)
            if count is None
            else thresholds.assign_tags(scores, count=count)
        )
        tags = tags.astype(self._tag_dtype)
        return tags if self._sparse_tags else tags.toarray()

    def _columns_to_explain(
        self, scores: Floats, names: npt.ArrayLike | None
    ) -> list[npt.NDArray[np.intp]]:
        """Return the columns to explain for each image: the named tags, or the predicted ones."""
        if names is not None:
            column_of = {name: column for column, name in enumerate(self.classes_.tolist())}
            requested = np.atleast_1d(names).tolist()
            unknown = [name for name in requested if name not in column_of]
            if unknown:
                raise ValueError(f"unknown tags {unknown!r}: classes_ lists the trained tags.")
            return [np.array([column_of[name] for name in requested], np.intp)] * len(scores)
        if self._single_label:
            return [np.array([column]) for column in scores.argmax(axis=1)]
        return [np.flatnonzero(row) for row in scores > self.threshold_]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Compute F1 of mean precision and mean recall per tag; of single labels the accuracy."""
        check_is_fitted(self)
        if self._single_label:
            return float(super().score(X, y, sample_weight=sample_weight))
        if sample_weight is not None:
            raise ValueError("sample_weight is not supported for tags: pass None.")
        return metrics.f1_of_means(y if sparse.issparse(y) else np.asarray(y), self.predict(X))

    def fit(self, X: Any, y: Any) -> Self:
        raise NotImplementedError

    # -- model files -------------------------------------------------------------------------------

    def to_state(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """Convert the estimator to plain values and arrays for a model file."""
        check_is_fitted(self)
        config, arrays = self._tags_state()
        fitted, fitted_arrays = self._fitted_state()
        config["recipe"] = self.result_parameters()
        config["n_features"] = int(self.n_features_in_)
        return config | fitted, arrays | fitted_arrays

    @classmethod
    def from_state(cls, config: dict[str, Any], arrays: Arrays) -> Self:
        """Restore the estimator from the result of :meth:`to_state`."""
        try:
            model = cls(**config["recipe"])
            model._validate_params()
            model._restore_tags(config, arrays, int(config["n_features"]))
            model._restore(config, arrays)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            if isinstance(error, ModelFileError):
                raise
            raise ModelFileError(f"the header of the model is incomplete: {error}") from error
        return model

    def save(self, path: str | Path) -> None:
        """Write a model file atomically (docs/reference/model-file.md)."""
        config, arrays = self.to_state()
        modelfile.write(
            path, {"kind": self.kind, **config, "provenance": modelfile.provenance()}, arrays
        )

    def result_parameters(self) -> dict[str, Any]:
        """Return the parameters that determine the result."""
        parameters = self.get_params(deep=False)
        return {
            name: value
            for name, value in parameters.items()
            if name not in self._unsaved_parameters
        }

    def _fitted_state(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """Return the fitted state of a subclass: header values and arrays."""
        raise NotImplementedError

    def _restore(self, config: dict[str, Any], arrays: Arrays) -> None:
        """Restore ``_fitted_state``; tags and thresholds are restored before."""
        raise NotImplementedError

    def _tags_state(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """Return vocabulary and thresholds for a model file."""
        names = self.classes_.tolist()
        kinds = {type(name) for name in names}
        if len(kinds) != 1 or not kinds <= _TAG_NAME_TYPES:
            raise ValueError(
                f"tag names have the types {sorted(kind.__name__ for kind in kinds)}: a model file "
                "stores names that are all strings or all numbers."
            )
        config = {
            "vocabulary": names,
            "labels": self._single_label,
            "sparse_tags": not self._single_label and self._sparse_tags,
            "tag_dtype": "int64" if self._single_label else np.dtype(self._tag_dtype).str,
            "features": list(getattr(self, "feature_names_in_", [])),
            "per_tag": bool(np.ndim(self.threshold_)),
        }
        if hasattr(self, "tuning_"):
            config["tuning"] = self.tuning_
        return config, {"threshold": np.atleast_1d(np.asarray(self.threshold_, np.float64))}

    def _restore_tags(self, config: dict[str, Any], arrays: Arrays, m: int) -> None:
        names = config["vocabulary"]
        if not isinstance(names, list) or not 0 < len(names) == len(set(names)):
            raise ModelFileError("The vocabulary must be a list of unique tags.")
        t = len(names)
        if len({type(name) for name in names}) != 1 or type(names[0]) not in _TAG_NAME_TYPES:
            raise ModelFileError("The vocabulary must be all strings or all numbers.")
        self.classes_ = np.array(names, object if isinstance(names[0], str) else None)
        self._single_label = bool(config["labels"])
        self._sparse_tags = bool(config["sparse_tags"])
        self._tag_dtype = np.dtype(str(config["tag_dtype"]))
        if self._tag_dtype.kind not in "biuf":
            raise ModelFileError(f"Tags cannot have the dtype {self._tag_dtype}.")
        features = config["features"]
        if not isinstance(features, list) or not all(isinstance(name, str) for name in features):
            raise ModelFileError("The names of the features must be a list of strings.")
        if len(features) not in (0, m):
            raise ModelFileError(f"{len(features)} names for {m} features.")
        if features:
            self.feature_names_in_ = np.array(features, object)
        self.n_features_in_ = m
        if "tuning" in config:
            self.tuning_ = dict(config["tuning"])
        per_tag = bool(config["per_tag"])
        threshold = modelfile.expect_array(arrays, "threshold", (t if per_tag else 1,), "f8")
        self.threshold_ = threshold if per_tag else float(threshold[0])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        tags.classifier_tags.multi_label = True
        return tags


def _is_binary(values: npt.NDArray[Any]) -> bool:
    if values.dtype.kind == "b":
        return True
    return values.dtype.kind in "iuf" and bool(((values == 0) | (values == 1)).all())


def _not_binary_message(values: npt.NDArray[Any]) -> str:
    bad = values.ravel()
    if bad.dtype.kind in "iuf":
        bad = bad[(bad != 0) & (bad != 1)]
    return (
        f"Y holds {bad[0]!r}: tags must be 0 (absent) or 1 (present). Unknown label type: for one "
        "label per image give a one-dimensional y."
    )
