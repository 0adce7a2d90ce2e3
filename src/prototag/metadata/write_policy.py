"""Decides where the tags of a picture are written, and writes them.

Every command and the library follow one policy: a sidecar for any picture; the file itself only
where this was asked for, and only a JPEG. A picture is skipped where embedding alone was asked for
and it is no JPEG. A failure of one picture is reported with its outcome and never ends the rest.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Literal

from prototag.errors import MetadataError
from prototag.metadata.accepted_tags import plan_own
from prototag.metadata.jpeg_writer import (
    InsideChange,
    apply_inside,
    has_ours,
    is_jpeg,
    plan_embed,
    plan_unembed,
)
from prototag.metadata.sidecar import Change, Naming, apply, plan, plan_untag

WRITERS = 4  # files on their way to the disk at a time: writing one is mostly waiting

ImagePath = str | os.PathLike[str]
Place = Literal["sidecar", "file", "file or sidecar"]


class Outcome(Enum):
    """What becomes of the tags of one picture."""

    CHANGED = "changed"  # planned or written
    UNCHANGED = "unchanged"  # the file has these tags
    NO_TAGS = "no tags"  # none to write, and none of an earlier run to remove
    NOT_JPEG = "not a JPEG"  # skipped: only a JPEG can hold them itself
    FAILED = "failed"


@dataclass(frozen=True)
class Write:
    """The outcome for one picture, and the change of its file, planned or made."""

    outcome: Outcome
    change: Change | None = None  # None where the picture is skipped or failed
    problem: str | None = None  # why it failed

    @property
    def embedded(self) -> bool:
        """Whether the change is one of the picture's own file."""
        return isinstance(self.change, InsideChange)


@dataclass(frozen=True)
class WritePolicy:
    """Where tags are written.

    Parameters
    ----------
    place : {"sidecar", "file", "file or sidecar"}
        With the last, a picture that is no JPEG gets a sidecar.
    naming : {"auto", "full", "stem"}
        Of new sidecars, as for :func:`prototag.metadata.plan`.
    keep_originals : bool
        Keep the old file beside one that tags are embedded in.
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
        """Make a planned change; whatever else the outcome is, it is returned as it is."""
        if write.outcome is not Outcome.CHANGED or write.change is None:
            return write
        return apply_change(write.change, keep_original=self.keep_originals)


def plan_accepted(image: ImagePath, tags: Iterable[str], *, gone: Iterable[str]) -> Write:
    """Plan to write accepted tags as the person's own, and to remove those ``gone``.

    The place is a sidecar: a library never writes to pictures.
    """
    return _attempt(lambda: plan_own(image, tags, gone=gone))


def plan_removal(image: ImagePath, tags: Iterable[str] | None, *, keep: bool) -> list[Write]:
    """Plan to remove ProtoTag's tags from all places that have them; only changes are returned.

    ``keep`` makes the tags the person's own instead.
    """

    def inside() -> Change:
        if is_jpeg(image) and has_ours(image):
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
