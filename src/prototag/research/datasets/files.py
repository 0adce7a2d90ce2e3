"""Files of a data set: text within limits, checksums, pictures found by the names in a list."""

from __future__ import annotations

import hashlib
import os
import unicodedata
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath

from prototag.errors import DatasetError

PICTURES = frozenset(
    (".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".heic", ".heif", ".ppm")
)

# The largest list of a known data set has some 3 MB; what is far larger is another file.
_MOST_TEXT = 512 << 20


def read_text(path: Path, *, encoding: str = "utf-8", most: int = _MOST_TEXT) -> str:
    """The text of a file, composed characters in one form (NFC), or an error that names it."""
    try:
        size = path.stat().st_size
        if size > most:
            raise DatasetError(f"{path}: {size:,} bytes, at most {most:,} are read as text.")
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


def read_lines(path: Path, *, encoding: str = "utf-8", most: int = _MOST_TEXT) -> list[str]:
    """The lines of a file without blanks around them; empty lines are left out."""
    # Not splitlines: it cuts at characters, such as U+0085, that occur within a person's tags.
    text = read_text(path, encoding=encoding, most=most).replace("\r\n", "\n").replace("\r", "\n")
    return [line for line in (raw.strip() for raw in text.split("\n")) if line]


def checksum(paths: Iterable[Path]) -> str:
    """SHA-256 over the contents of files, in this order."""
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.stat().st_size.to_bytes(8, "little"))
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


class Tree:
    """Pictures below a folder, found by the names that lists use for them.

    Lists write ``00/25``, ``/images/00/25`` or ``25.jpg`` for ``images/00/25.jpg``. A name fits the
    picture of the same stem that shares most folders with it, counted from the end.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._by_stem: dict[str, list[Path]] = {}
        for folder, inner, files in os.walk(root):
            inner.sort()
            for file in sorted(files):
                stem, suffix = os.path.splitext(file)
                if suffix.lower() in PICTURES:
                    self._by_stem.setdefault(stem, []).append(Path(folder, file))

    def __bool__(self) -> bool:
        return bool(self._by_stem)

    def find(self, name: str) -> Path | None:
        """The one picture that fits best, or None if there is none or several fit as well."""
        wanted = PurePosixPath(name.strip().replace("\\", "/"))
        stem = wanted.stem if wanted.suffix.lower() in PICTURES else wanted.name
        best: list[Path] = []
        most = -1
        for path in self._by_stem.get(stem, []):
            shared = 0
            for one, other in zip(reversed(path.parts[:-1]), reversed(wanted.parts[:-1])):  # noqa: B905
                if one != other:
                    break
                shared += 1
            if shared > most:
                best, most = [path], shared
            elif shared == most:
                best.append(path)
        return best[0] if len(best) == 1 else None


def find_all(tree: Tree, names: Sequence[str]) -> tuple[list[Path | None], str]:
    """The picture of each name, and in words which ones were not found ("" if all were)."""
    found = [tree.find(name) for name in names]
    lost = [name for name, path in zip(names, found, strict=True) if path is None]
    if not lost:
        return found, ""
    return found, (
        f"{len(lost):,} of {len(names):,} pictures are not below {tree.root} "
        f"(the first: {lost[0]!r})"
    )


def complain(message: str, *, strict: bool) -> None:
    """An error, or a warning for those who said ``strict=False``."""
    if strict:
        raise DatasetError(f"{message} Give strict=False to go on with a warning.")
    warnings.warn(message, UserWarning, stacklevel=4)
