"""The keywords of one picture from all its places: sidecars and the file itself."""

from __future__ import annotations

import os
from operator import attrgetter
from pathlib import Path

from prototag.errors import MetadataError
from prototag.metadata import embedded, sidecar
from prototag.metadata.spelling import key, leaf, unique
from prototag.metadata.xmp.packet import Keywords, union


def read_keywords(image: str | os.PathLike[str]) -> Keywords:
    """A person's tags of a picture, and ProtoTag's, which are told apart by their marks.

    Raises
    ------
    MetadataError
        The picture or one of its sidecars cannot be read.
    """
    inside, _ = embedded.read(image)
    return together([sidecar.read(path) for path in sidecar.sidecars(image)], inside)


def gather(image: Path, beside: list[Path], inside: bool) -> tuple[Keywords, Keywords, list[str]]:
    """Keywords of the sidecars and of the file, and why some could not be read."""
    found, problems = [], []
    for path in beside:
        try:
            found.append(sidecar.read(path))
        except MetadataError as error:
            problems.append(str(error))
    within = Keywords()
    if inside:
        try:
            within, wrong = embedded.read(image)
            problems += [f"{image}: {problem}" for problem in wrong]
        except MetadataError as error:
            problems.append(str(error))
    return together(found, Keywords()), unmarked(within, found), problems


def together(sidecars: list[Keywords], inside: Keywords) -> Keywords:
    """One answer for one picture."""
    inside = unmarked(inside, sidecars)
    every = [*sidecars, inside]
    return Keywords(
        tags=tuple(union([list(one.tags) for one in every])),
        added=tuple(unique([tag for one in every for tag in one.added])),
        rejected=tuple(unique([tag for one in every for tag in one.rejected])),
        copied=tuple(unique([tag for one in every for tag in one.copied])),
    )


def unmarked(inside: Keywords, sidecars: list[Keywords]) -> Keywords:
    """Keywords inside the file without those that a program copied there from our sidecar."""
    ours, theirs = (
        {key(name) for one in sidecars for tag in tags(one) for name in (tag, leaf(tag))}
        for tags in (attrgetter("added"), attrgetter("copied"))
    )
    ours -= theirs
    tags = tuple(tag for tag in inside.tags if key(tag) not in ours)
    return Keywords(tags, inside.added, inside.rejected, inside.copied)
