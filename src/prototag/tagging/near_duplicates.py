"""Detection of near-duplicate groups: copies of a picture, and frames of a burst.

Near-duplicates leak across folds and inflate validation scores, so each group is one example.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from prototag.arrays import Floats, Rows, normalize_rows
from prototag.engine import batch_slices

MIN_BURST_COSINE = 0.95  # about the mean, of frames of a burst; series of one scene are below it
MAX_FRAME_GAP = 2  # how far apart two frames of a burst may be in the order of images
MAX_BURST_LENGTH = 10  # frames of a burst
MIN_COPY_COSINE = 0.995  # of two copies of one picture
SKETCH_COLUMNS = 128  # random projections in which candidates for copies are searched
MIN_SKETCH_COSINE = 0.9  # in them, from which on two images are compared exactly
MIN_COLUMNS = 64  # shorter vectors are similar by chance
MAX_IMAGES = 50_000  # the search compares all pairs; larger collections are not searched
SEARCH_BATCH = 1024  # rows whose cosines are computed at once


def near_duplicate_groups(X: Floats, Y: sparse.csr_array) -> Rows:
    """Return the number of each image's near-duplicate group, in the order of first images.

    Copies of a picture belong together wherever they are. Frames of a burst are similar, but so
    are pictures of one product or one page: they form a group only if they follow each other in
    the given order, as files of a folder do, and if one of both has all tags of the other.
    """
    n, m = X.shape
    first = np.arange(n)
    if m < MIN_COLUMNS or not 2 < n <= MAX_IMAGES:
        return first
    x = normalize_rows(X - X.mean(axis=0, dtype=np.float64).astype(X.dtype))
    _join_bursts(first, x, Y)
    _join_copies(first, x, Y)
    return np.asarray(np.unique(first, return_inverse=True)[1])


def _join_bursts(first: Rows, x: Floats, Y: sparse.csr_array) -> None:
    """Give each frame of a burst the number of the burst's first frame, in place."""
    n = len(x)
    similar = np.zeros((n, MAX_FRAME_GAP), bool)  # image i and image i - 1 - column
    for gap in range(1, MAX_FRAME_GAP + 1):
        cosine = np.einsum("ij,ij->i", x[gap:], x[:-gap])
        similar[gap:, gap - 1] = cosine > MIN_BURST_COSINE
    for i in np.flatnonzero(similar.any(axis=1)).tolist():
        for j in (i - 1 - np.flatnonzero(similar[i])).tolist():
            length = np.count_nonzero(first[max(i - MAX_BURST_LENGTH, 0) : i] == first[j])
            if length < MAX_BURST_LENGTH and _tags_agree(Y, j, i):
                first[i] = first[j]
                break


def _join_copies(first: Rows, x: Floats, Y: sparse.csr_array) -> None:
    """Join the groups of copies, in place; candidates come from a random projection."""
    n, m = x.shape
    sketch = x
    if m > SKETCH_COLUMNS:
        directions = np.random.default_rng(0).standard_normal((m, SKETCH_COLUMNS))
        sketch = normalize_rows(x @ directions.astype(x.dtype))
    for rows in batch_slices(n, SEARCH_BATCH):
        near = sketch[rows] @ sketch[: rows.stop].T > MIN_SKETCH_COSINE
        for i in np.flatnonzero(np.count_nonzero(near, axis=1) > 1) + rows.start:
            earlier = np.flatnonzero(near[i - rows.start, :i])
            candidates = earlier[x[earlier] @ x[i] > MIN_COPY_COSINE]
            copies = [j for j in candidates if _tags_agree(Y, int(j), int(i))]
            if copies:
                first[first == first[i]] = first[copies[0]]


def _tags_agree(Y: sparse.csr_array, one: int, other: int) -> bool:
    """Whether one image has all tags of the other."""
    a, b = (set(Y.indices[Y.indptr[i] : Y.indptr[i + 1]].tolist()) for i in (one, other))
    return a <= b or b <= a
