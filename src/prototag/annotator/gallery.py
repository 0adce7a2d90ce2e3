"""The pictures that a model learned from: what they are called, their tags, vectors, thumbnails.

Annotating needs none of it; explaining and finding similar pictures do.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from prototag.arrays import Array, Arrays, Floats, Rows
from prototag.engine import blocks
from prototag.errors import ModelFileError
from prototag.images.decode import DIGEST_BYTES
from prototag.storage import modelfile

if TYPE_CHECKING:
    from scipy import sparse

    from prototag.annotator.training_set import TrainingSet
    from prototag.tagging.fit_result import FitResult
    from prototag.tagging.model import TagModel

ROWS = 256  # compared at once


def _none() -> npt.NDArray[np.uint8]:
    return np.zeros((0, DIGEST_BYTES), np.uint8)


@dataclass(frozen=True)
class Gallery:
    """n training pictures, in the order in which they were given; of very many a part."""

    names: list[str]  # paths below the folder that was learned
    digests: list[bytes]  # of their contents
    tags: list[list[int]]  # numbers of the tags of each
    vectors: Floats  # n x width, unit length, of what the network saw
    prototypes: Rows  # k, which picture each prototype is
    landmarks: Rows  # l, which picture each landmark of the kernel is
    thumbnails: list[bytes]  # WebP; empty where there is none
    left_out: npt.NDArray[np.float16]  # n x t, raw scores while it was left out
    others: npt.NDArray[np.uint8] = field(default_factory=_none)  # digests of those not kept

    @classmethod
    def of_fit(cls, result: FitResult, training: TrainingSet) -> Gallery:
        """Return the gallery of a fit to these pictures; of very many pictures it keeps a part."""
        shown = training.only(result.gallery_images)
        return cls.of_training(
            shown,
            result.model,
            np.searchsorted(result.gallery_images, result.prototype_images),
            result.gallery_raw,
            own_landmarks=not result.landmarks_are_prototypes,
            others=sorted(set(training.digests) - set(shown.digests)),
        )

    @classmethod
    def of_training(
        cls,
        training: TrainingSet,
        model: TagModel,
        prototypes: Rows,
        left_out: Floats,
        *,
        own_landmarks: bool = False,
        others: Sequence[bytes] = (),
    ) -> Gallery:
        """Of the pictures that a model was learned from; ``prototypes`` are some of them.

        ``others`` are the digests of pictures that were learned and are not here.
        """
        vectors = rounded(model.kernel_vectors(training.X))
        landmarks = prototypes
        if own_landmarks:
            landmarks = nearest(model.kernel.landmarks, vectors)
        return cls(
            training.names,
            training.digests,
            [row.tolist() for row in np.split(training.Y.indices, training.Y.indptr[1:-1])],
            vectors,
            prototypes,
            landmarks,
            training.thumbnails,
            left_out.astype(np.float16),
            _digests(others),
        )

    def find(self, digests: Sequence[bytes]) -> Rows:
        """Which pictures these are, by the digests of their contents; -1 where it is none."""
        return np.array([self._numbers.get(digest, -1) for digest in digests], np.intp)

    @cached_property
    def _numbers(self) -> dict[bytes, int]:
        return {digest: number for number, digest in enumerate(self.digests)}

    def tag_matrix(self) -> sparse.csr_array:
        """The tags of the pictures, n x t, 0/1."""
        from scipy import sparse  # which annotating does without

        limits = np.cumsum([0, *map(len, self.tags)])
        columns = np.fromiter(chain.from_iterable(self.tags), np.int64, limits[-1])
        shape = len(self.tags), self.left_out.shape[1]
        return sparse.csr_array((np.ones(len(columns), np.int8), columns, limits), shape=shape)

    def nearest(self, vector: Floats, count: int) -> tuple[Rows, Floats]:
        """The pictures with the largest cosine to a vector, and the cosines."""
        cosine = _cosines(vector[None], self.vectors)[0]
        best = np.argsort(-cosine, kind="stable")[:count]
        return best, cosine[best]

    def to_arrays(self) -> dict[str, Array]:
        tags = self.tag_matrix()
        ends = np.cumsum([len(image) for image in self.thumbnails], dtype=np.int64)
        arrays: dict[str, Array] = {"others": self.others} if len(self.others) else {}
        return arrays | {
            "digests": _digests(self.digests),
            "names": _bytes(b"\0".join(os.fsencode(name) for name in self.names)),
            "tags": tags.indices.astype(np.int32),
            "limits": tags.indptr.astype(np.int64),
            "vectors": self.vectors.astype(np.float16),
            "prototypes": self.prototypes.astype(np.int64),
            "landmarks": self.landmarks.astype(np.int64),
            "thumbnails": _bytes(b"".join(self.thumbnails)),
            "thumbnail_ends": ends,
            "left_out": self.left_out,
        }

    @classmethod
    def of(cls, arrays: Arrays, model: TagModel) -> Gallery:
        """From arrays of a model file, checked against the model."""
        t = model.n_tags
        k = len(model.prototypes)
        count = len(model.kernel.landmarks)
        blob = modelfile.expect(arrays, "names", (None,), "u1").tobytes()
        names = [os.fsdecode(name) for name in blob.split(b"\0")]
        n = len(names)
        digests = modelfile.expect(arrays, "digests", (n, DIGEST_BYTES), "u1")
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
            [digest.tobytes() for digest in digests],
            [tags[a:b].tolist() for a, b in pairwise(limits)],
            rounded(vectors),
            prototypes,
            landmarks,
            [thumbnails[a:b] for a, b in zip(starts, ends, strict=True)],
            modelfile.expect(arrays, "left_out", (n, t), "f2"),
            other_digests(arrays, "others"),
        )


def other_digests(arrays: Arrays, name: str) -> npt.NDArray[np.uint8]:
    """Digests of the pictures that were learned and not kept; a file need not have any."""
    if name not in arrays:
        return _none()
    return modelfile.expect(arrays, name, (None, DIGEST_BYTES), "u1")


def _digests(digests: Sequence[bytes]) -> npt.NDArray[np.uint8]:
    return _bytes(b"".join(digests)).reshape(-1, DIGEST_BYTES)


def rounded(vectors: Array) -> Floats:
    """Vectors as a file keeps them: to three digits, which are plenty to compare."""
    return vectors.astype(np.float16).astype(np.float32)


def _cosines(vectors: Floats, pictures: Floats) -> Floats:
    """Of vectors at unit length (rows) with all pictures (columns)."""
    length = np.linalg.norm(pictures, axis=1)  # nearly 1: they were rounded
    length = np.where(length > 0, length, 1).astype(np.float32)
    return np.asarray(vectors @ pictures.T / length, np.float32)


def nearest(vectors: Floats, pictures: Floats) -> Rows:
    """Which picture each vector is nearest to."""
    parts = [
        _cosines(vectors[rows], pictures).argmax(axis=1) for rows in blocks(len(vectors), ROWS)
    ]
    return np.concatenate(parts)


def _bytes(data: bytes) -> npt.NDArray[np.uint8]:
    return np.frombuffer(data, np.uint8)
