"""Files of a data set: text within limits, checksums, pictures found by the names in a list."""

from __future__ import annotations

import hashlib
import unicodedata
import warnings
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from prototag.errors import DatasetError
from prototag.metadata.find_files import is_picture, pictures, walk

# The largest list of a known data set has some 3 MB; what is far larger is another file.
_MAX_TEXT_BYTES = 512 << 20


def read_text(path: Path, *, encoding: str = "utf-8", max_bytes: int = _MAX_TEXT_BYTES) -> str:
    """The text of a file, composed characters in one form (NFC), or an error that names it."""
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
            f"{path}: contains NUL bytes, so that it is UTF-16 or no text at all. Convert the file "
            "to UTF-8, or name its encoding, for example encoding='utf-16'."
        )
    return unicodedata.normalize("NFC", text)


def read_lines(
    path: Path, *, encoding: str = "utf-8", max_bytes: int = _MAX_TEXT_BYTES
) -> list[str]:
    """The lines of a file without blanks around them; empty lines are left out."""
    # Not splitlines: it cuts at characters, such as U+0085, that occur within a person's tags.
    text = read_text(path, encoding=encoding, max_bytes=max_bytes)
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return [line for line in map(str.strip, lines) if line]


def checksum(paths: Iterable[Path]) -> str:
    """SHA-256 over the contents of files, in this order."""
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.stat().st_size.to_bytes(8, "little"))
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


def only_file(folder: Path, *patterns: str) -> Path | None:
    """The one file below ``folder`` that fits the first pattern which any file fits.

    A folder below it that cannot be read is a warning.
    """
    fitting: dict[str, list[Path]] = {pattern: [] for pattern in patterns}
    for inner, names in walk(folder, warnings.warn):
        for pattern, hits in fitting.items():
            hits += [inner / name for name in names if fnmatchcase(name, pattern)]
    for pattern, hits in fitting.items():
        if len(hits) > 1:
            raise DatasetError(
                f"{hits[0]} and {hits[1]} both fit {pattern!r}: give a folder with one of them."
            )
        if hits:
            return hits[0]
    return None


class Tree:
    """Pictures below a folder, found by the names that lists use for them.

    The folder is searched by the rule of :mod:`prototag.metadata.find_files`; ``problems`` says
    what of it could not be read. Lists write ``00/25``, ``/images/00/25`` or ``25.jpg`` for
    ``images/00/25.jpg``. A name fits the picture of the same stem that shares most folders with
    it, counted from the end.
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
        """The one picture that fits best, or None if there is none or several fit as well."""
        wanted = PurePosixPath(name.strip().replace("\\", "/"))
        stem = wanted.stem if is_picture(wanted.name) else wanted.name
        best: list[Path] = []
        most_shared = -1
        for path in self._by_stem.get(stem, []):
            shared = 0
            for its, wants in zip(reversed(path.parts[:-1]), reversed(wanted.parts[:-1])):  # noqa: B905
                if its != wants:
                    break
                shared += 1
            if shared > most_shared:
                best = [path]
                most_shared = shared
            elif shared == most_shared:
                best.append(path)
        return best[0] if len(best) == 1 else None


def find_all(tree: Tree, names: Sequence[str]) -> tuple[list[Path | None], str]:
    """The picture of each name, and in words which ones were not found ("" if all were)."""
    found = [tree.find(name) for name in names]
    lost = [name for name, path in zip(names, found, strict=True) if path is None]
    if not lost:
        return found, ""
    unread = f"; {tree.problems[0]}" if tree.problems else ""
    return found, (
        f"{len(lost):,} of {len(names):,} pictures are not below {tree.root} "
        f"(the first: {lost[0]!r}){unread}"
    )


def complain(message: str, *, strict: bool) -> None:
    """An error, or a warning for those who said ``strict=False``."""
    if strict:
        raise DatasetError(f"{message} Give strict=False to go on with a warning.")
    warnings.warn(message, UserWarning, stacklevel=4)
