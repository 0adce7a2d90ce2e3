"""Stage cache: a folder with the results of finished stages, from which a fit resumes."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.lib.format import open_memmap

from prototag.arrays import Array
from prototag.errors import InputError
from prototag.storage.atomic_write import replacing
from prototag.storage.npy_rows import StoredRows, load_rows

KEY = "fit.json"
MMAP_BYTES = 1 << 26  # bytes; larger arrays are memory-mapped


class StageCache:
    """Results of stages as folders of ``.npy`` files.

    A stage is written to a folder ``.part``, which is renamed when it is complete.
    """

    folder: Path  # set by resume

    def __init__(self, folder: str | os.PathLike[str] | None) -> None:
        """Store the folder; None creates a temporary one."""
        self._work = folder

    def resume(self, key: Mapping[str, Any]) -> Self:
        """Create the folder, or resume the fit that ``key`` describes."""
        if self._work is None:
            temporary = tempfile.mkdtemp(prefix="prototag-")
            self.folder = Path(temporary)
            weakref.finalize(self, shutil.rmtree, temporary, True)
        else:
            self.folder = Path(self._work)
            self.folder.mkdir(parents=True, exist_ok=True)
        self._claim(dict(key))
        return self

    def _claim(self, key: dict[str, Any]) -> None:
        path = self.folder / KEY
        if path.exists():
            try:
                stored_key = json.loads(path.read_text(encoding="utf-8"))
            except ValueError:
                stored_key = None
            if stored_key != key:
                raise InputError(
                    f"{self.folder} is the work folder of another fit: remove it or give another "
                    "folder to train on these images with these settings."
                )
        elif any(self.folder.iterdir()):
            raise InputError(f"{self.folder} is not empty: give a new or empty work folder.")
        else:
            with replacing(path) as file:
                file.write(json.dumps(key, indent=1).encode())
        for unfinished in self.folder.glob("*.part"):
            shutil.rmtree(unfinished)

    def arrays(self, stage: str, compute: Callable[[], Mapping[str, Array]]) -> dict[str, Array]:
        """Return the arrays of a stage by name; compute them unless they are cached."""
        if not (self.folder / stage).is_dir():
            part = self._begin_stage(stage)
            for name, array in compute().items():
                np.save(part / f"{name}.npy", array, allow_pickle=False)
            self._end_stage(stage)
        files = sorted((self.folder / stage).glob("*.npy"))
        return {file.stem: _read(file) for file in files}

    def rows(
        self,
        stage: str,
        columns: Mapping[str, int],
        n: int,
        compute: Callable[[], Iterable[tuple[Array, ...]]],
    ) -> dict[str, StoredRows]:
        """Return the rows of a stage, n x columns for each name, computed batch by batch."""
        if not (self.folder / stage).is_dir():
            part = self._begin_stage(stage)
            files = [
                open_memmap(part / f"{name}.npy", "w+", np.float32, (n, width))
                for name, width in columns.items()
            ]
            start = 0
            for batch in compute():
                for file, rows in zip(files, batch, strict=True):
                    file[start : start + len(rows)] = rows
                start += len(batch[0])
            for file in files:
                file.flush()
            del files
            self._end_stage(stage)
        return {
            name: StoredRows.from_files([self.folder / stage / f"{name}.npy"]) for name in columns
        }

    def _begin_stage(self, stage: str) -> Path:
        part = self.folder / f"{stage}.part"
        part.mkdir()
        return part

    def _end_stage(self, stage: str) -> None:
        os.replace(self.folder / f"{stage}.part", self.folder / stage)


def _read(file: Path) -> Array:
    """Read an array; a large one is memory-mapped."""
    large = file.stat().st_size > MMAP_BYTES
    return np.asarray(np.load(file, mmap_mode="r" if large else None, allow_pickle=False))


def fingerprint(X: Any, Y: Any) -> str:
    """Return a digest of a collection: shapes, all tags, and some of the vectors."""
    digest = hashlib.sha256(repr((X.shape, Y.shape)).encode())
    for array in (Y.indptr, Y.indices):
        digest.update(np.ascontiguousarray(array, np.int64).data)
    n = X.shape[0]
    for start in np.linspace(0, max(n - 16, 0), 16).astype(int).tolist():
        digest.update(np.ascontiguousarray(load_rows(X[start : start + 16]), np.float32).data)
    return digest.hexdigest()
