"""Trials: one method on one collection, fitted, timed on one thread, scored and stored on disk.

A stored trial is not run again, so an interrupted experiment resumes.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from prototag.arrays import Floats
from prototag.engine import single_threaded_blas
from prototag.estimator import TagEstimator
from prototag.evaluation import metrics, thresholds
from prototag.research.datasets import Collection
from prototag.research.registry import Method
from prototag.storage.atomic_write import replacing
from prototag.tagging.reduction import Reduction
from prototag.tagging.tuning import tune

MAX_TUNING_IMAGES = 6_000
Transform = Callable[[Floats], Floats]
Reduced = tuple[Transform | None, Floats]  # the reduction, and the training vectors after it
VERSION = 3  # of the stored record; trials of other versions are run again


@dataclass(frozen=True, eq=False)
class Task:
    """Training and test images with their vectors and tags."""

    name: str
    X: Floats
    Y: sparse.csr_array
    X_test: Floats
    Y_test: sparse.csr_array
    checksum: str

    @classmethod
    def of(cls, collection: Collection) -> Task:
        """Return the task of a collection with vectors."""
        if collection.X is None:
            raise ValueError(
                f"{collection.name} has pictures and no vectors: extract them first "
                "(prototag.FeatureExtractor) and use with_vectors."
            )
        train = collection.train
        test = collection.test
        return cls(
            collection.name,
            collection.X[train],
            sparse.csr_array(collection.Y[train]),
            collection.X[test],
            sparse.csr_array(collection.Y[test]),
            collection.checksum,
        )

    def first(self, n: int, seed: int) -> Task:
        """Return the task with at most n training images, drawn with ``seed``."""
        if n >= len(self.X):
            return self
        rows = np.sort(np.random.default_rng(seed).permutation(len(self.X))[:n])
        checksum = f"{self.checksum}, {n} training images drawn by seed {seed}"
        return Task(self.name, self.X[rows], self.Y[rows], self.X_test, self.Y_test, checksum)


@dataclass(frozen=True, eq=False)
class Trial:
    """The record of measurements, and the scores of the test images."""

    record: dict[str, Any]
    scores: Floats
    threshold: npt.NDArray[np.float64]


class Laboratory:
    """Runner of trials that stores them in a folder.

    Parameters
    ----------
    folder : path
    n_jobs : int
        Threads for fitting; images are always annotated on one thread.
    tuning_seconds : float
        The time limit of each tuning.
    """

    def __init__(
        self, folder: str | Path, *, n_jobs: int = 1, tuning_seconds: float = 300.0
    ) -> None:
        self.folder = Path(folder)
        self.n_jobs = n_jobs
        self.tuning_seconds = tuning_seconds
        self.folder.mkdir(parents=True, exist_ok=True)
        self._reduced: tuple[tuple[str, int], Reduced] | None = None

    def trial(self, method: Method, task: Task, seed: int = 0, **options: Any) -> Trial:
        """Run a trial, or read the stored one; ``options`` override the method's parameters."""
        path = self._path(method, task, seed, options)
        if path.exists():
            return self._read(path)
        trial = self._run(method, task, seed, options)
        with replacing(path) as file:
            np.savez(
                file,
                record=np.array(json.dumps(trial.record)),
                scores=trial.scores,
                threshold=trial.threshold,
            )
        return trial

    def has_trial(self, method: Method, task: Task, seed: int = 0, **options: Any) -> bool:
        """Tell whether a trial is stored."""
        return self._path(method, task, seed, options).exists()

    def _path(self, method: Method, task: Task, seed: int, options: dict[str, Any]) -> Path:
        key = [VERSION, method.name, task.name, task.checksum, task.X.shape, seed, options]
        if method.tuned:
            key.append(self.tuning_seconds)
        digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:16]
        name = "".join(c if c.isalnum() else "-" for c in method.name.lower())
        return self.folder / f"{name}-{digest}.npz"

    def _read(self, path: Path) -> Trial:
        try:
            with np.load(path, allow_pickle=False) as file:
                record = json.loads(str(file["record"]))
                return Trial(record, file["scores"], file["threshold"])
        except (OSError, KeyError, ValueError) as error:
            raise ValueError(
                f"{path} is not a trial ({error}): remove it to run it again."
            ) from error

    def _run(self, method: Method, task: Task, seed: int, options: dict[str, Any]) -> Trial:
        if method.max_images is not None:
            task = task.first(method.max_images, seed)
        started = time.process_time()
        model, transform, vectors = self._fit_best_input(method, task, seed, options)
        seconds_to_fit = time.process_time() - started
        scores, seconds = time_annotation(model, transform, task.X_test)
        threshold = np.broadcast_to(np.asarray(model.threshold_, np.float64), scores.shape[1])
        record = {
            "method": method.name,
            "family": method.family,
            "collection": task.name,
            "checksum": task.checksum,
            "images": [len(task.X), len(task.X_test)],
            "tags": task.Y.shape[1],
            "seed": seed,
            "options": options,
            "vectors": vectors,
            "chosen": _hyperparameters(model),
            **metrics.report(task.Y_test, scores, threshold, Y_train=task.Y),
            "seconds_to_fit": round(seconds_to_fit, 2),
            "threads_to_fit": self.n_jobs,
            "microseconds_to_annotate": round(1e6 * seconds / len(scores), 1),
            "megabytes": round(_model_bytes(model) / 1e6, 3),
        }
        return Trial(record, scores.astype(np.float32), threshold.copy())

    def _fit_best_input(
        self, method: Method, task: Task, seed: int, options: dict[str, Any]
    ) -> tuple[TagEstimator, Transform | None, str]:
        """Fit to the raw vectors and to principal components; keep the better held-out scores.

        ProtoTag takes raw vectors and reduces them itself; baselines get the same choice, except
        those whose entry says otherwise (``compare_raw``).
        """
        inputs = [self._reduce(method, task)]
        if (
            method.components is not None
            and method.compare_raw
            and method.held_out_thresholds
            and not method.tuned
        ):
            inputs.append((None, task.X))
        best: tuple[TagEstimator, Transform | None, str] | None = None
        best_quality = -np.inf
        for transform, x in inputs:
            model = method.build(n_jobs=self.n_jobs, random_state=seed, **options)
            model = self._tune(model, x, task.Y, seed) if method.tuned else model.fit(x, task.Y)
            name = "raw" if transform is None else f"{x.shape[1]} components"
            held_out = getattr(model, "out_of_fold_scores_", None)
            if len(inputs) == 1 or held_out is None:
                return model, transform, name
            quality = thresholds.validation_score(task.Y, held_out, five=True)
            if best is None or quality > best_quality:
                best = model, transform, name
                best_quality = quality
        assert best is not None
        return best

    def _tune(self, model: TagEstimator, x: Floats, Y: sparse.csr_array, seed: int) -> TagEstimator:
        seconds = self.tuning_seconds
        tuned: TagEstimator = tune(
            x, Y, model, seconds=seconds, max_images=MAX_TUNING_IMAGES, random_state=seed
        )
        return tuned

    def _reduce(self, method: Method, task: Task) -> Reduced:
        """Return the reduction of vectors for a method, and the reduced training vectors."""
        if method.components is None:
            return None, task.X
        key = (task.checksum, method.components)
        if self._reduced is None or self._reduced[0] != key:
            reduction = Reduction(method.components, random_state=0).fit(task.X)
            self._reduced = key, (reduction.transform, reduction.transform(task.X))
        return self._reduced[1]


def time_annotation(
    model: TagEstimator, transform: Transform | None, X: Floats
) -> tuple[Floats, float]:
    """Return scores and the processor seconds from raw vectors to scores, on one thread.

    On an idle machine these are also the elapsed seconds.
    """
    _set_one_thread(model)

    def score(rows: Floats) -> Floats:
        return np.asarray(model.decision_function(rows if transform is None else transform(rows)))

    with single_threaded_blas():
        score(X[:64])  # warm-up: caches that are filled at first use
        started = time.process_time()
        scores = score(X)
        return scores, time.process_time() - started


def _set_one_thread(model: Any) -> None:
    """Set one thread for the model and the models inside it."""
    if "n_jobs" in model.get_params():
        model.set_params(n_jobs=1)
    for part in vars(model).values():
        if part is not model and hasattr(part, "get_params"):
            _set_one_thread(part)


def _model_bytes(model: TagEstimator) -> int:
    """Return the size of the arrays of the model file, which annotation needs."""
    return sum(array.nbytes for array in model.to_state()[1].values())


def best_f1(Y: sparse.csr_array, trial: Trial) -> float:
    """Return the F1 of the best common shift of all thresholds, selected on these tags.

    Thresholds are scaled by one factor, or shifted by one summand if a threshold is not positive.
    The difference to the trial's F1 is the cost of selecting thresholds on training images.
    """
    threshold = trial.threshold
    positive = (threshold > 0).all()
    relative = trial.scores / threshold if positive else trial.scores - threshold
    return float(thresholds.best_global_threshold(Y, relative)[1])


def _hyperparameters(model: TagEstimator) -> dict[str, Any]:
    """Return the hyperparameters that tuning or ``fit`` selected, or all fitted plain values."""
    selected = getattr(model, "tuning_", {}).get("chosen") or getattr(model, "choices_", None)
    if not selected:
        selected = getattr(model, "setting_", None) or {
            name.rstrip("_"): value
            for name, value in vars(model).items()
            if name.endswith("_") and name not in ("n_features_in_", "codes_gap_", "n_iter_")
        }
    plain = {name: _plain(value) for name, value in dict(selected).items()}
    return {name: value for name, value in plain.items() if value is not None}


def _plain(value: Any) -> Any:
    """Return a value that JSON can store, or None."""
    value = value.item() if isinstance(value, np.generic) else value
    return value if isinstance(value, bool | int | float | str) else None
