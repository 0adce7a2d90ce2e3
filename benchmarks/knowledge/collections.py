"""Collections with default vectors, tag names and heads that were made without their source."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.collections import DATA
from prototag.knowledge.concepts import ConceptHeads, NamePrior, embedded
from tools import make_knowledge


class Collection(NamedTuple):
    """Images with default vectors and labels."""

    name: str
    X: np.ndarray  # n x m
    Y: np.ndarray  # n x t, 0/1
    tags: list[str]
    heads: ConceptHeads  # without the source of the collection

    def prior(self, names: Sequence[str] | None = None) -> NamePrior:
        """Return the prior scores of the tags by their names, or by other names."""
        return self.heads.prior(self.tags if names is None else names)


class Draw(NamedTuple):
    """Training and judged images, and the tags with enough training examples."""

    train: np.ndarray
    judged: np.ndarray
    columns: np.ndarray


def draw(collection: Collection, n: int, seed: int, n_judged: int, least: int = 3) -> Draw:
    """Draw n training images and others to judge; tags have at least ``least`` examples."""
    order = np.random.default_rng(seed).permutation(len(collection.X))
    train = order[:n]
    judged = order[n : n + n_judged]
    count = collection.Y[train].sum(axis=0) if n else collection.Y[judged].sum(axis=0)
    return Draw(train, judged, np.flatnonzero(count >= least))


def load(name: str, heads: Path | None = None) -> Collection:
    """Load a collection; ``heads`` is a folder that keeps the heads made for it."""
    if name == "clipart":
        return _clipart()
    data = make_knowledge.Data(DATA)
    if name == "iaprtc12":
        vectors = np.load(DATA / "iaprtc12_lite0_large.npz", allow_pickle=False)
        X = np.hstack([vectors["X"], vectors["mid"]]).astype(np.float32)
        Y, tags = data.iapr_labels, data.iapr_tags
    else:
        rows = np.flatnonzero(data.is_labelled)
        coordinates = data.caption_vectors[rows]
        X = (coordinates @ data.axes.T) * data.scale + data.mean
        Y, tags = data.coco_labels[rows], data.label_names
    return Collection(name, X, Y, list(tags), _heads(data, name, heads))


def _heads(data: make_knowledge.Data, name: str, folder: Path | None) -> ConceptHeads:
    kept = None if folder is None else folder / f"heads_{name}"
    if kept is not None and kept.exists():
        return ConceptHeads.load(kept)
    reference = data.caption_vectors if name == "iaprtc12" else data.iapr_vectors
    heads = make_knowledge.smooth_heads(data, make_knowledge.concepts_of(data, {name}), reference)
    if kept is not None:
        heads.save(kept)
    return heads


def _clipart() -> Collection:
    """Return the drawings of the package, one of each near-duplicate group."""
    from prototag.features.extractor import Extractor
    from prototag.research.datasets.clipart import clipart

    drawings = clipart()
    features = Extractor(cache=None, n_jobs=1).extract(list(drawings.images))
    groups = np.asarray(drawings.groups)[features.kept]
    first = np.unique(groups, return_index=True)[1]
    Y = drawings.Y[features.kept][first].toarray().astype(np.float32)
    return Collection("clipart", features.vectors[first], Y, list(drawings.tags), embedded())
