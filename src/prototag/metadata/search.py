"""A folder or a list -> its pictures and what stands beside each; no picture is opened."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from prototag.errors import MetadataError
from prototag.metadata import listing
from prototag.metadata.suffixes import PICTURES, is_picture
from prototag.metadata.walk import walk


@dataclass
class Picture:
    """One picture and the places of its tags."""

    path: Path
    sidecars: list[Path]
    text: Path | None
    folders: list[str]  # names of those it is in, below the one that is searched
    listed: list[str] = field(default_factory=list)  # tags that lists give it


def search(
    root: Path, problems: list[str], *, lists: bool, strict: bool, column: str | None
) -> list[Picture]:
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
    elif is_picture(root.name):
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
) -> list[Picture]:
    found: list[Picture] = []
    listed: dict[str, list[str]] = {}
    for folder, files in walk(root, problems.append):
        names = set(files)
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
        found += [_find(folder, name, names, inner) for name in files if is_picture(name)]
    for picture in found if listed else ():
        picture.listed = listed.get(_identity(picture.path), [])
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
            listed.setdefault(name, []).extend(row.tags)


def _in_list(path: Path, problems: list[str], column: str | None) -> list[Picture]:
    found: dict[str, Picture] = {}
    folders: dict[Path, set[str]] = {}
    for row in listing.read(path, column=column):
        image = path.parent / row.file
        name = _identity(image)
        if name not in found:
            is_named_so = is_picture(image.name)
            if not is_named_so or not os.path.isfile(image):
                reason = "does not exist" if is_named_so else "is not a picture"
                problems.append(f"{path}, line {row.line}: {row.file} {reason}")
                continue
            if image.parent not in folders:
                folders[image.parent] = _names_beside(image.parent)
            inner = [image.parent.name]
            if image.is_relative_to(path.parent):
                inner = list(image.parent.relative_to(path.parent).parts)
            found[name] = _find(image.parent, image.name, folders[image.parent], inner)
        found[name].listed += row.tags
    return list(found.values())


def _identity(path: Path) -> str:
    return os.path.normpath(os.path.abspath(path))


def _find(folder: Path, name: str, names: set[str], inner: list[str]) -> Picture:
    """A picture and the files beside it, by their names alone: a disk need not be asked."""
    stem = os.path.splitext(name)[0]
    sidecars, text = (
        [folder / (n + suffix) for n in (name, stem) for suffix in both if n + suffix in names]
        for both in ((".xmp", ".XMP"), (".txt", ".TXT"))
    )
    return Picture(folder / name, sidecars, text[0] if text else None, inner)


def _names_beside(folder: Path) -> set[str]:
    try:
        return {name for name in os.listdir(folder) if name.lower().endswith((".xmp", ".txt"))}
    except OSError:  # a folder may let its files be opened and not listed
        return set()
