"""Tag lists -> the tags that are common enough to learn, and a sparse matrix of who has them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prototag.errors import MetadataError
from prototag.metadata.spelling import clean, key

if TYPE_CHECKING:
    from scipy import sparse


@dataclass(frozen=True)
class Vocabulary:
    """Tags to learn.

    Attributes
    ----------
    names : tuple of str
        Kept tags in alphabetical order.
    counts : tuple of int
        On how many pictures each is.
    dropped : dict of str to int
        Tags on fewer pictures than ``min_count``, with that number.
    merged : dict of str to str
        Spellings that differ in case alone from a more frequent one, and that one.
    """

    names: tuple[str, ...]
    counts: tuple[int, ...]
    dropped: dict[str, int]
    merged: dict[str, str]

    def matrix(self, tags: Sequence[Sequence[str]]) -> sparse.csr_array:
        """Y, one row for each list: 1 where a picture has a tag of the vocabulary."""
        import numpy as np
        from scipy import sparse

        column = {key(name): i for i, name in enumerate(self.names)}
        indices: list[int] = []
        indptr = [0]
        for row in tags:
            indices += sorted({column[k] for k in map(key, row) if k in column})
            indptr.append(len(indices))
        return sparse.csr_array(
            (
                np.ones(len(indices), np.float32),
                np.asarray(indices, np.int32),
                np.asarray(indptr, np.int32),
            ),
            shape=(len(tags), len(self.names)),
        )


def vocabulary(tags: Sequence[Sequence[str]], *, min_count: int = 1) -> Vocabulary:
    """The tags that at least ``min_count`` pictures have.

    Spellings that differ in case alone are one tag, named by the most frequent spelling.

    Parameters
    ----------
    tags : sequence of sequences of str
        One for each picture.
    min_count : int
        At least 1.
    """
    if min_count < 1:
        raise MetadataError(f"min_count={min_count}: at least 1 is allowed.")
    spellings: dict[str, Counter[str]] = {}
    counts: Counter[str] = Counter()
    known: dict[str, tuple[str, str]] = {}
    for row in tags:
        seen = set()
        for tag in row:
            if tag not in known:
                known[tag] = clean(tag), key(tag)
            spelt, name = known[tag]
            if spelt:
                spellings.setdefault(name, Counter())[spelt] += 1
                seen.add(name)
        counts.update(seen)
    # Of equally frequent spellings the first in the alphabet, whatever the order of files.
    best = {name: min(s, key=lambda t: (-s[t], t)) for name, s in spellings.items()}
    kept = sorted(
        (name for name in counts if counts[name] >= min_count), key=lambda n: (n, best[n])
    )
    return Vocabulary(
        names=tuple(best[name] for name in kept),
        counts=tuple(counts[name] for name in kept),
        dropped={best[n]: counts[n] for n in sorted(counts) if counts[n] < min_count},
        merged={
            t: best[n] for n in sorted(spellings) for t in sorted(spellings[n]) if t != best[n]
        },
    )
