"""Large thumbnails for dense screens and large cells, made on demand and kept within a disk budget.

The library's file has a thumbnail of 256 pixels for each picture. Larger ones are files in a folder
beside the vector cache, named by the digest of the picture, so that libraries share them. The least
recently used ones are evicted. Deleting the folder loses nothing but time.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path

from prototag.storage import atomic_write
from prototag.storage.sqlite_lock_guard import open_for_reading

SIDES = (512, 1024)  # pixels of the longer side
FOLDER = "thumbnails"
LARGE_QUALITY = 78  # of WebP: about 25 kB at 512 pixels
MAX_BYTES = 512 << 20  # of all files of the folder: about 20,000 thumbnails of 512 pixels


class LargeThumbnails:
    """Files of thumbnails in a folder, limited in total size; threads may share it.

    Parameters
    ----------
    folder : Path
        Created when the first thumbnail is kept.
    max_bytes : int
        Largest total size. The least recently used files are deleted first.
    """

    def __init__(self, folder: Path, max_bytes: int = MAX_BYTES) -> None:
        self.folder = folder
        self.max_bytes = max_bytes
        self._lock = threading.Lock()
        self._sizes: OrderedDict[str, int] | None = None  # by name, the last used at the end
        self._total = 0

    def get(self, digest: str, side: int) -> bytes | None:
        """Return a thumbnail that was kept, else None."""
        name = _name(digest, side)
        with self._lock:
            if name not in self._index():
                return None
            self._index().move_to_end(name)
        try:
            with open_for_reading(self.folder / name) as file:
                return file.read()
        except OSError:
            self._forget(name)
            return None

    def put(self, digest: str, side: int, data: bytes) -> None:
        """Keep a thumbnail, and evict others beyond the limit. A full disk is no error."""
        name = _name(digest, side)
        file = self.folder / name
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            os.replace(atomic_write.write_beside(file, data), file)
        except OSError:
            return
        evicted: list[str] = []
        with self._lock:
            index = self._index()
            self._total += len(data) - index.pop(name, 0)
            index[name] = len(data)
            while self._total > self.max_bytes and len(index) > 1:
                oldest, size = index.popitem(last=False)
                self._total -= size
                evicted.append(oldest)
        for one in evicted:
            with suppress(OSError):
                (self.folder / one).unlink()

    @property
    def total_bytes(self) -> int:
        """Size of all kept thumbnails."""
        with self._lock:
            self._index()
            return self._total

    def _forget(self, name: str) -> None:
        with self._lock:
            self._total -= self._index().pop(name, 0)

    def _index(self) -> OrderedDict[str, int]:
        """Return the sizes of all files, listed from the folder at the first call."""
        if self._sizes is None:
            found: list[tuple[float, str, int]] = []
            for file in self.folder.glob("??/*.webp"):
                with suppress(OSError):
                    status = file.stat()
                    name = f"{file.parent.name}/{file.name}"
                    found.append((status.st_mtime, name, status.st_size))
            self._sizes = OrderedDict((name, size) for _, name, size in sorted(found))
            self._total = sum(self._sizes.values())
        return self._sizes


def _name(digest: str, side: int) -> str:
    return f"{digest[:2]}/{digest}-{side}.webp"
