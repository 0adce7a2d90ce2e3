"""A folder that keeps what the stages of a fit have found, so that it can go on after a kill."""

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
LARGE = 1 << 26  # bytes of an array that is not read at once


class Scratch:
    """Stages are folders of ``.npy`` files; one that is there is whole, by its name."""

    folder: Path  # after resume()

    def __init__(self, folder: str | os.PathLike[str] | None) -> None:
        """Remember the folder; None is a temporary one."""
        self._given = folder

    def resume(self, key: Mapping[str, Any]) -> Self:
        """Make the folder, or go on in it if the fit that ``key`` describes has begun there."""
        if self._given is None:
            made = tempfile.mkdtemp(prefix="prototag-")
            self.folder = Path(made)
            weakref.finalize(self, shutil.rmtree, made, True)
        else:
            self.folder = Path(self._given)
            self.folder.mkdir(parents=True, exist_ok=True)
        self._claim(dict(key))
        return self

    def _claim(self, key: dict[str, Any]) -> None:
        path = self.folder / KEY
        if path.exists():
            try:
                known = json.loads(path.read_text(encoding="utf-8"))
            except ValueError:
                known = None
            if known != key:
                raise InputError(
                    f"{self.folder} keeps the work of another fit: remove the folder, or give "
                    "another one, to learn from these images with these settings."
                )
        elif any(self.folder.iterdir()):
            raise InputError(f"{self.folder} is not empty: give a new folder to work in.")
        else:
            with replacing(path) as file:
                file.write(json.dumps(key, indent=1).encode())
        for rest in self.folder.glob("*.part"):  # of a stage that was interrupted
            shutil.rmtree(rest)

    def arrays(self, stage: str, compute: Callable[[], Mapping[str, Array]]) -> dict[str, Array]:
        """What a stage has found, by name; computed if it has not been."""
        if not (self.folder / stage).is_dir():
            part = self._begin(stage)
            for name, array in compute().items():
                np.save(part / f"{name}.npy", array, allow_pickle=False)
            self._end(stage)
        files = sorted((self.folder / stage).glob("*.npy"))
        return {file.stem: _read(file) for file in files}

    def rows(
        self,
        stage: str,
        columns: Mapping[str, int],
        n: int,
        compute: Callable[[], Iterable[tuple[Array, ...]]],
    ) -> dict[str, StoredRows]:
        """Rows that a stage makes block by block, n x columns for each name."""
        if not (self.folder / stage).is_dir():
            part = self._begin(stage)
            files = [
                open_memmap(part / f"{name}.npy", "w+", np.float32, (n, width))
                for name, width in columns.items()
            ]
            at = 0
            for block in compute():
                for file, rows in zip(files, block, strict=True):
                    file[at : at + len(rows)] = rows
                at += len(block[0])
            for file in files:
                file.flush()
            del files
            self._end(stage)
        return {
            name: StoredRows.from_files([self.folder / stage / f"{name}.npy"]) for name in columns
        }

    def _begin(self, stage: str) -> Path:
        part = self.folder / f"{stage}.part"
        part.mkdir()
        return part

    def _end(self, stage: str) -> None:
        os.replace(self.folder / f"{stage}.part", self.folder / stage)


def _read(file: Path) -> Array:
    """An array; a large one stays in its file, from where the system brings what is looked at."""
    large = file.stat().st_size > LARGE
    return np.asarray(np.load(file, mmap_mode="r" if large else None, allow_pickle=False))


def fingerprint(X: Any, Y: Any) -> str:
    """Tells one collection from another: shapes, all tags, and some of the vectors."""
    digest = hashlib.sha256(repr((X.shape, Y.shape)).encode())
    for array in (Y.indptr, Y.indices):
        digest.update(np.ascontiguousarray(array, np.int64).data)
    n = X.shape[0]
    for start in np.linspace(0, max(n - 16, 0), 16).astype(int).tolist():
        digest.update(np.ascontiguousarray(load_rows(X[start : start + 16]), np.float32).data)
    return digest.hexdigest()
