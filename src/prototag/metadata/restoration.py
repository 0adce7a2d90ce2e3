"""Undo of writes: the exact bytes of sidecars and pictures before a write.

Of a picture only the changed part is kept, which is its metadata. A file is restored only if it is
bit-identical to what the write left, and the restored file is verified by its digest.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import NamedTuple

from prototag.errors import MetadataError
from prototag.metadata import sidecar
from prototag.storage.atomic_write import write_beside
from prototag.storage.sqlite_lock_guard import open_for_reading

DIGEST_BYTES = 20


class Restoration(NamedTuple):
    """What restores one file as it was before a write."""

    path: Path
    start: int  # of the bytes that were changed
    old: bytes | None  # those bytes before; None if there was no file
    tail: int  # bytes behind them, which are unchanged
    digest_before: bytes  # of the whole file; empty if there was none
    digest_after: bytes  # the same after the write


def restoration(path: Path, before: bytes | None, after: bytes | None) -> Restoration:
    """Compute what restores a file from its contents before and after a write."""
    old = before or b""
    new = after or b""
    start = _common(old, new)
    most = min(len(old), len(new)) - start
    tail = _common(old[::-1][:most], new[::-1][:most])
    changed = None if before is None else old[start : len(old) - tail]
    return Restoration(path, start, changed, tail, _digest(before), _digest(after))


def _common(left: bytes, right: bytes) -> int:
    """Return the number of equal bytes at the start, by bisection."""
    low = 0
    high = min(len(left), len(right))
    if left[:high] == right[:high]:
        return high
    while low < high:
        middle = (low + high + 1) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _digest(data: bytes | None) -> bytes:
    return b"" if data is None else hashlib.blake2b(data, digest_size=DIGEST_BYTES).digest()


def restore(one: Restoration) -> None:
    """Restore a file.

    Raises
    ------
    MetadataError
        The file has changed since, or cannot be written: it was left as it is.
    """
    path = Path(os.path.realpath(one.path))
    try:
        current = _read(path)
        _check_unchanged(one, current)
        before = None
        if one.old is not None:
            data = current or b""
            before = data[: one.start] + one.old + data[len(data) - one.tail :]
        if _digest(before) != one.digest_before:
            raise MetadataError(f"{one.path} cannot be restored: its record is damaged.")
        _replace(one, path, before)
    except OSError as error:
        reason = error.strerror or error
        raise MetadataError(f"{path} cannot be restored: {reason}. Nothing was changed.") from None


def _check_unchanged(one: Restoration, current: bytes | None) -> None:
    if _digest(current) != one.digest_after:
        what = "was removed" if current is None else "has changed"
        raise MetadataError(
            f"{one.path} {what} since it was written: it was left as it is, so that no later "
            "change is lost."
        )


def _replace(one: Restoration, path: Path, before: bytes | None) -> None:
    temporary = None if before is None else write_beside(path, before)
    try:
        with sidecar.lock_folder(path.parent):
            _check_unchanged(one, _read(path))
            if path.exists():
                sidecar.check_writable(path)
                if temporary is not None:
                    sidecar.copy_attributes(temporary, path)
            if temporary is not None:
                os.replace(temporary, path)
            else:
                path.unlink()
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def _read(path: Path) -> bytes | None:
    try:
        with open_for_reading(path) as file:
            return file.read()
    except FileNotFoundError:
        return None
