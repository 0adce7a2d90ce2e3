"""Other ways from vectors to scores, all with scores of left-out training images.

Every rival gets the same protocol: it learns from the training images, its threshold is the best
for their out-of-fold scores, and its settings are fixed or chosen by those scores.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from prototag import MCDL, metrics, parallel, recommended, regression, tags
from prototag.reduction import Reduction


class Learned(NamedTuple):
    out_of_fold: np.ndarray | None  # n x t; None where the method has none
    threshold: Any
    score: Callable[[np.ndarray], np.ndarray]
    n_bytes: int
    notes: dict[str, Any]


def ours(X: np.ndarray, Y: sparse.csr_array, *, n_jobs: int, **options: Any) -> Learned:
    model = recommended(n_jobs=n_jobs, **options).fit(X, Y)
    scores = model.out_of_fold_scores_
    model.set_params(n_jobs=1)
    model.mcdl_.set_params(n_jobs=1)
    size = sum(array.nbytes for array in model.to_state()[1].values())
    return Learned(scores, model.threshold_, model.decision_function, size, dict(model.choices_))


def kernel_ridge(X: np.ndarray, Y: sparse.csr_array, *, n_jobs: int) -> Learned:
    """RBF on 400 components, exact; the settings METHOD found best."""
    reduction = Reduction(400).fit(X)
    x = reduction.transform(X)
    model = regression.kernel_ridge(x, Y.toarray(), gamma=1.5, strength=0.3, n_jobs=n_jobs)

    def score(new: np.ndarray) -> np.ndarray:
        block = lambda part: (  # noqa: E731
            regression.kernel(reduction.transform(new[part]), x, 1.5) @ model.dual
        )
        return np.concatenate(parallel.map_blocks(block, len(new), size=256))

    return _global(Y, model.left_out, score, x.nbytes + model.dual.nbytes)


def ridge(X: np.ndarray, Y: sparse.csr_array, *, n_jobs: int) -> Learned:  # noqa: ARG001
    """One-vs-rest ridge on all z-scored columns, its strength by left-out images."""
    zscore = Reduction(1).fit(X).zscore_
    T = Y.toarray()
    model = regression.ridge(
        zscore.transform(X),
        T,
        (0.02, 0.07, 0.2, 0.7),
        quality=lambda scores: metrics.mean_average_precision(T, scores),
    )

    def score(new: np.ndarray) -> np.ndarray:
        return zscore.transform(new) @ model.coef + model.intercept

    return _global(Y, model.left_out, score, model.coef.nbytes, strength=model.strength)


def neighbours(X: np.ndarray, Y: sparse.csr_array, *, n_jobs: int, k: int = 10) -> Learned:
    """The share of the k nearest images that have the tag."""
    reduction = Reduction(200).fit(X)
    x = reduction.transform(X)

    def nearest(new: np.ndarray, own: bool) -> np.ndarray:
        def block(part: slice) -> np.ndarray:
            near = new[part] @ x.T
            if own:
                near[np.arange(len(near)), np.arange(part.start, part.stop)] = -np.inf
            found = np.argpartition(-near, k, axis=1)[:, :k]
            rows = np.arange(0, found.size + 1, k)
            votes = np.full(found.size, 1 / k, np.float32)
            code = sparse.csr_array((votes, found.ravel(), rows), shape=near.shape)
            return (code @ Y).toarray()

        return np.concatenate(parallel.map_blocks(block, len(new), size=256, n_jobs=n_jobs))

    left_out = nearest(x, own=True)
    return _global(
        Y, left_out, lambda new: nearest(reduction.transform(new), own=False), x.nbytes, k=k
    )


def published(X: np.ndarray, Y: sparse.csr_array, *, n_jobs: int, k: int = 4000) -> Learned:
    """MCDL as its authors' code runs it; its threshold comes from its own training images."""
    reduction = Reduction(200).fit(X)
    model = MCDL.published(min(k, len(X)), max_iter=10, n_jobs=n_jobs, random_state=0)
    model.fit(reduction.transform(X), Y)
    size = sum(array.nbytes for array in model.to_state()[1].values())
    model.set_params(n_jobs=1)

    def score(new: np.ndarray) -> np.ndarray:
        return model.decision_function(reduction.transform(new))

    return Learned(None, model.threshold_, score, size, {"n_prototypes": k})


def _global(
    Y: sparse.csr_array,
    left_out: np.ndarray,
    score: Callable[[np.ndarray], np.ndarray],
    n_bytes: int,
    **notes: Any,
) -> Learned:
    threshold, f1 = tags.best_global_threshold(Y, left_out)
    return Learned(left_out, threshold, score, n_bytes, {"out_of_fold_f1": f1, **notes})


ANNOTATORS: dict[str, Callable[..., Learned]] = {
    "recommended": ours,
    "kernel ridge": kernel_ridge,
    "ridge": ridge,
    "10 neighbours": neighbours,
    "published": published,
}
