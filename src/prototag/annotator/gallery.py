"""The pictures that a model learned from: what they are called, their tags, vectors, thumbnails.

Annotating needs none of it; explaining and finding similar pictures do.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from prototag.engine.blocks import blocks
from prototag.errors import ModelFileError
from prototag.storage import modelfile

Floats = npt.NDArray[np.float32]
ROWS = 256  # compared at once


@dataclass(frozen=True)
class Gallery:
    """n training pictures, in the order in which they were given."""

    names: list[str]  # paths below the folder that was learned
    tags: list[list[int]]  # numbers of the tags of each
    vectors: Floats  # n x width, unit length, of what the network saw
    prototypes: npt.NDArray[np.int64]  # k, which picture each prototype is
    landmarks: npt.NDArray[np.int64]  # l, which picture each landmark of the kernel is
    thumbnails: list[bytes]  # WebP; empty where there is none
    out_of_fold: npt.NDArray[np.float16]  # n x t, plain scores while it was left out

    def cosines(self, vectors: Floats) -> Floats:
        """Of vectors at unit length (rows) with all pictures (columns)."""
        length = np.linalg.norm(self.vectors, axis=1)  # nearly 1: they were rounded
        length = np.where(length > 0, length, 1).astype(np.float32)
        return np.asarray(vectors @ self.vectors.T / length, np.float32)

    def find(self, vectors: Floats) -> npt.NDArray[np.intp]:
        """Which pictures these vectors are, or are nearest to."""
        parts = blocks(len(vectors), ROWS)
        return np.concatenate([self.cosines(vectors[rows]).argmax(axis=1) for rows in parts])

    def nearest(self, vector: Floats, count: int) -> tuple[npt.NDArray[np.intp], Floats]:
        """The pictures with the largest cosine to a vector, and the cosines."""
        cosine = self.cosines(vector[None])[0]
        best = np.argsort(-cosine, kind="stable")[:count]
        return best, cosine[best]

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        limits = np.cumsum([0, *(len(tags) for tags in self.tags)])
        ends = np.cumsum([len(image) for image in self.thumbnails], dtype=np.int64)
        return {
            "names": _bytes(b"\0".join(os.fsencode(name) for name in self.names)),
            "tags": np.array([tag for tags in self.tags for tag in tags], np.int32),
            "limits": limits.astype(np.int64),
            "vectors": self.vectors.astype(np.float16),
            "prototypes": self.prototypes.astype(np.int64),
            "landmarks": self.landmarks.astype(np.int64),
            "thumbnails": _bytes(b"".join(self.thumbnails)),
            "thumbnail_ends": ends,
            "out_of_fold": self.out_of_fold,
        }

    @classmethod
    def of(cls, arrays: Mapping[str, npt.NDArray[Any]], t: int, k: int, count: int) -> Gallery:
        """From arrays of a model file, checked."""
        blob = modelfile.expect(arrays, "names", (None,), "u1").tobytes()
        names = [os.fsdecode(name) for name in blob.split(b"\0")]
        n = len(names)
        tags = modelfile.expect(arrays, "tags", (None,), "i4")
        limits = modelfile.expect(arrays, "limits", (n + 1,), "i8")
        vectors = modelfile.expect(arrays, "vectors", (n, None), "f2")
        prototypes = modelfile.expect(arrays, "prototypes", (k,), "i8")
        landmarks = modelfile.expect(arrays, "landmarks", (count,), "i8")
        shown = np.concatenate([prototypes, landmarks])
        thumbnails = modelfile.expect(arrays, "thumbnails", (None,), "u1").tobytes()
        ends = modelfile.expect(arrays, "thumbnail_ends", (n,), "i8")
        starts = np.append(0, ends)[:-1]
        fits = (
            limits[0] == 0
            and limits[-1] == len(tags)
            and (np.diff(limits) >= 0).all()
            and ((tags >= 0) & (tags < t)).all()
            and ((shown >= 0) & (shown < n)).all()
            and (starts <= ends).all()
            and ends[-1] == len(thumbnails)
        )
        if not fits:
            raise ModelFileError("the training pictures do not fit the model: it is damaged.")
        return cls(
            names,
            [tags[a:b].tolist() for a, b in pairwise(limits)],
            rounded(vectors),
            prototypes,
            landmarks,
            [thumbnails[a:b] for a, b in zip(starts, ends, strict=True)],
            modelfile.expect(arrays, "out_of_fold", (n, t), "f2"),
        )


def rounded(vectors: npt.NDArray[Any]) -> Floats:
    """Vectors as a file keeps them: to three digits, which are plenty to compare."""
    return vectors.astype(np.float16).astype(np.float32)


def _bytes(data: bytes) -> npt.NDArray[np.uint8]:
    return np.frombuffer(data, np.uint8)
