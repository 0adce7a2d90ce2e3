"""One annotator on one collection: fitted, timed on one thread, scored, and kept on disk.

A trial that is on disk is not run again: an interrupted experiment goes on where it was.
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

TUNING_IMAGES = 6_000
Shortened = tuple[Callable[[Floats], Floats] | None, Floats]  # how, and training vectors
VERSION = 2  # of what a trial measures: a change makes old trials stale


@dataclass(frozen=True, eq=False)
class Task:
    """Vectors and tags to learn from and to be scored on."""

    name: str
    X: Floats
    Y: sparse.csr_array
    X_test: Floats
    Y_test: sparse.csr_array
    checksum: str

    @classmethod
    def of(cls, collection: Collection) -> Task:
        """Of a collection that has vectors."""
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
        """The same with at most n training images, drawn by ``seed``."""
        if n >= len(self.X):
            return self
        rows = np.sort(np.random.default_rng(seed).permutation(len(self.X))[:n])
        drawn = f"{self.checksum}, {n} training images drawn by seed {seed}"
        return Task(self.name, self.X[rows], self.Y[rows], self.X_test, self.Y_test, drawn)


@dataclass(frozen=True, eq=False)
class Trial:
    """What was measured, and the scores of the test images."""

    record: dict[str, Any]
    scores: Floats
    threshold: npt.NDArray[np.float64]


class Laboratory:
    """Runs trials, and remembers them in a folder.

    Parameters
    ----------
    folder : path
    n_jobs : int
        Threads to fit with; images are always annotated on one.
    tuning_seconds : float
        For each tuning.
    """

    def __init__(
        self, folder: str | Path, *, n_jobs: int = 1, tuning_seconds: float = 300.0
    ) -> None:
        self.folder = Path(folder)
        self.n_jobs = n_jobs
        self.tuning_seconds = tuning_seconds
        self.folder.mkdir(parents=True, exist_ok=True)
        self._reduced: tuple[tuple[str, int], Shortened] | None = None

    def trial(self, method: Method, task: Task, seed: int = 0, **options: Any) -> Trial:
        """Run one, or read what an earlier run has kept; ``options`` override parameters."""
        path = self._path(method, task, seed, options)
        if path.exists():
            return self._read(path)
        found = self._run(method, task, seed, options)
        with replacing(path) as file:
            np.savez(
                file,
                record=np.array(json.dumps(found.record)),
                scores=found.scores,
                threshold=found.threshold,
            )
        return found

    def _path(self, method: Method, task: Task, seed: int, options: dict[str, Any]) -> Path:
        about = [VERSION, method.name, task.name, task.checksum, task.X.shape, seed, options]
        if method.tuned:
            about.append(self.tuning_seconds)
        digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:16]
        words = "".join(c if c.isalnum() else "-" for c in method.name.lower())
        return self.folder / f"{words}-{digest}.npz"

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
        began = time.process_time()
        model, shorten, vectors = self._best(method, task, seed, options)
        fitted = time.process_time() - began
        scores, seconds = time_annotation(model, shorten, task.X_test)
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
            "chosen": _chosen(model),
            **metrics.report(task.Y_test, scores, threshold, Y_train=task.Y),
            "seconds_to_fit": round(fitted, 2),
            "threads_to_fit": self.n_jobs,
            "microseconds_to_annotate": round(1e6 * seconds / len(scores), 1),
            "megabytes": round(_bytes(model) / 1e6, 3),
        }
        return Trial(record, scores.astype(np.float32), threshold.copy())

    def _best(
        self, method: Method, task: Task, seed: int, options: dict[str, Any]
    ) -> tuple[TagEstimator, Callable[[Floats], Floats] | None, str]:
        """Fitted to the vectors as they are or to their components, whichever suits it better.

        Ours takes them as they are and reduces them itself; a rival is to have no less. It keeps
        what annotates left-out training images better.
        """
        both = method.components is not None and method.held_out_thresholds and not method.tuned
        forms = [method, None] if both else [method]
        found = []
        for form in forms:
            shorten, x = (None, task.X) if form is None else self._vectors(form, task)
            model = method.build(n_jobs=self.n_jobs, random_state=seed, **options)
            model = self._tune(model, x, task.Y, seed) if method.tuned else model.fit(x, task.Y)
            form_name = "raw" if shorten is None else f"{x.shape[1]} components"
            left_out = getattr(model, "out_of_fold_scores_", None)
            if len(forms) == 1 or left_out is None:
                return model, shorten, form_name
            value = thresholds.validation_score(task.Y, left_out, five=True)
            found.append((value, model, shorten, form_name))
        return max(found, key=lambda one: one[0])[1:]

    def _tune(self, model: TagEstimator, x: Floats, Y: sparse.csr_array, seed: int) -> TagEstimator:
        seconds = self.tuning_seconds
        tuned: TagEstimator = tune(
            x, Y, model, seconds=seconds, max_images=TUNING_IMAGES, random_state=seed
        )
        return tuned

    def _vectors(self, method: Method, task: Task) -> Shortened:
        """How vectors are shortened for a method, and those of the training images."""
        if method.components is None:
            return None, task.X
        key = (task.checksum, method.components)
        if self._reduced is None or self._reduced[0] != key:
            reduction = Reduction(method.components, random_state=0).fit(task.X)
            self._reduced = key, (reduction.transform, reduction.transform(task.X))
        return self._reduced[1]


def time_annotation(
    model: TagEstimator, shorten: Callable[[Floats], Floats] | None, X: Floats
) -> tuple[Floats, float]:
    """Scores, and the seconds of one processor that they take, raw vectors to scores.

    On one thread these are the seconds on the clock of a machine that does nothing else.
    """
    _single(model)

    def score(rows: Floats) -> Floats:
        return np.asarray(model.decision_function(rows if shorten is None else shorten(rows)))

    with single_threaded_blas():
        score(X[:64])  # what is prepared at first use
        began = time.process_time()
        scores = score(X)
        return scores, time.process_time() - began


def _single(model: Any) -> None:
    """One thread for the model and the models that it is made of."""
    if "n_jobs" in model.get_params():
        model.set_params(n_jobs=1)
    for part in vars(model).values():
        if part is not model and hasattr(part, "get_params"):
            _single(part)


def _bytes(model: TagEstimator) -> int:
    """What annotating needs: the arrays of a model file."""
    return sum(array.nbytes for array in model.to_state()[1].values())


def best_f1(Y: sparse.csr_array, trial: Trial) -> float:
    """F1 with the best of all thresholds of the chosen form, moved together to suit these tags.

    By a factor, or by a summand where a threshold is not positive: what choosing thresholds on
    training images costs.
    """
    cut = trial.threshold
    moved = trial.scores / cut if (cut > 0).all() else trial.scores - cut
    return float(thresholds.best_global_threshold(Y, moved)[1])


def _chosen(model: TagEstimator) -> dict[str, Any]:
    """What tuning or fit chose: its choices, or every plain value that fit left behind."""
    found = getattr(model, "tuning_", {}).get("chosen") or getattr(model, "choices_", None)
    if not found:
        found = getattr(model, "setting_", None) or {
            name.rstrip("_"): value
            for name, value in vars(model).items()
            if name.endswith("_") and name not in ("n_features_in_", "codes_gap_", "n_iter_")
        }
    return {name: _plain(value) for name, value in dict(found).items() if _plain(value) is not None}


def _plain(value: Any) -> Any:
    """A value that JSON can hold; None for others."""
    value = value.item() if isinstance(value, np.generic) else value
    return value if isinstance(value, bool | int | float | str) else None
