"""Base class of MCDL and ExemplarMCDL: scoring, explanations and model files."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils._set_output import _get_output_config

from prototag.arrays import Arrays, Doubles, Floats, Rows
from prototag.coding.coder import Certificate, Coder
from prototag.engine import Engine, Threads
from prototag.estimator import TagEstimator
from prototag.mcdl.algorithm1 import OBJECTIVE
from prototag.mcdl.settings import CodeSettings
from prototag.storage import modelfile

N_OBJECTIVE_TERMS = len(OBJECTIVE.names or ())
POSITIVE = Interval(Real, 0, None, closed="neither")
NOT_NEGATIVE = Interval(Real, 0, None, closed="left")
COUNT = Interval(Integral, 1, None, closed="left")
N_PROTOTYPES = [COUNT, Interval(Real, 0, 1, closed="right")]
THRESHOLD = [StrOptions({"global", "per_tag"}), Interval(Real, None, None, closed="neither")]


class Contribution(NamedTuple):
    """Decomposition of the score of a tag of an image into shares of prototypes and a rest."""

    tag: Any
    score: float
    prototypes: Rows  # by decreasing share
    shares: Floats
    rest: float = 0.0  # not attributable to single prototypes


def count_prototypes(n_prototypes: int | float, n: int) -> int:
    """Return the number of prototypes for n images; ``n_prototypes`` may be a share of them."""
    if isinstance(n_prototypes, Integral):
        if n_prototypes > n:
            raise ValueError(
                f"n_prototypes={n_prototypes} but there are only {n} images: give at most "
                "one prototype for each image, or a share between 0 and 1."
            )
        return int(n_prototypes)
    return max(1, round(float(n_prototypes) * n))


class PrototypeEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, TagEstimator):
    """Base class: codes over visual prototypes D, scores by semantic prototypes S."""

    n_prototypes: int | float
    n_jobs: int | None
    engine: Engine | None
    random_state: Any
    visual_prototypes_: Floats
    semantic_prototypes_: sparse.csr_array
    objective_: npt.NDArray[np.void]
    tag_objective_: Doubles
    codes_gap_: float
    n_capped_: int
    n_stalled_: int

    @property
    def _engine(self) -> Engine:
        return Threads(self.n_jobs) if self.engine is None else self.engine

    def code_settings(self) -> CodeSettings:
        """Return the settings of visual coding."""
        raise NotImplementedError

    # -- training ----------------------------------------------------------------------------------

    def count_prototypes(self, n: int) -> int:
        """Return the number of prototypes for n images."""
        return count_prototypes(self.n_prototypes, n)

    def _draw_seed(self) -> int:
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _set_prototypes(
        self, D: Floats, S: Floats, objective: list[tuple[float, ...]], by_tag: Doubles
    ) -> None:
        self.visual_prototypes_ = D
        self.semantic_prototypes_ = sparse.csr_array(S)
        self.objective_ = np.array(objective, OBJECTIVE)
        self.tag_objective_ = by_tag
        self._build_coder()

    def _set_certificate(self, certificate: Certificate) -> None:
        self.codes_gap_ = certificate.gap
        self.n_capped_ = certificate.capped
        self.n_stalled_ = certificate.stalled

    # -- scoring -----------------------------------------------------------------------------------

    def _build_coder(self) -> None:
        self._coder: Coder = self.code_settings().coder(self.visual_prototypes_)

    def _codes(self, X: Floats) -> sparse.csr_array:
        return self._coder.encode(X, engine=self._engine).codes

    def _scores(self, X: Floats) -> Floats:
        return self._score_codes(self._codes(X))

    def _score_codes(self, codes: sparse.csr_array) -> Floats:
        return np.asarray((codes @ self.semantic_prototypes_).toarray())

    def transform(self, X: Any) -> Any:
        """Encode images as a CSR matrix (n x k), dense if ``set_output`` requests a data frame."""
        codes = self._codes(self._validate_vectors(X))
        wants_frame = _get_output_config("transform", self)["dense"] != "default"
        return codes.toarray() if wants_frame else codes

    def explain(self, X: Any, tags: npt.ArrayLike | None = None) -> list[list[Contribution]]:
        """Explain tags of each image by the shares of prototypes in their scores.

        Parameters
        ----------
        X : array-like of shape (n, m)
        tags : sequence of names in ``classes_``, optional
            Tags to explain for every image; by default the predicted ones.

        Returns
        -------
        list of list of Part
            The tags of each image by decreasing score; the shares add up to the score.
        """
        codes = self._codes(self._validate_vectors(X))
        scores = self._score_codes(codes)
        explanations = []
        for image, columns in enumerate(self._columns_to_explain(scores, tags)):
            used = slice(codes.indptr[image], codes.indptr[image + 1])
            prototype = codes.indices[used]
            amount = codes.data[used]
            order = columns[np.argsort(-scores[image, columns], kind="stable")]
            explanations.append([self._contribution(prototype, amount, column) for column in order])
        return explanations

    def _contribution(
        self, prototype: npt.NDArray[np.int32], amount: Floats, column: int
    ) -> Contribution:
        share = amount * self.semantic_prototypes_[prototype][:, [column]].toarray()[:, 0]
        order = np.argsort(-share, kind="stable")[: np.count_nonzero(share)]
        largest = prototype[order].astype(np.intp)
        return Contribution(self.classes_[column], float(share.sum()), largest, share[order])

    @property
    def _n_features_out(self) -> int:
        return len(self.visual_prototypes_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []  # codes are always float32
        return tags

    # -- model files -------------------------------------------------------------------------------

    def _fitted_state(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        config = {
            "n_prototypes": len(self.visual_prototypes_),
            "certificate": [self.codes_gap_, self.n_capped_, self.n_stalled_],
        }
        arrays: dict[str, npt.NDArray[Any]] = {
            "visual_prototypes": self.visual_prototypes_,
            "objective": np.array(self.objective_.tolist()).reshape(-1, N_OBJECTIVE_TERMS),
            "tag_objective": self.tag_objective_,
        }
        return config, arrays | modelfile.pack_csr("semantic_prototypes", self.semantic_prototypes_)

    def _restore(self, config: dict[str, Any], arrays: Arrays) -> None:
        k = int(config["n_prototypes"])
        m = self.n_features_in_
        t = len(self.classes_)
        self.visual_prototypes_ = modelfile.expect_array(arrays, "visual_prototypes", (k, m), "f4")
        modelfile.expect_array(arrays, "semantic_prototypes/data", (None,), "f4")
        self.semantic_prototypes_ = modelfile.unpack_csr(arrays, "semantic_prototypes", (k, t))
        objective = modelfile.expect_array(arrays, "objective", (None, N_OBJECTIVE_TERMS), "f8")
        self.objective_ = np.array([tuple(row) for row in objective], OBJECTIVE)
        self.tag_objective_ = modelfile.expect_array(arrays, "tag_objective", (t,), "f8")
        gap, capped, stalled = config["certificate"]
        self._set_certificate(Certificate(float(gap), int(capped), int(stalled)))
        self._build_coder()
