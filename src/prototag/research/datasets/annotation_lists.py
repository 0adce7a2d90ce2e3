"""Annotation lists: TagProp's files, and JSON lists of samples."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from prototag.errors import DatasetError
from prototag.research.datasets.collection import tag_matrix
from prototag.research.datasets.file_access import read_lines, read_text
from prototag.research.datasets.vecs import read_vecs

_NAME_KEYS = ("image_name", "file_name", "image", "name")
_TAG_KEYS = ("image_labels", "tags", "labels")
_VECTORS = (".hvecs", ".hvecs32", ".fvec", ".fvecs")


class Release(NamedTuple):
    """A published data set: training images first, then test images."""

    names: list[str] | None
    Y: sparse.csr_array
    tags: list[str]
    n_train: int
    X: npt.NDArray[np.float32] | None
    files: list[Path]
    source: str


def _beside(first: Path, name: str) -> Path:
    path = first.with_name(name)
    if not path.exists():
        raise DatasetError(f"{path.name} is missing: it belongs beside {first}.")
    return path


def tagprop(first: Path, key: str, feature: str | Sequence[str] | None) -> Release:
    """Read ``<key>_train_list.txt`` and its companions; ``feature`` names vectors: ``Gist``."""
    tags = read_lines(_beside(first, f"{key}_dictionary.txt"))
    names: list[str] = []
    files = [_beside(first, f"{key}_dictionary.txt")]
    matrices = []
    for part in ("train", "test"):
        listed = _beside(first, f"{key}_{part}_list.txt")
        annotated = _beside(first, f"{key}_{part}_annot.hvecs")
        lines = read_lines(listed)
        matrix = read_vecs(annotated)
        if len(lines) != len(matrix):
            raise DatasetError(
                f"{listed.name} has {len(lines):,} images, {annotated.name} {len(matrix):,}: "
                "take both from the same archive."
            )
        if matrix.shape[1] != len(tags):
            raise DatasetError(
                f"{annotated.name} has {matrix.shape[1]} tags, {key}_dictionary.txt {len(tags)}: "
                "take both from the same archive."
            )
        names += lines
        files += [listed, annotated]
        matrices.append(sparse.csr_array(matrix.astype(np.float32)))
    n_train = matrices[0].shape[0]
    X = None
    features = [feature] if isinstance(feature, str) else list(feature or [])
    if features:
        groups = []
        for name in features:
            pair = [_vectors(first, f"{key}_{part}_{name}") for part in ("train", "test")]
            files += pair
            groups.append(np.vstack([read_vecs(path).astype(np.float32) for path in pair]))
        X = np.hstack(groups)
    stacked = sparse.csr_array(sparse.vstack(matrices))
    return Release(names, stacked, tags, n_train, X, files, "TagProp's lists")


def _vectors(first: Path, stem: str) -> Path:
    hits = [path for ending in _VECTORS if (path := first.with_name(stem + ending)).exists()]
    if len(hits) != 1:
        available = sorted(
            path.name.split("_")[-1].split(".")[0]
            for path in first.parent.glob(f"{stem.rsplit('_', 1)[0]}_*")
            if path.suffix in _VECTORS and "annot" not in path.name
        )
        raise DatasetError(
            f"{stem}.* ({', '.join(_VECTORS)}) is not beside {first.name}. "
            f"Available features: {', '.join(available) or 'none'}."
        )
    return hits[0]


def json_lists(first: Path) -> Release:
    """Read ``train.json`` and ``test.json``: samples with the names of an image and of its tags.

    The content is ``{"labels": [...], "samples": [{"image_name": ..., "image_labels": [...]},
    ...]}``, or only the list of samples, or ``{image: [tag, ...], ...}``.
    """
    files = [first, _beside(first, first.name.replace("train", "test"))]
    names: list[str] = []
    tag_lists: list[list[Any]] = []
    sizes = []
    vocabularies: list[list[str]] = []
    for path in files:
        samples, vocabulary = _samples(path)
        names += [name for name, _ in samples]
        tag_lists += [tags for _, tags in samples]
        sizes.append(len(samples))
        if vocabulary is not None:
            vocabularies.append(vocabulary)
    if len(vocabularies) == 2 and set(vocabularies[0]) != set(vocabularies[1]):
        raise DatasetError(f"{files[0]} and {files[1]} list different labels.")
    vocabulary = vocabularies[0] if vocabularies else None
    Y, tags = tag_matrix((_tag_names(tags, vocabulary, first) for tags in tag_lists), vocabulary)
    return Release(names, Y, tags, sizes[0], None, files, "JSON lists")


def _samples(path: Path) -> tuple[list[tuple[str, list[Any]]], list[str] | None]:
    try:
        content = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        if isinstance(error, DatasetError):
            raise
        raise DatasetError(f"{path}: not valid JSON ({error}).") from error
    vocabulary = None
    if isinstance(content, dict) and "samples" in content:
        vocabulary = content.get("labels")
        content = content["samples"]
    elif isinstance(content, dict):
        content = [{"image_name": name, "tags": tags} for name, tags in content.items()]
    if not isinstance(content, list):
        raise DatasetError(f"{path}: contains no list of samples.")
    pairs = []
    for number, sample in enumerate(content):
        keys = sample if isinstance(sample, dict) else {}
        name = next((keys[key] for key in _NAME_KEYS if key in keys), None)
        tags = next((keys[key] for key in _TAG_KEYS if key in keys), None)
        if not isinstance(name, str) or not isinstance(tags, list):
            raise DatasetError(
                f"{path}: sample {number} needs a name ({', '.join(_NAME_KEYS)}) and a list of "
                f"tags ({', '.join(_TAG_KEYS)})."
            )
        pairs.append((name, tags))
    return pairs, None if vocabulary is None else [str(tag) for tag in vocabulary]


def _tag_names(tags: list[Any], vocabulary: list[str] | None, path: Path) -> list[str]:
    """Return the names of tags; numbers are positions in the list of labels, from 0."""
    names = []
    for tag in tags:
        if isinstance(tag, str):
            names.append(tag)
        elif (
            vocabulary is not None
            and isinstance(tag, int)
            and not isinstance(tag, bool)
            and 0 <= tag < len(vocabulary)
        ):
            names.append(vocabulary[tag])
        else:
            raise DatasetError(
                f"{path}: the tag {tag!r} is neither a name nor the number of a label."
            )
    return names
