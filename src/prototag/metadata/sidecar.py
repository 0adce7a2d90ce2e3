"""Sidecars: which file belongs to a picture, and what would change in it.

``plan`` and ``plan_untag`` compute and touch nothing; ``apply`` of :mod:`.change` does. A picture
itself is never opened for writing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from prototag.errors import MetadataError
from prototag.metadata import embedded
from prototag.metadata.change import Change, content, named, prepare
from prototag.metadata.spelling import clean, unique
from prototag.metadata.suffixes import PICTURES, RAW
from prototag.metadata.xmp.merge import Merged, merge, strip
from prototag.metadata.xmp.packet import Keywords, Packet

Naming = Literal["full", "stem"]
PathLike = str | os.PathLike[str]


def sidecars(image: PathLike) -> list[Path]:
    """The sidecars of a picture that exist, the one that names it fully first."""
    path = Path(image)
    full, stem = path.with_name(path.name + ".xmp"), path.with_suffix(".xmp")
    names = [full, full.with_suffix(".XMP"), stem, stem.with_suffix(".XMP")]
    found: list[Path] = []
    for name in names:
        # On a file system that ignores case two names are one file.
        if name.is_file() and not any(name.samefile(other) for other in found):
            found.append(name)
    return found


def target(image: PathLike, naming: Naming = "full") -> Path:
    """The sidecar to write: the one that exists, else a new one.

    ``naming`` is ``"full"`` for a new ``photo.jpg.xmp`` (digiKam, darktable), ``"stem"`` for
    ``photo.xmp`` (Adobe). A ``photo.xmp`` that pictures share, ``photo.jpg`` and ``photo.dng``, is
    read for each of them and written for none.
    """
    if naming not in ("full", "stem"):
        raise MetadataError(f'naming={naming!r}: "full" (photo.jpg.xmp) or "stem" (photo.xmp).')
    path = Path(image)
    shared = None
    for found in sidecars(path):
        if found.stem == path.name:
            return found
        shared = _is_shared(path)
        if not shared:
            return found
    if naming == "stem" and path.suffix and not (_is_shared(path) if shared is None else shared):
        return path.with_suffix(".xmp")
    return path.with_name(path.name + ".xmp")


def _is_shared(path: Path) -> bool:
    """Whether another picture has the same name but for its suffix."""
    names = {path.with_suffix(s) for x in PICTURES | RAW for s in (x, x.upper())} - {path}
    return any(name.exists() and not name.samefile(path) for name in names)


def read(path: PathLike) -> Keywords:
    """The keywords of a sidecar."""
    data = content(Path(path))
    if data is None:
        raise MetadataError(f"{os.fspath(path)}: there is no such sidecar")
    with named(Path(path)):
        return Packet(data).keywords()


def plan(
    image: PathLike,
    tags: Iterable[str],
    *,
    naming: Naming = "full",
    replace: bool = True,
    inside: bool = True,
) -> Change:
    """What writing these tags would change.

    Parameters
    ----------
    image : path-like
        The picture; it must exist.
    tags : iterable of str
        Proposed tags, hierarchical ones as ``animal|cat``. Tags of an earlier run that are not
        among them go, a person's stay.
    naming : {"full", "stem"}
        How a new sidecar is named, see :func:`target`.
    replace : bool
        False keeps the tags of earlier runs.
    inside : bool
        Repeat the keywords inside the picture in a sidecar that has none, so that a program which
        reads the sidecar alone still shows them.

    Raises
    ------
    MetadataError
        The picture or its sidecar cannot be read, or the sidecar is broken.
    """
    path, given = Path(image), [*tags]
    keywords, problems = embedded.read(path)
    persons = keywords.tags if inside else ()
    notes = [f"{path}: {problem}" for problem in problems]
    notes += [
        f"{path}: the tag {tag!r} has no characters to write" for tag in given if not clean(tag)
    ]
    wanted = unique(given)

    def again(data: bytes | None) -> Merged:
        return merge(data, wanted, inside=persons, replace=replace)

    return prepare(path, target(path, naming), again, notes)


def plan_untag(image: PathLike, *, tags: Iterable[str] | None = None, keep: bool = False) -> Change:
    """What taking back ProtoTag's tags would change.

    Parameters
    ----------
    image : path-like
        The picture; its sidecar alone may be left of it.
    tags : iterable of str, optional
        Only these; all, and every mark, if not given.
    keep : bool
        Take the marks alone: the tags are the person's from then on.

    Raises
    ------
    MetadataError
        There is neither a picture nor a sidecar, or the sidecar is broken.
    """
    path = Path(image)
    found = sidecars(path)
    if not found and not path.exists():
        raise MetadataError(f"{path} does not exist, nor has it a sidecar: look at its name.")
    wanted = None if tags is None else [*tags]

    def again(data: bytes | None) -> Merged:
        return Merged(None, [], []) if data is None else strip(data, wanted, keep=keep)

    for name in found:
        if change := prepare(path, name, again, []):
            return change
    return prepare(path, target(path), again, [])
