"""Which pictures a folder holds: one rule for training, tagging, comparing and data sets.

- A folder is searched with all below it: first its files, then its sub-folders, both in the order
  of the alphabet (of code points, so that it is the same on every computer).
- Hidden names (``.thumbnails``, ``._a.jpg``) are skipped, and so are the folders that network disks
  and systems keep for themselves (``@eaDir``, ``#recycle``, ``lost+found``). The folder that was
  asked for is entered, whatever its name.
- Linked folders are followed, linked files are files. Every folder is entered once, however many
  links lead to it; links that lead nowhere or to themselves are skipped.
- What cannot be read, or vanishes meanwhile, is reported, and the walk goes on.

The walk is a generator that keeps the names of one folder, so that a million pictures take no
memory. ``search`` lists the pictures of a folder or a list with what stands beside each. No picture
is opened.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from prototag.errors import MetadataError
from prototag.metadata import csv_jsonl

Report = Callable[[str], object]  # takes a problem, in words

# What prototag.images can decode.
PICTURES = frozenset(
    re.findall(
        r"\.\w+",
        ".jpg .jpeg .jpe .jfif .png .webp .gif .tif .tiff .bmp .avif .heic .heif .hif "
        ".nef .nrw .cr2 .cr3 .arw .dng .orf .rw2 .raf .pef .srw",
    )
)
# Raw files of cameras may share a sidecar with the picture made of them. Of those that are pictures
# too the preview inside is decoded.
RAW = frozenset(
    re.findall(
        r"\.\w+",
        ".3fr .arw .cr2 .cr3 .crw .dcr .dng .erf .iiq .kdc .mrw .nef .nrw .orf .pef .raf .raw .rw2 "
        ".rwl .sr2 .srf .srw .x3f",
    )
)
# Thumbnails and waste that network disks and systems keep in folders of pictures.
SKIPPED = frozenset(
    name.lower()
    for name in (
        *("@eaDir", "#recycle", "#snapshot", "$RECYCLE.BIN", "System Volume Information"),
        *("__MACOSX", "lost+found"),
    )
)
_LEADS_NOWHERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


def is_picture(name: str) -> bool:
    """Whether a file is named as a picture is."""
    return os.path.splitext(name)[1].lower() in PICTURES


class Folder(NamedTuple):
    """A folder and the names of its files, in their order."""

    path: Path
    files: list[str]


def pictures(root: Path, report: Report) -> Iterator[Path]:
    """The pictures of a folder and all below it, told by their names."""
    for folder in walk(root, report):
        yield from (folder.path / name for name in folder.files if is_picture(name))


def walk(root: Path, report: Report) -> Iterator[Folder]:
    """A folder and all below it, by the rule above.

    Parameters
    ----------
    root : Path
    report : callable
        Called with what could not be read, and why.
    """
    entered: set[tuple[int, int] | str] = set()
    waiting = [root]
    while waiting:
        folder = waiting.pop()
        try:
            status = folder.stat()
            # Some file systems number nothing.
            identity = (status.st_dev, status.st_ino) if status.st_ino else os.path.realpath(folder)
            if identity in entered:
                continue
            entered.add(identity)
            files, folders = _content(folder, report)
        except OSError as error:
            _refused(folder, error, report)
            continue
        waiting += [folder / name for name in sorted(folders, reverse=True)]
        yield Folder(folder, sorted(files))


def _content(folder: Path, report: Report) -> tuple[list[str], list[str]]:
    """Names of the files and of the folders in a folder."""
    files = []
    folders = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(".") or entry.name.lower() in SKIPPED:
                continue
            try:
                if entry.is_dir():
                    folders.append(entry.name)
                elif entry.is_file():
                    files.append(entry.name)
            except OSError as error:
                if error.errno not in _LEADS_NOWHERE:
                    _refused(folder / entry.name, error, report)
    return files, folders


def _refused(path: Path, error: OSError, report: Report) -> None:
    report(f"{path} cannot be read: {error.strerror or error}")


@dataclass
class Picture:
    """One picture and the places of its tags."""

    path: Path
    sidecars: list[Path]
    text: Path | None
    folders: list[str]  # names of those it is in, below the one that is searched
    listed: list[str] = field(default_factory=list)  # tags that lists give it


class Found(NamedTuple):
    """What a search found."""

    pictures: list[Picture]
    has_columns: bool  # whether a list with columns was read


def search(
    root: Path, problems: list[str], *, lists: bool, strict: bool, column: str | None
) -> Found:
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
        is_table = root.suffix.lower() in csv_jsonl.LINES + csv_jsonl.TABLES
        found = Found(_in_list(root, problems, column), is_table)
    if not found.pictures:
        raise MetadataError(
            f"{root} holds no pictures: files named {' '.join(sorted(PICTURES))} are looked for, "
            "hidden ones left out."
        )
    return found


def _in_folder(
    root: Path, problems: list[str], lists: bool, strict: bool, column: str | None
) -> Found:
    found: list[Picture] = []
    listed: dict[str, list[str]] = {}
    has_columns = False
    for folder, files in walk(root, problems.append):
        names = set(files)
        for name in csv_jsonl.STANDARD:
            if lists and name in names:
                has_columns = True
                try:
                    rows = list(csv_jsonl.read(folder / name, column=column))
                except MetadataError as error:
                    if strict:
                        raise
                    problems.append(f"{error} It was left out.")
                    continue
                _note(rows, folder / name, listed, problems)
        inner = list(folder.relative_to(root).parts)
        found += [_find(folder, name, names, inner) for name in files if is_picture(name)]
    for picture in found if listed else ():
        picture.listed = listed.get(identity(picture.path), [])
    return Found(found, has_columns)


def _note(
    rows: list[csv_jsonl.Row], path: Path, listed: dict[str, list[str]], problems: list[str]
) -> None:
    """Remember the tags of a list inside a folder, which may speak of that folder alone."""
    base = identity(path.parent)
    for row in rows:
        name = identity(path.parent / row.file)
        if not name.startswith(base + os.sep):
            problems.append(f"{path}, line {row.line}: {row.file} is outside its folder")
        elif not os.path.isfile(name):
            problems.append(f"{path}, line {row.line}: {row.file} does not exist")
        else:
            listed.setdefault(name, []).extend(row.tags)


def _in_list(path: Path, problems: list[str], column: str | None) -> list[Picture]:
    found: dict[str, Picture] = {}
    folders: dict[Path, set[str]] = {}
    for row in csv_jsonl.read(path, column=column):
        image = path.parent / row.file
        name = identity(image)
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


def identity(path: Path) -> str:
    """One name for one file, however its path is written; links are not followed."""
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
