"""Words of a person's own network: vectors of names from its text tower, beside its ONNX file.

``clip.words.npz`` beside ``clip.onnx`` has ``names`` (t texts) and ``vectors`` (t x d), where d is
the width of a feature group of the network. The prior score of a tag is the product of the image's
vector and the unit vector of the tag's name: the cosine, if the network returns unit vectors.
"""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from prototag.arrays import Floats
from prototag.errors import BackboneError
from prototag.knowledge.concepts import NamePrior
from prototag.knowledge.words import unit_vectors
from prototag.storage.sqlite_lock_guard import open_for_reading

SUFFIX = ".words.npz"


def word_prior(network: str, tags: Sequence[str], widths: Sequence[int]) -> NamePrior | None:
    """Return the prior scores of tags by the words beside a network; None without such a file.

    Tags that the file does not name, neither whole nor by the last level of a hierarchy, have
    scores of 0. Every feature group (of these widths) has the width of the words.
    """
    if not network.endswith(".onnx"):
        return None
    path = Path(network).with_suffix(SUFFIX)
    if not os.path.lexists(path):
        return None
    names, vectors = _read(path)
    if any(width != vectors.shape[1] for width in widths):
        raise BackboneError(
            f"{path}: its vectors have {vectors.shape[1]} numbers, and the network's feature "
            f"groups have {', '.join(map(str, widths))}: export both from one model."
        )
    row_of = {name.casefold(): row for row, name in enumerate(names)}
    rows = [row_of.get(t.casefold(), row_of.get(_last_level(t).casefold(), -1)) for t in tags]
    words = np.vstack([vectors, np.zeros((1, vectors.shape[1]), np.float32)])[rows]
    coef = np.tile(words.T / len(widths), (len(widths), 1))
    return NamePrior(np.asarray(coef, np.float32), np.zeros(len(tags), np.float32))


def _last_level(tag: str) -> str:
    return tag.rpartition("|")[2].strip()


def _read(path: Path) -> tuple[list[str], Floats]:
    """Read and validate a file of words; nothing in it is executed."""
    with open_for_reading(path) as file:
        content = io.BytesIO(file.read())
    try:
        with np.load(content, allow_pickle=False) as arrays:
            names = arrays["names"]
            vectors = arrays["vectors"]
    except (ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile):
        names = vectors = np.empty(0)
    is_valid = (
        names.ndim == 1
        and names.dtype.kind == "U"
        and vectors.ndim == 2
        and vectors.dtype.kind == "f"
        and len(names) == len(vectors) > 0
        and np.isfinite(vectors).all()
    )
    if not is_valid:
        raise BackboneError(
            f"{path} has no words: give the arrays names (texts) and vectors (a row of finite "
            "numbers for each name), written by numpy.savez."
        )
    return [str(name) for name in names], unit_vectors(vectors)
