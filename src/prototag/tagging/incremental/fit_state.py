"""Fit state: the parts of a fit that incremental updates need, and their form in a file."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse

from prototag.arrays import Array, Arrays, Floats, Rows
from prototag.knowledge.concepts import NamePrior
from prototag.tagging.fit_result import FitResult
from prototag.tagging.name_knowledge import WeightPrior
from prototag.tagging.task import group_examples

# Labels of a pair of example and tag.
HAS = 1
LACKS = 0
UNDECIDED = -1


class FitState(NamedTuple):
    """State of a fit in memory; its rows are the n examples of the fit."""

    group_of: Rows  # the example of each image
    X: Floats  # n x m
    labels: npt.NDArray[np.int8]  # n x t, HAS, LACKS or UNDECIDED at the time of the fit
    targets: Floats  # n x t, labels; imputed probabilities of unlabeled pairs
    kernel_scores: Floats  # n x t, LOO scores of the kernel regression, which corrects names
    raw: Floats  # n x t, held-out scores of all parts
    codes: sparse.csr_array  # n x k
    folds: Rows  # n
    rho: float | None  # penalty that holds S to its start
    spread: float  # share of S from one step of label propagation along the codes
    clustered: bool  # whether prototypes are means of images
    name_coef: Floats  # m x t, weighted prior scores by names; m x 0 without
    name_intercept: Floats  # t, or 0
    name_weight: float  # mean and variance of the weights of names
    name_weight_variance: float

    @classmethod
    def from_fit(cls, result: FitResult, X: Floats, ruled_out: Array | None = None) -> Self:
        """Collect the state of a fit to X; ``ruled_out`` (images x tags) are negative labels."""
        stages = result.stages
        group_of = result.group_of
        positive = result.held_out.labels.toarray() > 0
        if stages is None or stages.kernel_ridge.loo_scores is None:
            raise ValueError("the fit was out-of-core, and an update continues one in memory.")
        no_tags: Any = sparse.csr_array((len(X), 1), dtype=np.float32)
        labels = np.where(positive, HAS, UNDECIDED).astype(np.int8)
        if ruled_out is not None:
            rows, columns = np.nonzero(ruled_out)
            lacks = np.zeros(labels.shape, bool)
            lacks[group_of[rows], columns] = True
            labels[lacks & (labels == UNDECIDED)] = LACKS
        coded = stages.coded
        kernel_scores = stages.kernel_ridge.loo_scores
        m = X.shape[1]
        name_prior = NamePrior(np.empty((m, 0), np.float32), np.empty(0, np.float32))
        weight_prior = WeightPrior(0.0, 0.0)
        regression = stages.kernel_ridge.names
        names = stages.mixed.names
        if regression is not None and names is not None:
            kernel_scores = kernel_scores - regression.loo_scores * names.weights
            prior = regression.prior
            name_prior = NamePrior(prior.coef * names.weights, prior.intercept * names.weights)
            weight_prior = names.prior
        return cls(
            group_of=group_of,
            X=group_examples(X, no_tags, None, group_of)[0],
            labels=labels,
            targets=stages.targets,
            kernel_scores=kernel_scores,
            raw=stages.mixed.scores,
            codes=coded.codes,
            folds=coded.folds,
            rho=coded.rho,
            spread=coded.spread,
            clustered=coded.clusterings is not None,
            name_coef=name_prior.coef,
            name_intercept=name_prior.intercept,
            name_weight=weight_prior.mean,
            name_weight_variance=weight_prior.variance,
        )

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return plain values and arrays for a file."""
        named = self._asdict()
        plain = ("rho", "spread", "clustered", "name_weight", "name_weight_variance")
        config = {name: named.pop(name) for name in plain}
        codes = named.pop("codes")
        arrays = {name: np.asarray(value) for name, value in named.items()}
        arrays["group_of"] = self.group_of.astype(np.int64)
        arrays["folds"] = self.folds.astype(np.int64)
        arrays["labels"] = (self.labels + 1).astype(np.uint8)
        arrays["codes/data"] = codes.data
        arrays["codes/indices"] = codes.indices.astype(np.int32)
        arrays["codes/indptr"] = codes.indptr.astype(np.int64)
        return config, arrays

    @classmethod
    def from_arrays(cls, config: dict[str, Any], arrays: Arrays, n_prototypes: int) -> Self:
        """Restore the state from the values and arrays of :meth:`to_arrays`."""
        named: dict[str, Any] = {name: arrays[name] for name in cls._fields if name in arrays}
        n = len(named["X"])
        parts = (arrays[f"codes/{name}"] for name in ("data", "indices", "indptr"))
        named["codes"] = sparse.csr_array(tuple(parts), shape=(n, n_prototypes))
        named["group_of"] = named["group_of"].astype(np.intp)
        named["folds"] = named["folds"].astype(np.intp)
        named["labels"] = named["labels"].astype(np.int8) - np.int8(1)
        return cls(**named, **config)
