"""Search of folders for pictures: one rule for training, annotation, evaluation and data sets.

- A folder is searched recursively: first its files, then its subfolders, both sorted by code
  points, so that the order is the same on every computer.
- Hidden names (``.thumbnails``, ``._a.jpg``) are skipped, and so are system folders of network
  disks and operating systems (``@eaDir``, ``#recycle``, ``lost+found``). The root folder is entered
  whatever its name.
- Symbolic links are followed. Every folder is entered once; dangling and circular links are
  skipped.
- Unreadable files and folders are reported, and the search continues.

The walk is a generator with the names of one folder in memory, so its memory does not depend on the
number of pictures. ``search`` lists the pictures of a folder or a list with their sidecars and text
files. No picture is opened.
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

Report = Callable[[str], object]  # receives a message about a problem

# Suffixes that prototag.images decodes.
PICTURES = frozenset(
    re.findall(
        r"\.\w+",
        ".jpg .jpeg .jpe .jfif .png .webp .gif .tif .tiff .bmp .avif .heic .heif .hif "
        ".nef .nrw .cr2 .cr3 .arw .dng .orf .rw2 .raf .pef .srw",
    )
)
# Suffixes of camera raw files, which may share a sidecar with the picture developed from them.
# Those in PICTURES are decoded by their preview.
RAW = frozenset(
    re.findall(
        r"\.\w+",
        ".3fr .arw .cr2 .cr3 .crw .dcr .dng .erf .iiq .kdc .mrw .nef .nrw .orf .pef .raf .raw .rw2 "
        ".rwl .sr2 .srf .srw .x3f",
    )
)
# Folders of thumbnails and deleted files of network disks and operating systems.
SKIPPED_FOLDERS = frozenset(
    name.lower()
    for name in (
        *("@eaDir", "#recycle", "#snapshot", "$RECYCLE.BIN", "System Volume Information"),
        *("__MACOSX", "lost+found"),
    )
)
_DANGLING_LINK = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


def is_picture(name: str) -> bool:
    """Return whether a file has the suffix of a picture."""
    return os.path.splitext(name)[1].lower() in PICTURES


class Folder(NamedTuple):
    """A folder and the sorted names of its files."""

    path: Path
    files: list[str]


def pictures(root: Path, report: Report) -> Iterator[Path]:
    """Find the pictures of a folder recursively, by their names."""
    for folder in walk(root, report):
        yield from (folder.path / name for name in folder.files if is_picture(name))


def walk(root: Path, report: Report) -> Iterator[Folder]:
    """Walk a folder recursively, by the rule above.

    Parameters
    ----------
    root : Path
    report : callable
        Called with a message for each unreadable file or folder.
    """
    entered: set[tuple[int, int] | str] = set()
    waiting = [root]
    while waiting:
        folder = waiting.pop()
        try:
            status = folder.stat()
            # Some file systems have no inode numbers.
            folder_id = (
                (status.st_dev, status.st_ino) if status.st_ino else os.path.realpath(folder)
            )
            if folder_id in entered:
                continue
            entered.add(folder_id)
            files, folders = _content(folder, report)
        except OSError as error:
            _refused(folder, error, report)
            continue
        waiting += [folder / name for name in sorted(folders, reverse=True)]
        yield Folder(folder, sorted(files))


def _content(folder: Path, report: Report) -> tuple[list[str], list[str]]:
    """Return the names of the files and of the subfolders of a folder."""
    files = []
    folders = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(".") or entry.name.lower() in SKIPPED_FOLDERS:
                continue
            try:
                if entry.is_dir():
                    folders.append(entry.name)
                elif entry.is_file():
                    files.append(entry.name)
            except OSError as error:
                if error.errno not in _DANGLING_LINK:
                    _refused(folder / entry.name, error, report)
    return files, folders


def _refused(path: Path, error: OSError, report: Report) -> None:
    report(f"{path} cannot be read: {error.strerror or error}")


@dataclass
class Picture:
    """A picture and the files that may have its tags."""

    path: Path
    sidecars: list[Path]
    text: Path | None
    folders: list[str]  # names of its parent folders, below the root
    listed: list[str] = field(default_factory=list)  # tags from lists


class SearchResult(NamedTuple):
    """Result of a search."""

    pictures: list[Picture]
    has_columns: bool  # whether a list with columns was read


def search(
    root: Path, problems: list[str], *, lists: bool, strict: bool, column: str | None
) -> SearchResult:
    """Find the pictures of a folder and its subfolders, or of a list.

    Parameters
    ----------
    root : Path
        The folder or the list.
    problems : list of str
        Receives the reason of each file that is skipped.
    lists : bool
        Whether lists inside folders are read.
    strict : bool
        Whether a malformed list is an error; otherwise it is skipped.
    column : str or None
        The column of tags, if it has an unusual name.
    """
    if root.is_dir():
        result = _in_folder(root, problems, lists, strict, column)
    elif not root.exists():
        raise MetadataError(f"{root} does not exist: give a folder of pictures or a list.")
    elif is_picture(root.name):
        raise MetadataError(f"{root} is a picture: give a folder of pictures or a list.")
    else:
        is_table = root.suffix.lower() in csv_jsonl.JSON_LINES_SUFFIXES + csv_jsonl.TABLE_SUFFIXES
        result = SearchResult(_in_list(root, problems, column), is_table)
    if not result.pictures:
        raise MetadataError(
            f"{root} contains no pictures: files named {' '.join(sorted(PICTURES))} are searched "
            "for, except hidden ones."
        )
    return result


def _in_folder(
    root: Path, problems: list[str], lists: bool, strict: bool, column: str | None
) -> SearchResult:
    pictures: list[Picture] = []
    listed: dict[str, list[str]] = {}
    has_columns = False
    for folder, files in walk(root, problems.append):
        names = set(files)
        for name in csv_jsonl.FOLDER_LISTS:
            if lists and name in names:
                has_columns = True
                try:
                    rows = list(csv_jsonl.read(folder / name, column=column))
                except MetadataError as error:
                    if strict:
                        raise
                    problems.append(f"{error} It was skipped.")
                    continue
                _add_listed_tags(rows, folder / name, listed, problems)
        inner = list(folder.relative_to(root).parts)
        pictures += [_find(folder, name, names, inner) for name in files if is_picture(name)]
    for picture in pictures if listed else ():
        picture.listed = listed.get(normalized_path(picture.path), [])
    return SearchResult(pictures, has_columns)


def _add_listed_tags(
    rows: list[csv_jsonl.Row], path: Path, listed: dict[str, list[str]], problems: list[str]
) -> None:
    """Add the tags of a list in a folder; it may name pictures of this folder only."""
    base = normalized_path(path.parent)
    for row in rows:
        name = normalized_path(path.parent / row.file)
        if not name.startswith(base + os.sep):
            problems.append(f"{path}, line {row.line}: {row.file} is outside its folder")
        elif not os.path.isfile(name):
            problems.append(f"{path}, line {row.line}: {row.file} does not exist")
        else:
            listed.setdefault(name, []).extend(row.tags)


def _in_list(path: Path, problems: list[str], column: str | None) -> list[Picture]:
    pictures: dict[str, Picture] = {}
    folders: dict[Path, set[str]] = {}
    for row in csv_jsonl.read(path, column=column):
        image = path.parent / row.file
        name = normalized_path(image)
        if name not in pictures:
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
            pictures[name] = _find(image.parent, image.name, folders[image.parent], inner)
        pictures[name].listed += row.tags
    return list(pictures.values())


def normalized_path(path: Path) -> str:
    """Normalize the path of a file without following links."""
    return os.path.normpath(os.path.abspath(path))


def _find(folder: Path, name: str, names: set[str], inner: list[str]) -> Picture:
    """Match a picture with the sidecars and text files of its folder, by name."""
    stem = os.path.splitext(name)[0]
    sidecars, text = (
        [folder / (n + suffix) for n in (name, stem) for suffix in both if n + suffix in names]
        for both in ((".xmp", ".XMP"), (".txt", ".TXT"))
    )
    return Picture(folder / name, sidecars, text[0] if text else None, inner)


def _names_beside(folder: Path) -> set[str]:
    try:
        return {name for name in os.listdir(folder) if name.lower().endswith((".xmp", ".txt"))}
    except OSError:  # a folder may be searchable without being readable
        return set()
