"""Diverse 2PKNN: tags that represent an image and differ from each other."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.utils._param_validation import Interval

from prototag.arrays import Bools, Doubles, Floats, Rows
from prototag.research.baselines.base import COUNT
from prototag.research.baselines.two_pass_votes import (
    Setting,
    TagCounts,
    TwoPassVotes,
    refine_votes,
)

SHARE = Interval(Real, 0, 1, closed="both")


@dataclass(eq=False, repr=False)
class DiverseTwoPassKNN(TwoPassVotes):
    """2PKNN with diverse tags, by a determinantal point process (after Verma 2019).

    The quality q_c of a tag is its score by :class:`TwoPassKNN`, from tags that are completed as in
    :class:`SEM`. With S_bc the cosine of the columns b and c of Y, tags are selected greedily to
    maximise ``log det L_T``,

        L_bc = q_b q_c ((1 - r) [b = c] + r S_bc)

    A tag is scored by the square root of its conditional variance given the tags that are selected
    before it (the logarithm of the variance is the gain in the objective); the tags after the first
    ``length`` are scored given those. Scores of selected tags decrease in the order of selection,
    and with r = 0 they are the scores of 2PKNN.

    The literature says that the paper uses two-pass neighbours for diverse annotation with missing
    labels. How it selects diverse tags is not known to us: the determinantal process is that of the
    task's first paper (Wu, Jia, Liu and Ghanem 2017), without their semantic hierarchy. Diverse
    tags are for lists of fixed length, whose redundancy :func:`mean_similarity` measures.

    Parameters
    ----------
    n_per_tag, sharpness
        As in :class:`TwoPassKNN`.
    redundancy : float, default=0.5
        r, from 0 to 1: the weight of the similarity of tags.
    refinement : float, default=0.0
        The weight of co-occurring tags in the tags of neighbours.
    length : int, default=5
        The number of tags that are selected one after the other.
    groups, threshold, n_jobs
        As in :class:`KNN`.

    Attributes
    ----------
    n_per_tag_, sharpness_, choices_, scale_, images_, tags_, out_of_fold_scores_
        As in :class:`SEM`.

    References
    ----------
    Y. Verma, "Diverse image annotation with missing labels", Pattern Recognition 93, 2019.
    """

    _: KW_ONLY
    redundancy: float = 0.5
    refinement: float = 0.0
    length: int = 5
    choices_: Setting = field(init=False)

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **TwoPassVotes._parameter_constraints,
        "redundancy": [SHARE],
        "refinement": [SHARE],
        "length": [COUNT],
    }
    _grids: ClassVar[dict[str, tuple[float, ...]]] = {
        "redundancy": (0.5,),
        "refinement": (0.0,),
        "length": (5,),
    }

    @staticmethod
    def _transform(
        votes: Floats, own: sparse.csr_array, counts: TagCounts, setting: Setting
    ) -> Floats:
        tags = own.toarray()
        quality = refine_votes(votes, tags, counts, setting["refinement"])
        return diversify(quality, tags, counts, setting["redundancy"], int(setting["length"]))


def diversify(
    quality: Floats, own: Floats, counts: TagCounts, redundancy: float, length: int
) -> Floats:
    """Select tags greedily, for a batch of images; return the root of the conditional variance.

    Greedy maximisation of a log determinant by an incremental Cholesky factorisation: the variance
    of a tag falls by the square of its entry in each new row of the factor.
    """
    q, t = quality.shape
    image = np.arange(q)
    variance: Doubles = np.square(quality, dtype=np.float64)
    frequency = counts.frequency(own)
    scores = np.zeros((q, t))
    selected: Bools = np.zeros((q, t), bool)
    factor = np.zeros((min(length, t), q, t))
    for step in range(len(factor)):
        tag: Rows = np.where(selected, -1, variance).argmax(axis=1)
        gain = np.maximum(variance[image, tag], 0)
        scores[image, tag] = np.sqrt(gain)
        selected[image, tag] = True
        if redundancy == 0:
            continue
        similarity = redundancy * _cosine(tag, own, counts, frequency)
        similarity[image, tag] = 1
        row = quality * quality[image, tag][:, None] * similarity
        before = factor[:step]
        row -= np.einsum("sqt,sq->qt", before, before[:, image, tag])
        factor[step] = row / np.sqrt(np.where(gain > 0, gain, 1))[:, None]
        factor[step][gain <= 0] = 0
        variance = variance - np.square(factor[step])
    scores[~selected] = np.sqrt(np.maximum(variance[~selected], 0))
    return scores.astype(np.float32)


def _cosine(tag: Rows, own: Floats, counts: TagCounts, frequency: Doubles) -> Doubles:
    """Return the cosine of the column ``tag[i]`` of Y with all columns, q x t, without image i."""
    norms = frequency * frequency[np.arange(len(tag)), tag][:, None]
    together = counts.column(tag, own)
    return np.divide(together, np.sqrt(norms), out=np.zeros_like(together), where=norms > 0)


def mean_similarity(assigned: Bools, counts: TagCounts) -> float:
    """Return the mean cosine of two assigned tags of an image, over images with two or more."""
    root = np.sqrt(np.maximum(np.diagonal(counts.together), 1))
    cosine = counts.together / root / root[:, None]
    np.fill_diagonal(cosine, 0)
    chosen = assigned.astype(np.float64)
    number = chosen.sum(axis=1)
    several = number > 1
    total = np.einsum("nt,nt->n", chosen @ cosine, chosen)[several]
    pairs = (number * (number - 1))[several]
    return float((total / pairs).mean()) if several.any() else 0.0
