"""Result types of feature extraction: vectors of readable images, reasons for all others."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from prototag.arrays import Floats, Rows

if TYPE_CHECKING:
    from prototag.images.crops import View
    from prototag.images.decode import Pixels, Source


class FeatureGroup(NamedTuple):
    """Columns of the vectors that belong together: one output of a backbone."""

    name: str
    width: int


@dataclass
class Picture:
    """State of one source during extraction: decoding sets crops, a vector or a reason."""

    index: int
    source: Source
    stamp: bytes | None = None  # of a file; None once the cache has it
    digest: bytes = b""  # set if the source can be read
    crops: tuple[View, Pixels] | None = None  # pixels are crops x height x width x 3
    vector: Floats | None = None
    is_cached: bool = False  # whether the vector is from the cache
    thumbnail: bytes = b""
    reason: str | None = None  # why there is no vector


@dataclass(frozen=True)
class Skipped:
    """Source without a vector, and the reason."""

    index: int
    source: str
    reason: str

    def to_dict(self) -> dict[str, str]:
        """Return path and reason as JSON values, as an annotation with an error."""
        return {"path": self.source, "error": self.reason}

    def __str__(self) -> str:
        # File names may contain control characters, which a terminal would interpret.
        text = f"{self.source}: {self.reason}"
        return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


@dataclass(frozen=True)
class Features:
    """Vectors of the readable sources, and the reasons for skipping the others.

    Attributes
    ----------
    vectors : array, kept x width
    kept : int array
        ``vectors[i]`` belongs to source number ``kept[i]``.
    skipped : list of Skipped
    n_cached : int
        Number of vectors that came from the cache.
    digests : list of bytes
        Identity of each kept picture: :func:`prototag.images.decode.digest`.
    thumbnails : list of bytes
        WebP thumbnails of the kept pictures; b"" where there is none.
    feature_groups : list of FeatureGroup
        Groups of the columns of ``vectors``, in order.
    """

    vectors: Floats
    kept: Rows
    skipped: list[Skipped]
    n_cached: int
    digests: list[bytes]
    thumbnails: list[bytes]
    feature_groups: list[FeatureGroup]

    def select_rows(self, rows: Rows) -> Features:
        """Return a subset of the vectors, by increasing rows."""
        if len(rows) == len(self.kept):
            return self
        return replace(
            self,
            vectors=self.vectors[rows],
            kept=self.kept[rows],
            digests=[self.digests[row] for row in rows],
            thumbnails=[self.thumbnails[row] for row in rows],
        )

    def summary(self) -> str:
        """Describe how many sources were read, and why the others were skipped."""
        total = len(self.kept) + len(self.skipped)
        head = f"{len(self.kept):,} of {total:,} pictures read, {self.n_cached:,} from the cache"
        return "\n".join([head, *(f"skipped {skipped}" for skipped in self.skipped)])
