"""A folder or a list -> its pictures and what stands beside each; no picture is opened."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from prototag.errors import MetadataError
from prototag.metadata import listing
from prototag.metadata.suffixes import PICTURES

# Thumbnails and waste that network disks and systems keep in folders of pictures.
_JUNK = frozenset(
    name.lower()
    for name in (
        *("@eaDir", "#recycle", "#snapshot", "$RECYCLE.BIN", "System Volume Information"),
        *("__MACOSX", "lost+found"),
    )
)


@dataclass
class Found:
    """One picture and the places of its tags."""

    path: Path
    sidecars: list[Path]
    text: Path | None
    folders: list[str]
    listed: list[str] = field(default_factory=list)


def search(
    root: Path, problems: list[str], *, lists: bool, strict: bool, column: str | None
) -> list[Found]:
    """The pictures of a folder and its sub-folders, or of a list.

    Parameters
    ----------
    root : Path
        The folder or the list.
    problems : list of str
        Takes what was left out, with its reason.
    lists : bool
        Whether lists inside folders are read.
    strict : bool
        Whether a malformed one is an error; else it is left out.
    column : str or None
        The column of tags, if it has an unusual name.
    """
    if root.is_dir():
        found = _in_folder(root, problems, lists, strict, column)
    elif not root.exists():
        raise MetadataError(f"{root} does not exist: give a folder of pictures or a list.")
    elif root.suffix.lower() in PICTURES:
        raise MetadataError(f"{root} is a picture: give a folder of pictures or a list.")
    else:
        found = _in_list(root, problems, column)
    if not found:
        raise MetadataError(
            f"{root} holds no pictures: files named {' '.join(sorted(PICTURES))} are looked for, "
            "hidden ones left out."
        )
    return found


def _in_folder(
    root: Path, problems: list[str], lists: bool, strict: bool, column: str | None
) -> list[Found]:
    found: list[Found] = []
    listed: dict[str, list[str]] = {}
    for folder, names in _walk(root, problems):
        for name in listing.STANDARD:
            if lists and name in names:
                try:
                    rows = list(listing.read(folder / name, column=column))
                except MetadataError as error:
                    if strict:
                        raise
                    problems.append(f"{error} It was left out.")
                    continue
                _note(rows, folder / name, listed, problems)
        inner = list(folder.relative_to(root).parts)
        pictures = sorted(n for n in names if os.path.splitext(n)[1].lower() in PICTURES)
        found += [_find(folder, name, names, inner) for name in pictures]
    for one in found if listed else ():
        one.listed = listed.get(_identity(one.path), [])
    return found


def _note(
    rows: list[listing.Row], path: Path, listed: dict[str, list[str]], problems: list[str]
) -> None:
    """Remember the tags of a list inside a folder, which may speak of that folder alone."""
    base = _identity(path.parent)
    for row in rows:
        name = _identity(path.parent / row.file)
        if not name.startswith(base + os.sep):
            problems.append(f"{path}, line {row.line}: {row.file} is outside its folder")
        elif not os.path.isfile(name):
            problems.append(f"{path}, line {row.line}: {row.file} does not exist")
        else:
            listed.setdefault(name, []).extend(row.tags or [])


def _in_list(path: Path, problems: list[str], column: str | None) -> list[Found]:
    found: dict[str, Found] = {}
    folders: dict[Path, set[str]] = {}
    for row in listing.read(path, column=column):
        image = path.parent / row.file
        name = _identity(image)
        if name not in found:
            is_picture = image.suffix.lower() in PICTURES
            if not is_picture or not os.path.isfile(image):
                reason = "does not exist" if is_picture else "is not a picture"
                problems.append(f"{path}, line {row.line}: {row.file} {reason}")
                continue
            if image.parent not in folders:
                folders[image.parent] = _names_beside(image.parent)
            inner = [image.parent.name]
            if image.is_relative_to(path.parent):
                inner = list(image.parent.relative_to(path.parent).parts)
            found[name] = _find(image.parent, image.name, folders[image.parent], inner)
        found[name].listed += row.tags or []
    return list(found.values())


def _identity(path: Path) -> str:
    return os.path.normpath(os.path.abspath(path))


def _find(folder: Path, name: str, names: set[str], inner: list[str]) -> Found:
    """A picture and the files beside it, by their names alone: a disk need not be asked."""
    stem = os.path.splitext(name)[0]
    sidecars, text = (
        [folder / (n + suffix) for n in (name, stem) for suffix in both if n + suffix in names]
        for both in ((".xmp", ".XMP"), (".txt", ".TXT"))
    )
    return Found(folder / name, sidecars, text[0] if text else None, inner)


def _walk(root: Path, problems: list[str]) -> Iterator[tuple[Path, set[str]]]:
    """Folders with the names of their files, in order; each folder once, however it is linked."""
    seen: set[tuple[int, int]] = set()
    waiting = [root]
    while waiting:
        folder = waiting.pop()
        try:
            status = folder.stat()
            if (status.st_dev, status.st_ino) in seen and status.st_ino:
                continue
            seen.add((status.st_dev, status.st_ino))
            with os.scandir(folder) as entries:
                files, folders = set(), []
                for entry in entries:
                    if entry.name.startswith(".") or entry.name.lower() in _JUNK:
                        continue
                    if entry.is_dir():
                        folders.append(entry.name)
                    elif entry.is_file():
                        files.add(entry.name)
        except OSError as error:
            problems.append(f"{folder} cannot be read: {error.strerror or error}")
            continue
        waiting += [folder / name for name in sorted(folders, reverse=True)]
        yield folder, files


def _names_beside(folder: Path) -> set[str]:
    try:
        return {name for name in os.listdir(folder) if name.lower().endswith((".xmp", ".txt"))}
    except OSError:  # a folder may let its files be opened and not listed
        return set()
