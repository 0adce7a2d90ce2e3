"""File access for data sets: text with size limits, checksums, pictures by names in lists."""

from __future__ import annotations

import hashlib
import unicodedata
import warnings
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from prototag.errors import DatasetError
from prototag.metadata.find_files import is_picture, pictures, walk

# The largest list of a known data set has about 3 MB; much larger files are of another kind.
_MAX_TEXT_BYTES = 512 << 20


def read_text(path: Path, *, encoding: str = "utf-8", max_bytes: int = _MAX_TEXT_BYTES) -> str:
    """Read a text file, normalized to NFC; errors name the file."""
    try:
        size = path.stat().st_size
        if size > max_bytes:
            raise DatasetError(f"{path}: {size:,} bytes, at most {max_bytes:,} are read as text.")
        data = path.read_bytes()
    except OSError as error:
        raise DatasetError(f"{path}: cannot be read ({error.strerror or error}).") from error
    try:
        text = data.decode("utf-8-sig" if encoding.lower() in ("utf-8", "utf8") else encoding)
    except UnicodeDecodeError as error:
        raise DatasetError(
            f"{path}: byte {error.start} ({data[error.start]:#04x}) is not {encoding}. Convert the "
            "file to UTF-8, or name its encoding, for example encoding='latin-1'."
        ) from error
    if "\0" in text:
        raise DatasetError(
            f"{path}: contains NUL bytes: it is UTF-16 or not a text file. Convert the file "
            "to UTF-8, or name its encoding, for example encoding='utf-16'."
        )
    return unicodedata.normalize("NFC", text)


def read_lines(
    path: Path, *, encoding: str = "utf-8", max_bytes: int = _MAX_TEXT_BYTES
) -> list[str]:
    """Read the lines of a file, stripped and without empty lines."""
    # str.splitlines also splits at characters such as U+0085, which occur inside tags.
    text = read_text(path, encoding=encoding, max_bytes=max_bytes)
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return [line for line in map(str.strip, lines) if line]


def checksum(paths: Iterable[Path]) -> str:
    """Return the SHA-256 of the contents of files, in this order."""
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.stat().st_size.to_bytes(8, "little"))
        with path.open("rb") as file:
            while chunk := file.read(1 << 20):
                digest.update(chunk)
    return digest.hexdigest()


def only_file(folder: Path, *patterns: str) -> Path | None:
    """Return the file below ``folder`` that matches the first pattern with any match, or None.

    Several matches are an error; unreadable subfolders are warnings.
    """
    matches: dict[str, list[Path]] = {pattern: [] for pattern in patterns}
    for inner, names in walk(folder, warnings.warn):
        for pattern, hits in matches.items():
            hits += [inner / name for name in names if fnmatchcase(name, pattern)]
    for pattern, hits in matches.items():
        if len(hits) > 1:
            raise DatasetError(
                f"{hits[0]} and {hits[1]} both match {pattern!r}: give a folder with one of them."
            )
        if hits:
            return hits[0]
    return None


class Tree:
    """An index of the pictures below a folder, by the names that lists use for them.

    The folder is searched as by :mod:`prototag.metadata.find_files`; ``problems`` describes
    unreadable parts. Lists write ``00/25``, ``/images/00/25`` or ``25.jpg`` for
    ``images/00/25.jpg``. A name matches the picture with the same stem that shares most parent
    folders with it, counted from the end.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._by_stem: dict[str, list[Path]] = {}
        self.problems: list[str] = []
        for path in pictures(root, self.problems.append):
            self._by_stem.setdefault(path.stem, []).append(path)

    def __bool__(self) -> bool:
        return bool(self._by_stem)

    def find(self, name: str) -> Path | None:
        """Return the best match, or None if there is none or if several match equally well."""
        listed = PurePosixPath(name.strip().replace("\\", "/"))
        stem = listed.stem if is_picture(listed.name) else listed.name
        best: list[Path] = []
        most_shared = -1
        for path in self._by_stem.get(stem, []):
            shared = 0
            parents = zip(reversed(path.parts[:-1]), reversed(listed.parts[:-1]))  # noqa: B905
            for parent, listed_parent in parents:
                if parent != listed_parent:
                    break
                shared += 1
            if shared > most_shared:
                best = [path]
                most_shared = shared
            elif shared == most_shared:
                best.append(path)
        return best[0] if len(best) == 1 else None


def find_all(tree: Tree, names: Sequence[str]) -> tuple[list[Path | None], str]:
    """Return the picture of each name, and a message about missing ones ("" if none)."""
    paths = [tree.find(name) for name in names]
    missing = [name for name, path in zip(names, paths, strict=True) if path is None]
    if not missing:
        return paths, ""
    unread = f"; {tree.problems[0]}" if tree.problems else ""
    return paths, (
        f"{len(missing):,} of {len(names):,} pictures are not below {tree.root} "
        f"(the first: {missing[0]!r}){unread}"
    )


def report_problem(message: str, *, strict: bool) -> None:
    """Raise an error, or warn if ``strict`` is false."""
    if strict:
        raise DatasetError(f"{message} Give strict=False to continue with a warning.")
    warnings.warn(message, UserWarning, stacklevel=4)
