"""SEM on given vectors: semantic neighbour groups and a Bayesian rule over their tags."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.utils._param_validation import Interval

from prototag.arrays import Floats
from prototag.research.baselines.base import AUTO
from prototag.research.baselines.two_pass_votes import (
    Setting,
    TagCounts,
    TwoPassVotes,
    refine_votes,
)

PRIORS = (0.0, 0.5, 1.0, -0.25, -0.5)
REFINEMENTS = (0.0, 0.1, 0.3)


@dataclass(eq=False, repr=False)
class SEM(TwoPassVotes):
    """Semantic extension model on given vectors (after Ma, Liu, Xie and Li 2019).

    The semantic neighbour group N(x) is the union of the K nearest images of every tag, as in
    2PKNN. With d the squared distance in units of its mean,

        score(x, c) = p(c)^a sum_{i in N(x)} exp(-s d(x, x_i)) z_ic
                      / sum_{i in N(x)} exp(-s d(x, x_i)),
        p(c) = (n_c + 1) / (n + t),   z = (1 - r) y + r y R

    R has the co-occurrence of each tag with the others, with rows of sum one: the refinement of
    tags, in the same step as their assignment. With a = r = 0 the scores are those of
    :class:`TwoPassKNN`.

    The abstract describes neighbour groups of similar images, a Bayesian model that assigns the
    tags of a group by distance, refinement together with assignment, and the simplicity of nearest
    neighbours. Our choices are the formula, the group by tags, the form of the prior and of the
    refinement, and all values. The paper's vectors come from AlexNet without its last layer; here
    any vectors are given.

    Parameters
    ----------
    n_per_tag : int or "auto", default="auto"
        K, as in :class:`TwoPassKNN`.
    sharpness : float or "auto", default="auto"
        s, as in :class:`TwoPassKNN`.
    prior : float or "auto", default="auto"
        a. A negative value prefers rare tags. "auto" selects one of ``PRIORS``.
    refinement : float or "auto", default="auto"
        r. "auto" selects one of ``REFINEMENTS``.
    groups, threshold, n_jobs
        As in :class:`KNN`.

    Attributes
    ----------
    n_per_tag_, sharpness_
        The selected values.
    choices_ : dict
        The selected prior and refinement.
    scale_, images_, tags_, out_of_fold_scores_
        As in :class:`KNN`. Leave-one-out scores exclude an image from neighbours and from counts.

    References
    ----------
    Y. Ma, Y. Liu, Q. Xie and L. Li, "CNN-feature based automatic image annotation method",
    Multimedia Tools and Applications 78, 2019.
    """

    _: KW_ONLY
    prior: float | str = "auto"
    refinement: float | str = "auto"

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **TwoPassVotes._parameter_constraints,
        "prior": [Interval(Real, -1, 1, closed="both"), AUTO],
        "refinement": [Interval(Real, 0, 1, closed="both"), AUTO],
    }
    _grids: ClassVar[dict[str, tuple[float, ...]]] = {
        "prior": PRIORS,
        "refinement": REFINEMENTS,
    }

    @staticmethod
    def _transform(
        votes: Floats, own: sparse.csr_array, counts: TagCounts, setting: Setting
    ) -> Floats:
        return bayes_scores(votes, own, counts, setting)


def bayes_scores(
    votes: Floats, own: sparse.csr_array, counts: TagCounts, setting: Setting
) -> Floats:
    """Return the scores of a batch of images from the votes of their neighbour groups."""
    tags = own.toarray()
    refined = refine_votes(votes, tags, counts, setting["refinement"])
    if setting["prior"] == 0:
        return refined
    prior = (counts.frequency(tags) + 1) / (counts.n + votes.shape[1])
    return np.asarray(prior ** setting["prior"] * refined, np.float32)
