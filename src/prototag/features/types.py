"""What comes of pictures: the vectors of those that could be read, and a word on each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from prototag.arrays import Floats, Rows

if TYPE_CHECKING:
    from prototag.images.crops import View
    from prototag.images.decode import Pixels, Source


class Block(NamedTuple):
    """Columns of the vectors that belong together: one output of a network."""

    name: str
    width: int


@dataclass
class Picture:
    """One source on its way to a vector: what is shown, a vector or a reason is set by decoding."""

    index: int
    source: Source
    stamp: bytes | None = None  # that the cache does not know yet
    digest: bytes = b""  # set for all that can be read
    shown: tuple[View, Pixels] | None = None  # regions x height x width x 3
    vector: Floats | None = None
    known: bool = False  # whether the vector is from the cache
    thumbnail: bytes = b""
    reason: str | None = None  # why there is no vector


@dataclass(frozen=True)
class Skipped:
    """A source that gave no vector, and why."""

    index: int
    source: str
    reason: str

    def __str__(self) -> str:
        # A file may be called anything; what a terminal cannot show, or would obey, is escaped.
        text = f"{self.source}: {self.reason}"
        return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


@dataclass(frozen=True)
class Features:
    """Vectors of the sources that could be read, and a word on each that could not.

    Attributes
    ----------
    vectors : array, kept x width
    kept : int array
        ``vectors[i]`` belongs to source number ``kept[i]``.
    skipped : list of Skipped
    n_cached : int
        How many of the vectors came from the cache.
    digests : list of bytes
        What each picture with a vector is known by: :func:`prototag.images.decode.digest`.
    thumbnails : list of bytes
        Small WebP files of the pictures with a vector; b"" where there is none.
    blocks : list of Block
        Which columns of the vectors belong together, in their order.
    """

    vectors: Floats
    kept: Rows
    skipped: list[Skipped]
    n_cached: int
    digests: list[bytes]
    thumbnails: list[bytes]
    blocks: list[Block]

    def only(self, rows: Rows) -> Features:
        """Some of the vectors, by their rising numbers."""
        if len(rows) == len(self.kept):
            return self
        digests = [self.digests[row] for row in rows]
        small = [self.thumbnails[row] for row in rows]
        found = self.vectors[rows], self.kept[rows], self.skipped, self.n_cached, digests, small
        return Features(*found, self.blocks)

    def summary(self) -> str:
        """How many were read, and each skipped source with its reason."""
        total = len(self.kept) + len(self.skipped)
        head = f"{len(self.kept):,} of {total:,} pictures read, {self.n_cached:,} from the cache"
        return "\n".join([head, *(f"skipped {skipped}" for skipped in self.skipped)])
