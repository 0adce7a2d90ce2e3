"""Makes the files of :mod:`prototag.knowledge`: concept heads and the general vocabulary.

    pip install --group tools
    python -m tools.make_knowledge DATA TRANSLATIONS

DATA is a folder with ``iaprtc12_lite0_large.npz`` and ``words/`` (captions of COCO, descriptions of
IAPR TC-12, each with the default vectors of its images). TRANSLATIONS is a tab-separated file: a
line for each word, a column for each language. Sources, licences and checksums are in NOTICE.

A *concept* is a word of one source and a linear head, which scores images by a ridge regression of
the word on default vectors. Each class of ImageNet is a concept, too: its head is the classifier of
the network. Heads of words that are no concept are predicted from the vectors of the words, by a
Gaussian process over all concepts (:func:`smooth_heads`).

Heads learned from a collection know its images. To judge knowledge on a collection, ``exclude`` its
source: benchmarks/knowledge does.
"""

from __future__ import annotations

import argparse
from collections.abc import Collection, Sequence
from importlib import resources
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import sparse

from prototag.knowledge.concepts import FOLDER, ConceptHeads, word_kernel
from prototag.knowledge.words import encode_phrases
from tools.embed_lite import original_weights

RIDGE_PENALTY = 10.0  # of vectors scaled by 1 / sqrt(m): best of 1 to 300, judged on another source
MIN_IMAGES = 25  # of a word with a head
WORD_NOISE = 3.0  # of the Gaussian process: best of 0.3 to 3, judged on another source
SOURCES = ("coco", "iaprtc12", "imagenet")
# Words of captions that describe no image.
STOP_WORDS = frozenset(
    """a an the and or but of on in at to by for from with without into onto over off out up down
    is are was were be been being am has have having had do does doing done can could will would
    it its his her hers him he she they them their this that these those there here what which who
    whose where when while as than then so such some any all both each every many several other
    others another one's very too also just only not no yes more most much few lot lots bit kind
    type types sort something someone somebody anything everything thing things stuff we you your
    i my our us s t st
    """.split()
)


class Concepts(NamedTuple):
    """Words and heads of one source."""

    names: list[list[str]]  # of each concept, its words
    heads: np.ndarray  # axes x concepts, applied to coordinates on the axes


class Data:
    """The sources, in coordinates on the principal axes of default vectors."""

    def __init__(self, folder: Path) -> None:
        captions = np.load(folder / "words/coco_captions.npz", allow_pickle=False)
        self.mean = captions["mean"]
        self.scale = captions["scale"]
        self.axes = captions["axes"].astype(np.float32)
        self.caption_vectors = captions["Q"].astype(np.float32) * captions["q"]
        self.caption_words = [str(word) for word in captions["words"]]
        self.captions = _indicator(captions, len(self.caption_words), "")
        bits = np.unpackbits(captions["label_bits"], axis=1)[:, : len(captions["labels"])]
        self.coco_labels = bits.astype(np.float32)
        self.is_labelled = captions["labelled"]
        self.label_names = [split_label(str(name)) for name in captions["labels"]]
        iapr = np.load(folder / "iaprtc12_lite0_large.npz", allow_pickle=False)
        X = np.hstack([iapr["X"], iapr["mid"]]).astype(np.float32)
        self.iapr_vectors = self.coordinates(X)
        bits = np.unpackbits(iapr["label_bits"], axis=1)[:, : int(iapr["n_tags"])]
        self.iapr_labels = bits.astype(np.float32)
        self.iapr_tags = [str(tag) for tag in iapr["tags"]]
        texts = np.load(folder / "words/iaprtc12_descriptions.npz", allow_pickle=False)
        self.description_words = [str(word) for word in texts["words_eng"]]
        self.descriptions = _indicator(texts, len(self.description_words), "_eng")

    def coordinates(self, X: np.ndarray) -> np.ndarray:
        """Return the coordinates of default vectors on the axes."""
        return np.asarray(((X - self.mean) / self.scale) @ self.axes, np.float32)


def _indicator(file: np.lib.npyio.NpzFile, count: int, suffix: str) -> sparse.csr_array:
    """Return which words occur with each image."""
    indptr = file[f"indptr{suffix}"]
    indices = file[f"indices{suffix}"]
    ones = np.ones(len(indices), np.float32)
    return sparse.csr_array((ones, indices, indptr), shape=(len(indptr) - 1, count))


def split_label(label: str) -> str:
    """Return the labels of COCO as two words where their list joins them."""
    joined = {"pottedplant": "potted plant", "diningtable": "dining table"}
    return joined.get(label, label.replace("tvmonitor", "tv monitor"))


def concepts_of(data: Data, exclude: Collection[str] = ()) -> list[Concepts]:
    """Return the concepts of all sources but the excluded ones."""
    parts = []
    if "coco" not in exclude:
        parts.append(_word_concepts(data.caption_vectors, data.captions, data.caption_words))
        rows = np.flatnonzero(data.is_labelled)
        heads = ridge_heads(data.caption_vectors[rows], data.coco_labels[rows])
        parts.append(Concepts([[name] for name in data.label_names], heads))
    if "iaprtc12" not in exclude:
        parts.append(_word_concepts(data.iapr_vectors, data.descriptions, data.description_words))
        heads = ridge_heads(data.iapr_vectors, data.iapr_labels)
        parts.append(Concepts([[tag] for tag in data.iapr_tags], heads))
    if "imagenet" not in exclude:
        parts.append(_imagenet_concepts(data))
    return parts


def _word_concepts(
    vectors: np.ndarray, indicator: sparse.csr_array, words: Sequence[str]
) -> Concepts:
    count = np.asarray(indicator.sum(axis=0)).ravel()
    kept = [
        column
        for column, word in enumerate(words)
        if count[column] >= MIN_IMAGES and word not in STOP_WORDS
    ]
    heads = ridge_heads(vectors, indicator[:, kept].toarray())
    return Concepts([[words[column]] for column in kept], heads)


def ridge_heads(vectors: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """Return heads (axes x words) of a ridge regression, for words of deviation 1."""
    m = 2272  # columns of default vectors, by which the penalty is scaled
    frequency = Y.mean(axis=0)
    T = (Y - frequency) / np.sqrt(np.maximum(frequency * (1 - frequency), 1e-9))
    centered = vectors - vectors.mean(axis=0)
    gram = (centered.T @ centered).astype(np.float64) / m
    gram[np.diag_indices_from(gram)] += RIDGE_PENALTY
    return np.linalg.solve(gram, (centered.T @ T) / m).astype(np.float32)


def _imagenet_concepts(data: Data) -> Concepts:
    """Return the classes of the network, by the names that timm lists."""
    weights = original_weights()
    (classifier,) = (value for value in weights.values() if value.shape == (1000, 1280))
    raw = np.zeros((len(data.scale), 1000), np.float32)
    raw[:1280] = classifier.T
    folder = resources.files("timm.data") / "_info"
    lemmas = dict(
        line.split("\t") for line in (folder / "imagenet_synset_to_lemma.txt").read_text("utf-8").splitlines()
    )
    synsets = (folder / "imagenet_synsets.txt").read_text("utf-8").split()
    names = [lemmas[synset].split(", ") for synset in synsets]
    return Concepts(names, data.axes.T @ (raw * data.scale[:, None]))


def smooth_heads(data: Data, parts: Sequence[Concepts], reference: np.ndarray) -> ConceptHeads:
    """Fit the Gaussian process from words to heads.

    Its targets are the heads, scaled so that the scores of ``reference`` images have deviation 1.
    The noise of a concept is the greater the less its head explains: the deviation of unscaled
    scores is the multiple correlation of the regression. Classes of ImageNet get the median.
    """
    names = [concept for part in parts for concept in part.names]
    heads = np.hstack([part.heads for part in parts])
    deviation = (reference @ heads).std(axis=0)
    is_class = np.concatenate([np.full(len(part.names), part.heads.shape[1] == 1000) for part in parts])
    typical = np.median(deviation[~is_class]) if (~is_class).any() else 1.0
    reliability = np.where(is_class, 1.0, deviation / typical) ** 2
    flat = [name for concept in names for name in concept]
    concept_of = np.repeat(np.arange(len(names)), [len(concept) for concept in names])
    vectors = encode_phrases(flat)
    member = sparse.csr_array((np.ones(len(flat), np.float32), (concept_of, np.arange(len(flat)))))
    center = np.asarray(member @ vectors, np.float32)
    center /= np.linalg.norm(center, axis=1, keepdims=True)
    covariance = word_kernel(center @ center.T).astype(np.float64)
    covariance[np.diag_indices_from(covariance)] += WORD_NOISE / np.maximum(reliability, 1e-3)
    dual = np.linalg.solve(covariance, (heads / deviation).T)
    return ConceptHeads.build(
        names=flat,
        concept_of=concept_of,
        vectors=vectors,
        heads=(heads / deviation).T,
        dual=dual,
        axes=data.axes,
        mean=data.mean,
        scale=data.scale,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    arguments = parser.parse_args()
    data = Data(arguments.data)
    reference = np.vstack([data.caption_vectors, data.iapr_vectors])
    heads = smooth_heads(data, concepts_of(data), reference)
    heads.save(Path(__file__).parents[1] / "src/prototag/knowledge" / FOLDER)
    print(f"{len(heads.names):,} names of {len(heads.dual):,} concepts.")


if __name__ == "__main__":
    main()
