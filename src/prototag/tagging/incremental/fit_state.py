"""What a fit leaves behind for learning on."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse

from prototag.arrays import Array, Arrays, Doubles, Floats, Rows
from prototag.tagging.fit_result import FitResult
from prototag.tagging.task import group_examples

HAS = 1
LACKS = 0
UNDECIDED = -1


class Kept(NamedTuple):
    """What a fit leaves behind for learning on; the rows are its n examples."""

    of: Rows  # the example of each image
    X: Floats  # n x m
    said: npt.NDArray[np.int8]  # n x t, HAS, LACKS or UNDECIDED when the fit was made
    targets: Floats  # n x t, what was taught
    smooth: Floats  # n x t, scores of the kernel regression for left-out images
    mixed: Floats  # n x t, of all parts together
    raw: Floats  # n x t, with what other tags say
    codes: sparse.csr_array  # n x k
    folds: Rows
    rho: float | None
    spread: float
    clustered: bool  # whether prototypes are means of images
    strength: float  # of the linear regression
    mean: Doubles  # of the z-score
    scale: Doubles

    @classmethod
    def of_fit(cls, result: FitResult, X: Floats, ruled_out: Array | None = None) -> Self:
        """From a fit to these vectors in memory; ``ruled_out`` (images x tags) is optional."""
        stages = result.stages
        of = result.group_of
        labels = result.held_out.labels
        if stages is None or stages.kernel_ridge.loo_scores is None:
            raise ValueError("the fit was out-of-core, and an update continues one in memory.")
        blank: Any = sparse.csr_array((len(X), 1), dtype=np.float32)
        said = np.where(labels.toarray() > 0, HAS, UNDECIDED).astype(np.int8)
        if ruled_out is not None:
            rows, columns = np.nonzero(ruled_out)
            lacks = np.zeros(said.shape, bool)
            lacks[of[rows], columns] = True
            said[lacks & (said == UNDECIDED)] = LACKS
        coded = stages.coded
        lifting = stages.lifted.lifting
        zscore = lifting.reduction_.zscore_
        return cls(
            of=of,
            X=group_examples(X, blank, None, of)[0],
            said=said,
            targets=stages.targets,
            smooth=stages.kernel_ridge.loo_scores,
            mixed=stages.mixed.scores,
            raw=stages.related.raw,
            codes=coded.codes,
            folds=coded.folds,
            rho=coded.rho,
            spread=coded.spread,
            clustered=coded.clusterings is not None,
            strength=lifting.strength_,
            mean=zscore.mean_,
            scale=zscore.scale_,
        )

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Plain values and arrays, for a file."""
        named = self._asdict()
        config = {name: named.pop(name) for name in ("rho", "spread", "clustered", "strength")}
        codes = named.pop("codes")
        arrays = {name: np.asarray(value) for name, value in named.items()}
        arrays |= {"of": self.of.astype(np.int64), "folds": self.folds.astype(np.int64)}
        arrays["said"] = (self.said + 1).astype(np.uint8)
        arrays |= {"codes/data": codes.data, "codes/indices": codes.indices.astype(np.int32)}
        return config, arrays | {"codes/indptr": codes.indptr.astype(np.int64)}

    @classmethod
    def from_arrays(cls, config: dict[str, Any], arrays: Arrays, prototypes: int) -> Self:
        """What :meth:`to_arrays` described."""
        named: dict[str, Any] = {name: arrays[name] for name in cls._fields if name in arrays}
        n = len(named["X"])
        parts = (arrays[f"codes/{name}"] for name in ("data", "indices", "indptr"))
        named["codes"] = sparse.csr_array(tuple(parts), shape=(n, prototypes))
        named |= {"of": named["of"].astype(np.intp), "folds": named["folds"].astype(np.intp)}
        named["said"] = named["said"].astype(np.int8) - np.int8(1)
        return cls(**named, **config)
