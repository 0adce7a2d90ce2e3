"""k nearest neighbours by supervised binary codes: robust discrete code modelling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from numbers import Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.utils._param_validation import Interval

from prototag.arrays import Array, Doubles, Floats, row_squared_norms, rowwise_matmul
from prototag.coding.rbf_kernel import rbf_kernel_by_row
from prototag.engine import Threads, map_rows, single_threaded_blas
from prototag.errors import ModelFileError
from prototag.research.baselines import knn_search, nystroem
from prototag.research.baselines.base import AUTO, COUNT, NOT_NEGATIVE, POSITIVE
from prototag.research.baselines.cross_validated import CrossValidatedBaseline, Setting

Bytes = npt.NDArray[np.uint8]
SHARPNESSES = (8.0, 16.0)
FIT_WEIGHTS = (1.0, 3.0)
SMOOTHING = 1e-6  # added to squared norms of rows, so that weights of exact rows are finite
RIDGE = 1e-3  # of the hash function, per image and mean square of a feature
BATCH_IMAGES = 1024


class Hash(NamedTuple):
    """Codes of training images, and the hash function ``sign(k(x, landmarks) P)``."""

    landmarks: Floats  # l x m
    width: float  # of the Gaussian kernel
    projection: Floats  # l x b
    codes: Bytes  # n x b / 8, packed
    tags: sparse.csr_array
    sharpness: float


@dataclass(eq=False, repr=False)
class HashingKNN(CrossValidatedBaseline):
    """k nearest neighbours in Hamming distance of supervised codes (after Luo et al. 2018).

    With K the Gaussian kernel of images and landmarks, minimises over codes Z in {-1, 1}, tag
    weights W and the hash function P

        sum_i ||y_i - z_i W||^p + strength ||W||_F^2
              + fit sum_i ||z_i - k_i P||^p

    (norms of rows, squared norms smoothed by 1e-6): supervised discrete hashing (Shen, Shen, Liu
    and Shen 2015) with robust norms. Weights of rows ``p / 2 r^(p - 2)`` majorise the norms; W and
    P are then ridge regressions, and the codes are updated bit by bit without relaxation, each in
    closed form. All images are coded by ``sign(k P)``, and scores are those of :class:`KNN` with
    the Hamming distance in units of its mean.

    Known is the problem's kind; norms, weights and numbers of bits are our choices, and that the
    paper cited for hashing is this one. P has a small ridge, for kernels without full rank. With
    many rare tags a small ``fit_weight``, as in supervised discrete hashing (1e-5), leads to codes
    that follow the tags and that no hash function predicts; cross-validation finds larger ones.

    Parameters
    ----------
    n_bits : int, default=64
    n_neighbours : int, default=80
    sharpness : float or "auto", default="auto"
        As in :class:`KNN`. "auto" selects one of two values on out-of-fold scores.
    power : float, default=1.0
        p, above 0 and at most 2; 2 is supervised discrete hashing.
    fit_weight : float or "auto", default="auto"
        "auto" selects one of two values on out-of-fold scores.
    strength : float, default=1.0
    gamma : float, default=1.0
        The kernel is ``exp(-gamma d)``, with d the squared distance in units of its mean.
    n_landmarks : int, default=1000
    n_rounds : int, default=5
        Rounds of all updates, each with three passes over the bits.
    threshold, n_folds, n_jobs
        As in :class:`Logistic`.
    random_state : int, RandomState or None, default=0
        Draws the folds, the landmarks and the first codes.

    Attributes
    ----------
    landmarks_ : ndarray of shape (l, m)
    projection_ : ndarray of shape (l, n_bits)
    codes_ : ndarray of shape (n, n_bits / 8)
        Packed bits.
    tags_ : csr_array of shape (n, t)
    width_ : float
    setting_ : dict
        The selected sharpness and weight.
    out_of_fold_scores_, threshold_, classes_
        As in :class:`Logistic`.

    References
    ----------
    Y. Luo, Y. Yang, F. Shen, Z. Huang, P. Zhou and H. T. Shen, "Robust discrete code modeling for
    supervised hashing", Pattern Recognition 75, 2018.
    """

    n_bits: int = 64
    _: KW_ONLY
    n_neighbours: int = 80
    sharpness: float | str = "auto"
    power: float = 1.0
    fit_weight: float | str = "auto"
    strength: float = 1.0
    gamma: float = 1.0
    n_landmarks: int = 1000
    n_rounds: int = 5
    landmarks_: Floats = field(init=False)
    projection_: Floats = field(init=False)
    codes_: Bytes = field(init=False)
    tags_: sparse.csr_array = field(init=False)
    width_: float = field(init=False)

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **CrossValidatedBaseline._parameter_constraints,
        "n_bits": [COUNT],
        "n_neighbours": [COUNT],
        "sharpness": [NOT_NEGATIVE, AUTO],
        "power": [Interval(Real, 0, 2, closed="right")],
        "fit_weight": [POSITIVE, AUTO],
        "strength": [POSITIVE],
        "gamma": [POSITIVE],
        "n_landmarks": [COUNT],
        "n_rounds": [COUNT],
    }
    _values: ClassVar[dict[str, type]] = {**CrossValidatedBaseline._values, "width_": float}
    _grids: ClassVar[dict[str, tuple[float, ...]]] = {
        "sharpness": SHARPNESSES,
        "fit_weight": FIT_WEIGHTS,
    }

    def _fit_models(
        self, X: Floats, Y: sparse.csr_array, settings: Sequence[Setting], seed: int
    ) -> list[Hash]:
        rng = np.random.default_rng(seed)
        rows = np.sort(rng.permutation(len(X))[: self.n_landmarks])
        mean = 2 * float(X.var(axis=0, dtype=np.float64).sum())
        width = self.gamma / (mean if mean > 0 else 1)
        landmarks = np.ascontiguousarray(X[rows])
        tags = Y.astype(bool)
        start = np.where(rng.random((len(X), self.n_bits)) < 0.5, -1.0, 1.0)
        with single_threaded_blas():
            K = nystroem.gaussian_kernel(X, landmarks, width).astype(np.float64)
        learned: dict[float, tuple[Floats, Bytes]] = {}
        for weight in sorted({setting["fit_weight"] for setting in settings}):
            with single_threaded_blas():
                problem = Problem.of(K, Y, self.power, weight, self.strength)
                projection = problem.minimise(start, self.n_rounds).projection.astype(np.float32)
            images = self._hash(X, landmarks, width, projection)
            learned[weight] = projection, np.packbits(images > 0, axis=1)
        return [
            Hash(landmarks, width, *learned[setting["fit_weight"]], tags, setting["sharpness"])
            for setting in settings
        ]

    def _hash(self, X: Floats, landmarks: Floats, width: float, projection: Floats) -> Floats:
        return map_rows(
            Threads(self.n_jobs),
            hash_batch,
            [X],
            [landmarks, width, projection],
            size=BATCH_IMAGES,
        )

    def _model_scores(self, model: Hash, X: Floats) -> Floats:
        search, unit = hamming_search(model)
        queries = self._hash(X, model.landmarks, model.width, model.projection)
        tags = knn_search.TagLists.of(model.tags)
        k = min(self.n_neighbours, len(model.codes))
        shared = [np.ones(1, np.float32), search, tags, k, model.sharpness / unit]
        return map_rows(
            Threads(self.n_jobs),
            knn_search.vote_batch,
            [queries],
            shared,
            size=knn_search.BATCH_QUERIES,
        )

    def _set_fitted(self, model: Hash) -> None:
        self.landmarks_ = model.landmarks
        self.width_ = model.width
        self.projection_ = model.projection
        self.codes_ = model.codes
        self.tags_ = model.tags

    def _get_fitted(self) -> Hash:
        return Hash(
            self.landmarks_,
            self.width_,
            self.projection_,
            self.codes_,
            self.tags_,
            self.setting_["sharpness"],
        )

    def _arrays(self) -> dict[str, str]:
        return {
            "landmarks_": "f4 l m",
            "projection_": "f4 l b",
            "codes_": "u1 n w",
            "tags_": "tags n t",
        }

    def _prepare(self) -> None:
        if (self.projection_.shape[1], self.codes_.shape[1]) != (self.n_bits, -(-self.n_bits // 8)):
            raise ModelFileError(
                f"The codes do not have {self.n_bits} bits: the file was not written by prototag."
            )


def hash_batch(x: Floats, landmarks: Floats, width: float, projection: Floats) -> Floats:
    """Return the codes of a batch of images, as -1 and 1, with bits that depend on no other row."""
    kernel = rbf_kernel_by_row(x, landmarks, width, row_squared_norms(landmarks))
    return np.where(rowwise_matmul(kernel, projection) > 0, np.float32(1), np.float32(-1))


def unpack_codes(codes: Bytes, n_bits: int) -> Floats:
    """Return packed codes as -1 and 1."""
    bits = np.unpackbits(codes, axis=1)[:, :n_bits]
    return 2 * bits.astype(np.float32) - 1


def hamming_search(model: Hash) -> tuple[knn_search.Search, float]:
    """Return the search by Hamming distance, and the mean distance.

    ``||a - b||^2`` of codes of -1 and 1 is four times their Hamming distance, without rounding.
    """
    codes = unpack_codes(model.codes, model.projection.shape[1])
    distance = 2 * float(codes.var(axis=0, dtype=np.float64).sum())
    return knn_search.Search(codes), distance if distance > 0 else 1.0


class Solution(NamedTuple):
    codes: Doubles  # n x b, of -1 and 1
    weights: Doubles  # b x t
    projection: Doubles  # l x b


class Problem(NamedTuple):
    """The objective of :class:`HashingKNN` and its updates."""

    K: Doubles  # n x l
    Y: Doubles  # n x t
    power: float
    fit_weight: float
    strength: float
    ridge: float

    @classmethod
    def of(
        cls, K: Doubles, Y: sparse.csr_array, power: float, fit_weight: float, strength: float
    ) -> Problem:
        ridge = RIDGE * len(K) * max(float(np.square(K).mean()), SMOOTHING)
        return cls(K, Y.toarray().astype(np.float64), power, fit_weight, strength, ridge)

    def objective(self, solution: Solution) -> float:
        """Return the smoothed objective, with the ridges of W and P."""
        Z, W, P = solution
        half = self.power / 2
        tags = (np.square(self.Y - Z @ W).sum(axis=1) + SMOOTHING) ** half
        fit = (np.square(Z - self.K @ P).sum(axis=1) + SMOOTHING) ** half
        penalty = self.strength * np.square(W).sum() + self.ridge * np.square(P).sum()
        return float(tags.sum() + self.fit_weight * fit.sum() + penalty)

    def row_weights(self, residual: Doubles) -> Doubles:
        """Return the weights of the quadratic that majorises the norms at these residuals."""
        square = np.square(residual).sum(axis=1) + SMOOTHING
        return np.asarray(self.power / 2 * square ** (self.power / 2 - 1))

    def regress(self, Z: Doubles, u: Doubles, v: Doubles) -> Solution:
        """Return W and P that minimise the weighted quadratic for codes Z."""
        gram = Z.T @ (u[:, None] * Z) + self.strength * np.eye(Z.shape[1])
        W = np.linalg.solve(gram, Z.T @ (u[:, None] * self.Y))
        weighted = (self.fit_weight * v)[:, None] * self.K
        gram = self.K.T @ weighted + self.ridge * np.eye(self.K.shape[1])
        P = np.linalg.solve(gram, weighted.T @ Z)
        return Solution(Z, np.asarray(W, np.float64), np.asarray(P, np.float64))

    def update_codes(self, solution: Solution, u: Doubles, v: Doubles, passes: int = 3) -> Doubles:
        """Minimise over one bit of all images after the other, in closed form."""
        Z, W, P = solution
        Z = Z.copy()
        target = u[:, None] * (self.Y @ W.T) + (self.fit_weight * v)[:, None] * (self.K @ P)
        gram = W @ W.T
        for _ in range(passes):
            before = Z.copy()
            for bit in range(Z.shape[1]):
                others = Z @ gram[:, bit] - Z[:, bit] * gram[bit, bit]
                value = target[:, bit] - u * others
                Z[:, bit] = np.where(value == 0, Z[:, bit], np.sign(value))
            if np.array_equal(before, Z):
                break
        return Z

    def residuals(self, solution: Solution) -> tuple[Array, Array]:
        Z, W, P = solution
        return self.Y - Z @ W, Z - self.K @ P

    def minimise(self, Z: Doubles, rounds: int) -> Solution:
        """Alternate the updates from codes Z; the smoothed objective never rises."""
        ones = np.ones(len(Z))
        solution = self.regress(Z, ones, ones)
        for _ in range(rounds):
            tags, fit = self.residuals(solution)
            u = self.row_weights(tags)
            v = self.row_weights(fit)
            solution = self.regress(self.update_codes(solution, u, v), u, v)
        return solution
