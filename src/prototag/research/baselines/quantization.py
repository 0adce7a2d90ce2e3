"""k nearest neighbours among product-quantised images, with or without encoded distances."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval

from prototag.arrays import Floats, Rows
from prototag.engine import Threads, map_rows
from prototag.errors import ModelFileError
from prototag.mcdl.kmeans import k_means, nearest_centroids
from prototag.research.baselines import knn_search
from prototag.research.baselines.base import COUNT
from prototag.research.baselines.knn_jec import KNN

Bytes = npt.NDArray[np.uint8]
MAX_BITS = 8  # a code of a block is one byte


@dataclass(eq=False, repr=False)
class QuantizedKNN(KNN):
    """:class:`KNN` among images that are stored in a few bytes by product quantisation.

    Columns are dealt to blocks so that all blocks have about the same variance (with principal
    components, the parametric form of optimised product quantisation), and each block has
    ``2^bits`` centres from k-means. A training image is stored as the numbers of its nearest
    centres, one byte a block; a new image is not quantised (asymmetric distance):

        d(x, x_i) = sum_b ||x_b - centre_b(x_i)||^2  [ + distortion_b(x_i) ]

    With ``distance_bits`` (distance-encoded product quantisation, Heo, Lin and Yoon 2018), that
    part of each byte stores the length class of the residual ``x_ib - centre``: quantiles within
    the cell, and the distortion is the mean square of the class. Averaged over the training images
    of a class, the estimate is then exact. Scores are those of :class:`KNN` with these distances.

    Known is the encoding; the annotator on top is our choice, and so is the number of bits. The
    papers' second estimator, by geometry, is not implemented. A model file has the bytes; in memory
    they are decoded once, because at some 10,000 images a matrix product with decoded images is
    faster than table look-ups, with identical distances. So the size of the model falls, and the
    time to annotate does not.

    Parameters
    ----------
    n_neighbours, sharpness, groups, threshold, n_jobs
        As in :class:`KNN`.
    block_columns : int, default=8
        Columns in a block, for one byte.
    bits : int, default=8
        The bits of a byte that are used, at most 8.
    distance_bits : int, default=0
        The bits among these that store the length class of the residual.
    random_state : int, RandomState or None, default=0
        Initializes k-means.

    Attributes
    ----------
    column_ : ndarray of shape (m,)
        The columns in the order of blocks.
    centres_ : ndarray of shape (blocks, 2^(bits - distance_bits), block_columns)
    distortion_ : ndarray of shape (blocks, centres, 2^distance_bits)
    codes_ : ndarray of shape (n, blocks)
    n_neighbours_, sharpness_, scale_, tags_, out_of_fold_scores_
        As in :class:`KNN`.

    References
    ----------
    H. Jegou, M. Douze and C. Schmid, "Product quantization for nearest neighbor search", IEEE
    TPAMI 2011. J.-P. Heo, Z. Lin and S.-E. Yoon, "Distance encoded product quantization for
    approximate k-nearest neighbor search in high-dimensional space", IEEE TPAMI 2018.
    """

    _: KW_ONLY
    block_columns: int = 8
    bits: int = 8
    distance_bits: int = 0
    random_state: Any = 0

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **KNN._parameter_constraints,
        "block_columns": [COUNT],
        "bits": [Interval(Integral, 1, MAX_BITS, closed="both")],
        "distance_bits": [Interval(Integral, 0, MAX_BITS, closed="left")],
        "random_state": ["random_state"],
    }

    def _set_images(self, X: Floats, Y: sparse.csr_array) -> None:
        if self.distance_bits >= self.bits:
            raise ValueError(
                f"distance_bits={self.distance_bits} of bits={self.bits}: at least one bit must be "
                "for the centres."
            )
        group = knn_search.group_numbers(self.groups, X.shape[1])
        self.scale_ = knn_search.balanced_scale(X, group)
        x = X * self.scale_
        self.column_ = deal_columns(x.var(axis=0), self.block_columns)
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))
        quantizer, self.codes_ = train_quantizer(
            arrange(x, self.column_, self.block_columns),
            1 << (self.bits - self.distance_bits),
            1 << self.distance_bits,
            rng,
        )
        self.centres_ = quantizer.centres
        self.distortion_ = quantizer.distortion
        self.tags_ = Y.astype(bool)
        self._normalize_arrays()

    def _arrays(self) -> dict[str, str]:
        return {
            "scale_": "f4 m",
            "column_": "i4 m",
            "centres_": "f4 b k d",
            "distortion_": "f4 b k l",
            "codes_": "u1 n b",
            "tags_": "tags n t",
        }

    def _prepare(self) -> None:
        shape = (self.block_columns, 1 << self.distance_bits)
        columns = np.sort(self.column_)
        if (self.centres_.shape[2], self.distortion_.shape[2]) != shape or not np.array_equal(
            columns, np.arange(len(columns))
        ):
            raise ModelFileError(
                "The quantiser does not fit its parameters: the file was not written by prototag."
            )
        decoded = Quantizer(self.centres_, self.distortion_).decode(self.codes_)
        self._search = knn_search.Search(decoded)
        self._tags = knn_search.TagLists.of(self.tags_)

    def _queries(self, X: Floats) -> Floats:
        """Return the vectors of queries, with a column that the distortions are added to."""
        blocks = arrange(X * self.scale_, self.column_, self.centres_.shape[2])
        return np.column_stack([blocks.reshape(len(X), -1), np.zeros(len(X), np.float32)])

    def _find_neighbours(self, X: Floats, k: int) -> knn_search.Neighbours:
        return self._search.find_all(
            self._queries(X), min(k, len(X) - 1), exclude_self=True, n_jobs=self.n_jobs
        )

    def _scores(self, X: Floats) -> Floats:
        shared = [
            np.ones(1, np.float32), self._search, self._tags, self.n_neighbours_, self.sharpness_
        ]  # fmt: skip
        return map_rows(
            Threads(self.n_jobs),
            knn_search.vote_batch,
            [self._queries(X)],
            shared,
            size=knn_search.BATCH_QUERIES,
        )


class Quantizer(NamedTuple):
    """Centres of all blocks, and the mean distortions of the length classes of their cells."""

    centres: Floats  # b x k x d
    distortion: Floats  # b x k x l

    def decode(self, codes: Bytes) -> Floats:
        """Return the quantised images, n x (b d + 1); the last column adds the distortion."""
        n, b = codes.shape
        k, d = self.centres.shape[1:]
        classes = self.distortion.shape[2]
        images = np.empty((n, b * d + 1), np.float32)
        extra = np.zeros(n)
        for block in range(b):
            cell, length = np.divmod(np.minimum(codes[:, block], k * classes - 1), classes)
            images[:, block * d : (block + 1) * d] = self.centres[block, cell]
            extra += self.distortion[block, cell, length]
        images[:, -1] = np.sqrt(extra)
        return images


def deal_columns(variance: npt.NDArray[Any], block_columns: int) -> Rows:
    """Return the columns in the order of blocks: dealt in turn by falling variance."""
    m = len(variance)
    blocks = -(-m // block_columns)
    turns = np.arange(m) // blocks
    place = np.arange(m) % blocks
    block = np.where(turns % 2 == 0, place, blocks - 1 - place)
    by_variance = np.argsort(-variance, kind="stable")
    return np.asarray(by_variance[np.argsort(block, kind="stable")])


def arrange(x: Floats, column: Rows, block_columns: int) -> Floats:
    """Return the columns in blocks, n x b x d; short blocks end with zeros."""
    n, m = x.shape
    blocks = -(-m // block_columns)
    # Every block has m // blocks columns or one more, as dealt.
    size = np.full(blocks, m // blocks)
    full_turns, rest = divmod(m, blocks)
    size[:rest] += 1
    if full_turns % 2:
        size = size[::-1]
    place = np.concatenate([np.arange(count) for count in size])
    block = np.repeat(np.arange(blocks), size)
    out = np.zeros((n, blocks, block_columns), np.float32)
    out[:, block, place] = x[:, column]
    return out


def train_quantizer(
    x: Floats, n_centres: int, n_classes: int, rng: np.random.Generator
) -> tuple[Quantizer, Bytes]:
    """Train the centres of each block of x (n x b x d), and encode x."""
    n, blocks, d = x.shape
    k = min(n_centres, n)
    centres = np.zeros((blocks, k, d), np.float32)
    distortion = np.zeros((blocks, k, n_classes), np.float32)
    codes = np.empty((n, blocks), np.uint8)
    for block in range(blocks):
        part = np.ascontiguousarray(x[:, block])
        learned = k_means(part, k, rng)
        cell = nearest_centroids(part, learned)[0]
        centres[block] = cell_means(part, cell, learned)
        length = np.zeros(n, np.intp)
        if n_classes > 1:
            square = np.square(part - centres[block, cell]).sum(axis=1, dtype=np.float64)
            length = length_classes(square, cell, n_classes)
            number = cell * n_classes + length
            total = np.bincount(number, square, minlength=k * n_classes)
            members = np.bincount(number, minlength=k * n_classes)
            distortion[block] = (total / np.maximum(members, 1)).reshape(k, n_classes)
        codes[:, block] = cell * n_classes + length
    return Quantizer(centres, distortion), codes


def cell_means(x: Floats, cell: Rows, centres: Floats) -> Floats:
    """Return the means of cells, so that the residuals of a cell have mean zero."""
    members = np.bincount(cell, minlength=len(centres))
    means = centres.astype(np.float64)
    for column in range(x.shape[1]):
        total = np.bincount(cell, x[:, column], minlength=len(centres))
        means[:, column] = np.where(members > 0, total / np.maximum(members, 1), means[:, column])
    return means.astype(np.float32)


def length_classes(square: npt.NDArray[Any], cell: Rows, n_classes: int) -> Rows:
    """Return the class of each residual: equal shares of a cell, by length."""
    order = np.lexsort((square, cell))
    members = np.bincount(cell)
    start = np.concatenate([[0], np.cumsum(members)[:-1]])
    rank = np.empty(len(cell), np.intp)
    rank[order] = np.arange(len(cell)) - start[cell[order]]
    return np.asarray(rank * n_classes // members[cell], np.intp)
