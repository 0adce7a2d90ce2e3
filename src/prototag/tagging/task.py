"""What is learned from: examples, which are pictures or bursts of them, and what is known of each.

Frames of a burst look alike and have the same tags. Each would be judged by its twins, and every
promise would be one about twins: so a burst is one example, the mean of its frames with the tags of
all. Pairs of example and tag may be unknown: neither there nor ruled out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import numpy as np
from scipy import sparse

from prototag.arrays import Bools, Floats, Rows, normalize_rows
from prototag.engine import Engine, batch_slices
from prototag.tagging.loo_ridge import kernel_ridge

Option = TypeVar("Option")

ALIKE = 0.95  # cosine about the mean of frames of one burst; series of one scene are below it
FRAMES = 2  # how far apart two frames of a burst may be in the order of images
LONGEST = 10  # frames of a burst
COPY = 0.995  # cosine of two copies of one picture
SKETCH = 128  # random columns in which copies are looked for
NEAR = 0.9  # cosine in them from which on two images are compared as they are
WIDE = 64  # columns: shorter vectors are alike by chance
MOST = 50_000  # images; of more, neither is looked for
ROWS = 1024  # compared at once
HESITATION = 0.1  # for each step from the usual choice, divided by the root of the right pairs
FILLED = 4  # rounds until pairs of which nothing is known have settled
MANY = 5_000  # images from which on that is done over as many landmarks


class Examples(NamedTuple):
    """Which images make up each example."""

    Y: sparse.csr_array  # examples x tags
    images: Rows  # the first image of each example
    of: Rows  # n, the example that each image belongs to


@dataclass(frozen=True, eq=False)
class Task:
    """What every stage is given."""

    X: Floats  # n x m, network vectors as they are
    Y: sparse.csr_array  # n x t, tags that are known
    T: Floats  # the same, dense; how likely a tag is where nothing is known of it
    unknown: Bools | None  # n x t, pairs of image and tag of which nothing is known
    labels: bool  # one label for each image, not tags
    seed: int
    sample: Rows  # images on which choices are tried
    engine: Engine

    @property
    def frequency(self) -> Floats:
        """Of each tag, at least that of one image."""
        return np.asarray(np.maximum(self.T.mean(axis=0), 1 / len(self.T)))

    @property
    def complete(self) -> Rows:
        """Images of which all is known."""
        if self.unknown is None:
            return np.arange(len(self.T))
        return np.flatnonzero(~self.unknown.any(axis=1))

    def known(self, scores: Floats, rows: Rows | slice = slice(None)) -> Floats:
        """Scores of some images; pairs of which nothing is known come last and judge nothing."""
        if self.unknown is None:
            return scores
        return np.where(self.unknown[rows], scores.min(axis=0), scores)

    def choose(
        self, options: Sequence[Option], usual: Option, annotates: Callable[[Option], float]
    ) -> Option:
        """The option that annotates best; the farther from the usual, the clearer it must be.

        Steps of the grid are counted, of pairs in both directions. By how much one must be better
        for each falls with the right pairs: few cannot decide, and would decide by luck.
        """
        if len(options) == 1:
            return options[0]
        held = HESITATION / np.sqrt(max(float(self.T.sum()), 1.0))
        grids = [np.unique(part) for part in np.reshape(np.array(options), (len(options), -1)).T]

        def steps(option: Option) -> float:
            ends = zip(grids, np.ravel(np.array(option)), np.ravel(np.array(usual)), strict=True)
            return sum(
                abs(float(grid.searchsorted(a) - grid.searchsorted(b))) for grid, a, b in ends
            )

        return max(options, key=lambda option: annotates(option) - held * steps(option))


def gather(
    X: Floats, Y: sparse.csr_array, unknown: Bools | None, groups: Rows | None
) -> tuple[Floats, Bools | None, Examples]:
    """Vectors, unknown pairs and tags of the examples that images make up.

    ``groups`` says which images belong together; without it bursts are looked for.
    """
    of = np.asarray(bursts(X, Y) if groups is None else np.unique(groups, return_inverse=True)[1])
    count = int(of.max()) + 1
    images = np.unique(of, return_index=True)[1]
    if count == len(X):
        return X, unknown, Examples(Y, np.arange(count), np.arange(count))
    member = sparse.csr_array((np.ones(len(of), np.float32), (of, np.arange(len(of)))))
    size = np.bincount(of).astype(np.float32)[:, None]
    tags = sparse.csr_array(member @ Y)
    tags.data[:] = 1
    if unknown is not None:
        unknown = (member @ unknown.astype(np.float32) == size) & (tags.toarray() == 0)
    means = np.asarray(member @ X / size, X.dtype)
    alone = size[:, 0] == 1
    means[alone] = X[images[alone]]
    return means, unknown, Examples(tags, images, of)


def bursts(X: Floats, Y: sparse.csr_array) -> Rows:
    """Of each image the number of its burst, in the order of first images.

    Copies of a picture belong together wherever they are. Frames of a burst are alike, too, but so
    are pictures of one product or one page: they are taken for a burst only if they follow each
    other in the order given, as files of a folder do, and if one of both has all tags of the other.
    """
    n, m = X.shape
    first = np.arange(n)
    if m < WIDE or not 2 < n <= MOST:
        return first
    x = normalize_rows(X - X.mean(axis=0, dtype=np.float64).astype(X.dtype))
    alike = np.zeros((n, FRAMES), bool)  # of each image and the one before it, the one before that
    for back in range(1, FRAMES + 1):
        alike[back:, back - 1] = np.einsum("ij,ij->i", x[back:], x[:-back]) > ALIKE
    for i in np.flatnonzero(alike.any(axis=1)).tolist():
        for j in (i - 1 - np.flatnonzero(alike[i])).tolist():
            run = np.count_nonzero(first[max(i - LONGEST, 0) : i] == first[j])
            if run < LONGEST and _agree(Y, j, i):
                first[i] = first[j]
                break
    sketch = x
    if m > SKETCH:
        drawn = np.random.default_rng(0).standard_normal((m, SKETCH))
        sketch = normalize_rows(x @ drawn.astype(x.dtype))
    for rows in batch_slices(n, ROWS):
        near = sketch[rows] @ sketch[: rows.stop].T > NEAR
        for i in np.flatnonzero(np.count_nonzero(near, axis=1) > 1) + rows.start:
            before = np.flatnonzero(near[i - rows.start, :i])
            copies = [j for j in before[x[before] @ x[i] > COPY] if _agree(Y, int(j), int(i))]
            if copies:
                first[first == first[i]] = first[copies[0]]
    return np.asarray(np.unique(first, return_inverse=True)[1])


def _agree(Y: sparse.csr_array, one: int, other: int) -> bool:
    """Whether one image has all tags of the other."""
    a, b = (set(Y.indices[Y.indptr[i] : Y.indptr[i + 1]].tolist()) for i in (one, other))
    return a <= b or b <= a


def fill(task: Task, short: Floats) -> Task:
    """Say of pairs of which nothing is known how likely they are, by all other images.

    A regression to which an image's own left-out prediction is given as its answer is the one
    without that image: where this settles, pairs of which nothing is known teach nothing. But
    somebody looked at these images and said nothing of the tag: the more of what they are expected
    to have was said, the less likely is what was not.
    """
    if task.unknown is None:
        return task
    silent = task.unknown
    asked = task.unknown.any(axis=1)
    spoken = np.maximum((~silent).sum(axis=0), 1)
    T = np.where(silent, task.T.sum(axis=0) / spoken, task.T).astype(np.float32)
    chosen = None
    if len(T) > MANY:
        chosen = np.sort(np.random.default_rng(task.seed).permutation(len(T))[:MANY])
    for _ in range(FILLED):
        found = kernel_ridge(
            short,
            T,
            gamma=1.0,
            strength=1.0,
            chosen=chosen,
            engine=task.engine,
        )
        likely = np.clip(found.left_out, 0, 1)
        said = float(task.T[asked].sum())
        told = min(said / max(said + float(likely[silent].sum()), 1.0), 1.0)
        T = np.where(silent, likely * (1 - told) / (1 - told * likely + 1e-6), T)
    return replace(task, T=np.asarray(T, np.float32))
