"""What every annotator of vectors shares, MCDL and the baselines alike.

An annotator is a scikit-learn classifier whose targets are tags: it learns from an n x t matrix of
0/1, scores every tag, and gives the tags whose score exceeds a threshold. It can be saved to a
model file and loaded again.
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

_TAG_NAME_TYPES = {str, int, float, bool}  # what tags may be called in a model file


class TagEstimator(SharedByClones, ClassifierMixin, BaseEstimator):
    """Base of the annotators: validation, thresholds, model files; a subclass learns and scores.

    A subclass implements ``fit`` (which begins with ``validate_training_data`` and ends with
    ``_fit_threshold``), ``_scores(X)``, and for model files ``_fitted_state`` and ``_restore``. Its
    parameters include ``threshold``: "global" (one value with the best F1 of the means), "per_tag"
    (one for each tag with that tag's best F1), or a number.
    """

    kind: ClassVar[str] = ""  # of a model file
    _shrink: ClassVar[float] = 0.0  # images: thresholds of rarer tags are nearer to the global one
    # Parameters that do not decide the result, and are not kept in a model file.
    _not_kept: ClassVar[frozenset[str]] = frozenset(
        {"n_jobs", "engine", "random_state", "progress"}
    )

    threshold: str | float
    threshold_: float | npt.NDArray[Any]
    tuning_: dict[str, Any]  # how the parameters were chosen, if prototag.tune chose them

    # -- learning ----------------------------------------------------------------------------------

    def validate_training_data(self, X: Any, y: Any) -> tuple[Floats, sparse.csr_array]:
        """Vectors at unit length and tags as CSR; remembers what the tags are called."""
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
            twice = sorted({str(name) for name in names if list(names).count(name) > 1})
            raise ValueError(f"Y names the tags {twice} more than once: give each its own name.")
        if self._sparse_tags:
            Y = sparse.csr_array(y, copy=True)
            Y.sum_duplicates()  # an entry given twice is a 2, and refused as such
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
        self._labels = False
        self.classes_ = np.arange(Y.shape[1]) if names is None else np.asarray(names, dtype=object)
        return Y

    def _validate_labels(self, y: npt.NDArray[Any]) -> sparse.csr_array:
        """One label for each image: as many tags as labels, exactly one of them present."""
        y = column_or_1d(y, warn=True)
        check_array(y, dtype=None, ensure_2d=False, input_name="y")
        check_classification_targets(y)
        self.classes_, label = np.unique(y, return_inverse=True)
        self._labels = True
        n = len(y)
        ones = np.ones(n, np.float32)
        return sparse.csr_array((ones, label, np.arange(n + 1)), shape=(n, len(self.classes_)))

    def _fit_threshold(self, Y: sparse.csr_array, scores: Floats) -> None:
        """Choose ``threshold_`` from scores by exact search."""
        self.threshold_ = thresholds.choose_threshold(
            self.threshold, Y, scores, shrink=self._shrink
        )

    # -- using -------------------------------------------------------------------------------------

    def _validate_vectors(self, X: Any) -> Floats:
        check_is_fitted(self)
        return self._vectors(validate_data(self, X, dtype=[np.float64, np.float32], reset=False))

    def _vectors(self, X: npt.NDArray[Any]) -> Floats:
        """Vectors as the annotator wants them: at unit length, unless it says otherwise."""
        return normalize_rows_at_any_scale(X)

    def _scores(self, X: Floats) -> Floats:
        raise NotImplementedError

    def decision_function(self, X: Any) -> npt.NDArray[Any]:
        """Scores of all tags, n x t; for two labels one column, positive for the second."""
        scores = self._scores(self._validate_vectors(X))
        if self._labels and len(self.classes_) == 2:
            return np.asarray(scores[:, 1] - scores[:, 0])
        return scores

    def predict(self, X: Any, *, count: int | None = None) -> Any:
        """Tags as 0/1, n x t: those above ``threshold_``, or the ``count`` best of each image.

        CSR if the tags were given as a sparse matrix. For labels the one of the largest score.
        """
        scores = self._scores(self._validate_vectors(X))
        if self._labels:
            if count is not None:
                raise ValueError(
                    f"count={count}: fitted with one label for each image, so each is given one. "
                    "Fit an n x t matrix of 0/1 to give several tags."
                )
            if len(self.classes_) == 2:  # as decision_function says, also where both are equal
                return self.classes_[(scores[:, 1] - scores[:, 0] > 0).astype(np.intp)]
            return self.classes_[scores.argmax(axis=1)]
        chosen = (
            thresholds.assign_tags(scores, threshold=self.threshold_)
            if count is None
            else thresholds.assign_tags(scores, count=count)
        )
        chosen = chosen.astype(self._tag_dtype)
        return chosen if self._sparse_tags else chosen.toarray()

    def _explained(
        self, scores: Floats, wanted: npt.ArrayLike | None
    ) -> list[npt.NDArray[np.intp]]:
        """Columns of the tags to explain for each image: those named, or those it is given."""
        if wanted is not None:
            known = {name: column for column, name in enumerate(self.classes_.tolist())}
            names = np.atleast_1d(wanted).tolist()
            unknown = [name for name in names if name not in known]
            if unknown:
                raise ValueError(f"unknown tags {unknown!r}: classes_ lists the tags learned.")
            return [np.array([known[name] for name in names], np.intp)] * len(scores)
        if self._labels:
            return [np.array([column]) for column in scores.argmax(axis=1)]
        return [np.flatnonzero(row) for row in scores > self.threshold_]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """F1 of mean per-tag precision and mean per-tag recall; for labels the accuracy."""
        check_is_fitted(self)
        if self._labels:
            return float(super().score(X, y, sample_weight=sample_weight))
        if sample_weight is not None:
            raise ValueError("sample_weight is not supported for tags: pass None.")
        return metrics.f1_of_means(y if sparse.issparse(y) else np.asarray(y), self.predict(X))

    def fit(self, X: Any, y: Any) -> Self:
        raise NotImplementedError

    # -- on disk -----------------------------------------------------------------------------------

    def to_state(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """What a model file keeps: a header of plain values, and arrays."""
        check_is_fitted(self)
        config, arrays = self._tags_state()
        fitted, kept = self._fitted_state()
        config["recipe"] = self._recipe()
        config["n_features"] = int(self.n_features_in_)
        return config | fitted, arrays | kept

    @classmethod
    def from_state(cls, config: dict[str, Any], arrays: Arrays) -> Self:
        """The estimator that :meth:`to_state` described."""
        try:
            model = cls(**config["recipe"])
            model._validate_params()
            model._restore_tags(config, arrays, int(config["n_features"]))
            model._restore(config, arrays)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            if isinstance(error, ModelFileError):
                raise
            raise ModelFileError(f"the model's description is not complete: {error}") from error
        return model

    def save(self, path: str | Path) -> None:
        """Write the model to one file, atomically; see docs/reference/model-file.md."""
        config, arrays = self.to_state()
        modelfile.write(
            path, {"kind": self.kind, **config, "provenance": modelfile.provenance()}, arrays
        )

    def _recipe(self) -> dict[str, Any]:
        """The parameters that decide the result."""
        given = self.get_params(deep=False)
        return {name: value for name, value in given.items() if name not in self._not_kept}

    def _fitted_state(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """What a subclass has learned: plain values for the header, and arrays."""
        raise NotImplementedError

    def _restore(self, config: dict[str, Any], arrays: Arrays) -> None:
        """Take back what ``_fitted_state`` gave; tags and thresholds are there already."""
        raise NotImplementedError

    def _tags_state(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """Vocabulary and thresholds, for a model file."""
        names = self.classes_.tolist()
        kinds = {type(name) for name in names}
        if len(kinds) != 1 or not kinds <= _TAG_NAME_TYPES:
            raise ValueError(
                f"tags are named by {sorted(kind.__name__ for kind in kinds)}: a model file keeps "
                "names that are all strings or all numbers."
            )
        config = {
            "vocabulary": names,
            "labels": self._labels,
            "sparse_tags": not self._labels and self._sparse_tags,
            "tag_dtype": "int64" if self._labels else np.dtype(self._tag_dtype).str,
            "features": list(getattr(self, "feature_names_in_", [])),
            "per_tag": bool(np.ndim(self.threshold_)),
        }
        if hasattr(self, "tuning_"):
            config["tuning"] = self.tuning_
        return config, {"threshold": np.atleast_1d(np.asarray(self.threshold_, np.float64))}

    def _restore_tags(self, config: dict[str, Any], arrays: Arrays, m: int) -> None:
        names = config["vocabulary"]
        if not isinstance(names, list) or not 0 < len(names) == len(set(names)):
            raise ModelFileError("The vocabulary does not name different tags.")
        t = len(names)
        if len({type(name) for name in names}) != 1 or type(names[0]) not in _TAG_NAME_TYPES:
            raise ModelFileError("The vocabulary must be all strings or all numbers.")
        self.classes_ = np.array(names, object if isinstance(names[0], str) else None)
        self._labels = bool(config["labels"])
        self._sparse_tags = bool(config["sparse_tags"])
        self._tag_dtype = np.dtype(str(config["tag_dtype"]))
        if self._tag_dtype.kind not in "biuf":
            raise ModelFileError(f"tags of dtype {self._tag_dtype} have no meaning here.")
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
        answer = super().__sklearn_tags__()
        answer.target_tags.required = True
        answer.target_tags.multi_output = True
        answer.classifier_tags.multi_label = True
        return answer


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
