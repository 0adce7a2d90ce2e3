"""Policy of writing tags, for commands and the library.

Tags are written to a sidecar by default, and into the file only on request and only for a JPEG. If
embedding alone is requested, other pictures are skipped. The failure of one picture is reported
with its outcome and does not stop the others.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Literal

from prototag.errors import MetadataError
from prototag.metadata.accepted_tags import plan_own, plan_own_inside
from prototag.metadata.jpeg_writer import (
    InsideChange,
    apply_inside,
    has_added_tags,
    is_jpeg,
    plan_embed,
    plan_unembed,
)
from prototag.metadata.sidecar import Change, Naming, apply, plan, plan_untag

WRITERS = 4  # threads that write files: writing is mostly waiting for the disk

ImagePath = str | os.PathLike[str]
Place = Literal["sidecar", "file", "file or sidecar"]


class Outcome(Enum):
    """Outcome of writing the tags of one picture."""

    CHANGED = "changed"  # planned or written
    UNCHANGED = "unchanged"  # the file already has these tags
    NO_TAGS = "no tags"  # nothing to write or to remove
    NOT_JPEG = "not a JPEG"  # skipped: tags are embedded in JPEG only
    FAILED = "failed"


@dataclass(frozen=True)
class Write:
    """Outcome for one picture, and the planned or applied change of its file."""

    outcome: Outcome
    change: Change | None = None  # None if the picture was skipped or failed
    problem: str | None = None  # why it failed

    @property
    def embedded(self) -> bool:
        """Whether the change is in the picture file itself."""
        return isinstance(self.change, InsideChange)


@dataclass(frozen=True)
class WritePolicy:
    """Policy that selects sidecar or file for the tags of a picture.

    Parameters
    ----------
    place : {"sidecar", "file", "file or sidecar"}
        With the last, pictures other than JPEG get a sidecar.
    naming : {"auto", "full", "stem"}
        Name of new sidecars, as for :func:`prototag.metadata.plan`.
    keep_originals : bool
        Keep the original file when tags are embedded.
    """

    place: Place = "sidecar"
    naming: Naming = "auto"
    keep_originals: bool = False

    def plan(self, image: ImagePath, tags: list[str]) -> Write:
        """Plan to write ProtoTag's tags of a picture; nothing is written."""
        embed = self.place != "sidecar" and is_jpeg(image)
        if self.place == "file" and not embed:
            return Write(Outcome.NOT_JPEG)

        def planned() -> Change:
            return plan_embed(image, tags) if embed else plan(image, tags, naming=self.naming)

        return _attempt(planned, has_tags=bool(tags))

    def apply(self, write: Write) -> Write:
        """Apply a planned change; other outcomes are returned unchanged."""
        if write.outcome is not Outcome.CHANGED or write.change is None:
            return write
        return apply_change(write.change, keep_original=self.keep_originals)


def plan_accepted(
    image: ImagePath,
    tags: Iterable[str],
    *,
    removed: Iterable[str],
    place: str = "sidecar",
    create_iptc: bool = False,
) -> Write:
    """Plan to write accepted tags as the person's own, and to remove others.

    ``place`` is "sidecar", or "file" for a JPEG file; ``create_iptc`` as for
    :func:`prototag.metadata.accepted_tags.plan_own_inside`.
    """
    if place == "file":
        return _attempt(
            lambda: plan_own_inside(image, tags, removed=removed, create_iptc=create_iptc)
        )
    return _attempt(lambda: plan_own(image, tags, removed=removed))


def plan_removal(image: ImagePath, tags: Iterable[str] | None, *, keep: bool) -> list[Write]:
    """Plan to remove ProtoTag's tags from sidecars and file; only changes are returned.

    ``keep`` turns the tags into the person's own instead.
    """

    def inside() -> Change:
        if is_jpeg(image) and has_added_tags(image):
            return plan_unembed(image, tags=tags, keep=keep)
        return InsideChange(Path(image), Path(image), None, None)  # no change

    writes = [_attempt(lambda: plan_untag(image, tags=tags, keep=keep)), _attempt(inside)]
    return [write for write in writes if write.outcome is not Outcome.UNCHANGED]


def apply_change(change: Change, *, keep_original: bool = False) -> Write:
    """Write a change to the file that it was planned for."""

    def applied() -> Change:
        if isinstance(change, InsideChange):
            return apply_inside(change, keep_original=keep_original)
        return apply(change)

    return _attempt(applied)


def _attempt(make: Callable[[], Change], *, has_tags: bool = True) -> Write:
    try:
        change = make()
    except (MetadataError, OSError) as error:
        return Write(Outcome.FAILED, problem=str(error))
    if change:
        return Write(Outcome.CHANGED, change)
    return Write(Outcome.UNCHANGED if has_tags else Outcome.NO_TAGS, change)
