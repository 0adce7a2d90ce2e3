"""The data set type that every loader returns: images or vectors, tags and a split."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy import sparse

from prototag.errors import DatasetError, InputError

Ints = npt.NDArray[np.int64]
Seed = int | np.random.Generator | np.random.RandomState | None


@dataclass(frozen=True, eq=False, repr=False)
class Collection:
    """Tagged images, as vectors or as files, with a split into training and test.

    Attributes
    ----------
    name : str
        The name of the data set.
    Y : csr_array of shape (n, t), float32
        1 where an image has a tag.
    tags : list of str
        Names of the columns of ``Y``, all different.
    train : ndarray of int64
        The training rows.
    test : ndarray of int64
        The test rows; no row is in both.
    X : ndarray of shape (n, m), float32, optional
        Vectors.
    images : sequence of Path or of bytes, optional
        The picture files, or their contents.
    names : list of str, optional
        The names of the images in the data set.
    groups : ndarray of shape (n,), int64, optional
        Near-duplicates have equal numbers, for splits that keep them together.
    source : str
        A description of the source.
    checksum : str
        SHA-256 of the annotation files and of the vectors.
    """

    name: str
    Y: sparse.csr_array
    tags: list[str]
    train: Ints
    test: Ints
    X: npt.NDArray[np.float32] | None = None
    images: Sequence[Path] | Sequence[bytes] | None = None
    names: list[str] | None = None
    groups: Ints | None = None
    source: str = ""
    checksum: str = ""

    def __post_init__(self) -> None:
        n, t = self.Y.shape
        if n == 0 or t == 0:
            raise DatasetError(f"{self.name}: {n} images with {t} tags: give at least one of each.")
        if len(self.tags) != t:
            raise DatasetError(f"{self.name}: {len(self.tags)} names for {t} tags.")
        twice = [tag for tag, times in Counter(self.tags).items() if times > 1]
        if twice:
            raise DatasetError(f"{self.name}: the tag {twice[0]!r} is named twice: rename one.")
        if (self.Y.data != 1).any():
            wrong = self.Y.data[self.Y.data != 1][0]
            raise DatasetError(f"{self.name}: the tags contain {wrong}: 0 or 1 are allowed.")
        for what in ("X", "images", "names", "groups"):
            given = getattr(self, what)
            if given is not None and len(given) != n:
                raise DatasetError(f"{self.name}: {what} has {len(given)} rows, the tags have {n}.")
        for what in ("train", "test"):
            rows = getattr(self, what)
            if len(rows) and (rows.min() < 0 or rows.max() >= n):
                raise DatasetError(f"{self.name}: {what} names rows outside of 0 ... {n - 1}.")
        used = np.concatenate([self.train, self.test])
        if len(np.unique(used)) < len(used):
            raise DatasetError(f"{self.name}: a row occurs twice in training and test.")

    def __str__(self) -> str:
        n, t = self.Y.shape
        what = "" if self.X is None else f", vectors of {self.X.shape[1]}"
        return (
            f"{self.name}: {n:,} images ({len(self.train):,} training, {len(self.test):,} test), "
            f"{t:,} tags, {self.Y.nnz / n:.1f} an image{what}"
        )

    def __repr__(self) -> str:
        return f"<{self}>"

    def keep(self, rows: npt.ArrayLike) -> Collection:
        """Return the collection with only these ``rows`` (increasing numbers) and their split.

        ``collection.keep(features.kept)`` removes images that could not be read.
        """
        kept = np.asarray(rows, dtype=np.int64)
        n = self.Y.shape[0]
        if len(kept) and (kept[0] < 0 or kept[-1] >= n or (np.diff(kept) <= 0).any()):
            raise InputError(f"rows must be increasing numbers from 0 to {n - 1}.")
        new_row = np.full(n, -1)
        new_row[kept] = np.arange(len(kept))
        train, test = (new_row[part][new_row[part] >= 0] for part in (self.train, self.test))
        return replace(
            self,
            Y=sparse.csr_array(self.Y[kept]),
            train=train,
            test=test,
            X=None if self.X is None else self.X[kept],
            images=None if self.images is None else [self.images[i] for i in kept],
            names=None if self.names is None else [self.names[i] for i in kept],
            groups=None if self.groups is None else self.groups[kept],
        )

    def with_vectors(self, X: npt.ArrayLike) -> Collection:
        """Return the collection with these vectors, one row per image."""
        return replace(self, X=np.ascontiguousarray(X, dtype=np.float32))


def tag_matrix(
    tag_lists: Iterable[Iterable[str]], tags: Sequence[str] | None = None
) -> tuple[sparse.csr_array, list[str]]:
    """Convert tag lists to a CSR matrix; without ``tags``, columns are all tags, sorted."""
    lists = [list(dict.fromkeys(image_tags)) for image_tags in tag_lists]
    names = sorted({tag for row in lists for tag in row}) if tags is None else list(tags)
    column = {tag: number for number, tag in enumerate(names)}
    unknown = next((tag for row in lists for tag in row if tag not in column), None)
    if unknown is not None:
        raise DatasetError(f"The tag {unknown!r} is not in the list of {len(names)} tags.")
    rows = np.repeat(np.arange(len(lists)), [len(row) for row in lists])
    columns = np.array([column[tag] for row in lists for tag in row], dtype=np.int64)
    shape = (len(lists), len(names))
    ones = np.ones(len(rows), np.float32)
    return sparse.csr_array(sparse.coo_array((ones, (rows, columns)), shape=shape)), names
