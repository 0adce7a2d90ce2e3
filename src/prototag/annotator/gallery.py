"""Gallery: names, labels, vectors and thumbnails of the training pictures.

Explanations and similar pictures need it; annotation does not.
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
from prototag.engine import batch_slices
from prototag.errors import ModelFileError
from prototag.images.decode import DIGEST_BYTES
from prototag.storage import modelfile

if TYPE_CHECKING:
    from scipy import sparse

    from prototag.annotator.training_set import TrainingSet
    from prototag.tagging.fit_result import FitResult
    from prototag.tagging.model import TagModel

BATCH_ROWS = 256  # vectors compared with all pictures at once: bounds the matrix of cosines


def _no_digests() -> npt.NDArray[np.uint8]:
    return np.zeros((0, DIGEST_BYTES), np.uint8)


@dataclass(frozen=True)
class Gallery:
    """The n training pictures in the order of training; a subset of very large training sets."""

    names: list[str]  # paths relative to the training folder
    digests: list[bytes]  # of the pixels
    tags: list[list[int]]  # columns of the tags of each picture
    vectors: Floats  # n x width, unit length, in the columns of the kernel
    prototypes: Rows  # k, row of the picture that each prototype is
    landmarks: Rows  # l, row of the picture that each kernel landmark is, or is nearest to
    thumbnails: list[bytes]  # WebP; empty where there is none
    held_out_scores: npt.NDArray[np.float16]  # n x t, raw scores
    omitted_digests: npt.NDArray[np.uint8] = field(
        default_factory=_no_digests
    )  # outside the subset

    @classmethod
    def from_fit(cls, result: FitResult, training: TrainingSet) -> Gallery:
        """Build the gallery of a fit."""
        subset = training.select_rows(result.gallery_images)
        return cls.from_training_set(
            subset,
            result.model,
            np.searchsorted(result.gallery_images, result.prototype_images),
            result.gallery_raw,
            has_own_landmarks=not result.landmarks_are_prototypes,
            omitted_digests=sorted(set(training.digests) - set(subset.digests)),
        )

    @classmethod
    def from_training_set(
        cls,
        training: TrainingSet,
        model: TagModel,
        prototypes: Rows,
        held_out_scores: Floats,
        *,
        has_own_landmarks: bool = False,
        omitted_digests: Sequence[bytes] = (),
    ) -> Gallery:
        """Build the gallery of a training set, or of a subset with the digests that it omits."""
        vectors = round_to_float16(model.vectors(training.X))
        landmarks = prototypes
        if has_own_landmarks:
            landmarks = nearest(model.kernel.landmarks, vectors)
        return cls(
            names=training.names,
            digests=training.digests,
            tags=[row.tolist() for row in np.split(training.Y.indices, training.Y.indptr[1:-1])],
            vectors=vectors,
            prototypes=prototypes,
            landmarks=landmarks,
            thumbnails=training.thumbnails,
            held_out_scores=held_out_scores.astype(np.float16),
            omitted_digests=_digest_array(omitted_digests),
        )

    def find(self, digests: Sequence[bytes]) -> Rows:
        """Find the rows of pictures by their digests; -1 where there is none."""
        return np.array([self._row_of_digest.get(digest, -1) for digest in digests], np.intp)

    @cached_property
    def _row_of_digest(self) -> dict[bytes, int]:
        return {digest: row for row, digest in enumerate(self.digests)}

    def tag_matrix(self) -> sparse.csr_array:
        """Return the tags of the pictures as a matrix, n x t, 0/1."""
        from scipy import sparse  # annotating does not import it

        offsets = np.cumsum([0, *map(len, self.tags)])
        columns = np.fromiter(chain.from_iterable(self.tags), np.int64, offsets[-1])
        shape = len(self.tags), self.held_out_scores.shape[1]
        return sparse.csr_array((np.ones(len(columns), np.int8), columns, offsets), shape=shape)

    def nearest(self, vector: Floats, count: int) -> tuple[Rows, Floats]:
        """Find the pictures with the largest cosine to a vector, and return rows and cosines."""
        cosines = _cosines(vector[None], self.vectors)[0]
        rows = np.argsort(-cosines, kind="stable")[:count]
        return rows, cosines[rows]

    def to_arrays(self) -> dict[str, Array]:
        """Return the arrays of a model file."""
        tags = self.tag_matrix()
        ends = np.cumsum([len(image) for image in self.thumbnails], dtype=np.int64)
        arrays: dict[str, Array] = {}
        if len(self.omitted_digests):
            arrays["omitted_digests"] = self.omitted_digests
        return arrays | {
            "digests": _digest_array(self.digests),
            "names": _byte_array(b"\0".join(os.fsencode(name) for name in self.names)),
            "tags": tags.indices.astype(np.int32),
            "tag_offsets": tags.indptr.astype(np.int64),
            "vectors": self.vectors.astype(np.float16),
            "prototypes": self.prototypes.astype(np.int64),
            "landmarks": self.landmarks.astype(np.int64),
            "thumbnails": _byte_array(b"".join(self.thumbnails)),
            "thumbnail_ends": ends,
            "held_out_scores": self.held_out_scores,
        }

    @classmethod
    def from_arrays(cls, arrays: Arrays, model: TagModel) -> Gallery:
        """Validate the arrays of a model file against its model."""
        t = model.n_tags
        digests = modelfile.expect_array(arrays, "digests", (None, DIGEST_BYTES), "u1")
        n = len(digests)
        names = _names(arrays, n)
        tags = modelfile.expect_array(arrays, "tags", (None,), "i4")
        offsets = modelfile.expect_array(arrays, "tag_offsets", (n + 1,), "i8")
        vectors = modelfile.expect_array(arrays, "vectors", (n, None), "f2")
        # Prototypes and landmarks of a model without training pictures are no pictures.
        k = len(model.prototypes) if n else 0
        n_landmarks = len(model.kernel.landmarks) if n else 0
        prototypes = modelfile.expect_array(arrays, "prototypes", (k,), "i8")
        landmarks = modelfile.expect_array(arrays, "landmarks", (n_landmarks,), "i8")
        rows = np.concatenate([prototypes, landmarks])
        thumbnails = modelfile.expect_array(arrays, "thumbnails", (None,), "u1").tobytes()
        ends = modelfile.expect_array(arrays, "thumbnail_ends", (n,), "i8")
        bounds = np.append(0, ends)
        starts = bounds[:-1]
        is_consistent = (
            offsets[0] == 0
            and offsets[-1] == len(tags)
            and (np.diff(offsets) >= 0).all()
            and ((tags >= 0) & (tags < t)).all()
            and ((rows >= 0) & (rows < n)).all()
            and (starts <= ends).all()
            and bounds[-1] == len(thumbnails)
        )
        if not is_consistent:
            raise ModelFileError("the training pictures do not fit the model: it is damaged.")
        return cls(
            names=names,
            digests=[digest.tobytes() for digest in digests],
            tags=[tags[a:b].tolist() for a, b in pairwise(offsets)],
            vectors=round_to_float16(vectors),
            prototypes=prototypes,
            landmarks=landmarks,
            thumbnails=[thumbnails[a:b] for a, b in zip(starts, ends, strict=True)],
            held_out_scores=modelfile.expect_array(arrays, "held_out_scores", (n, t), "f2"),
            omitted_digests=_omitted_digests(arrays),
        )


def _names(arrays: Arrays, n: int) -> list[str]:
    blob = modelfile.expect_array(arrays, "names", (None,), "u1").tobytes()
    names = [os.fsdecode(name) for name in blob.split(b"\0")] if n or blob else []
    if len(names) != n:
        raise ModelFileError(f"the gallery has {len(names)} names for {n} pictures: it is damaged.")
    return names


def _omitted_digests(arrays: Arrays) -> npt.NDArray[np.uint8]:
    if "omitted_digests" not in arrays:
        return _no_digests()
    return modelfile.expect_array(arrays, "omitted_digests", (None, DIGEST_BYTES), "u1")


def _digest_array(digests: Sequence[bytes]) -> npt.NDArray[np.uint8]:
    return _byte_array(b"".join(digests)).reshape(-1, DIGEST_BYTES)


def _byte_array(data: bytes) -> npt.NDArray[np.uint8]:
    return np.frombuffer(data, np.uint8)


def round_to_float16(vectors: Array) -> Floats:
    """Round vectors to the precision of a model file: three digits suffice to compare them."""
    return vectors.astype(np.float16).astype(np.float32)


def _cosines(vectors: Floats, pictures: Floats) -> Floats:
    """Compute the cosines of unit vectors (rows) with all pictures (columns)."""
    length = np.linalg.norm(pictures, axis=1)  # nearly 1, after rounding
    length = np.where(length > 0, length, 1).astype(np.float32)
    return np.asarray(vectors @ pictures.T / length, np.float32)


def nearest(vectors: Floats, pictures: Floats) -> Rows:
    """Find the nearest picture of each vector by cosine."""
    parts = [
        _cosines(vectors[rows], pictures).argmax(axis=1)
        for rows in batch_slices(len(vectors), BATCH_ROWS)
    ]
    return np.concatenate(parts)
