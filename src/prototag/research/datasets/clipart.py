"""The demo collection inside the package: tagged clip art in the public domain.

It supports demos and tests without downloads; benchmarks/clipart.md describes it and how
tools/embed_clipart.py built it. The container is an uncompressed zip file, so that any thread can
read one picture without unpacking the others.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np

from prototag.errors import DatasetError, InputError
from prototag.research.datasets.collection import Collection, tag_matrix

CONTAINER = Path(__file__).with_name("clipart.zip")
_METADATA = "metadata.jsonl"
_LOCAL_HEADER_BYTES = 30  # before the name of a member, which its content follows


class Members(Sequence[bytes]):
    """The contents of members of an uncompressed zip file, read on access."""

    def __init__(self, path: Path, names: Sequence[str]) -> None:
        self.path = path
        with zipfile.ZipFile(path) as container:
            members = [container.getinfo(name) for name in names]
        self._ranges = [
            (info.header_offset + _LOCAL_HEADER_BYTES + len(info.filename.encode()), info.file_size)
            for info in members
        ]

    def __len__(self) -> int:
        return len(self._ranges)

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> list[bytes]: ...
    def __getitem__(self, index: int | slice) -> bytes | list[bytes]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        start, size = self._ranges[index]
        with self.path.open("rb") as file:
            file.seek(start)
            return file.read(size)


def clipart() -> Collection:
    """Load 2,338 tagged drawings, with near-duplicate groups that the split keeps together.

    Returns
    -------
    Collection
        ``images`` are WebP files as bytes, at most 256 pixels per side, which
        :class:`~prototag.FeatureExtractor` accepts.

    Examples
    --------
    >>> from prototag.research.datasets import clipart
    >>> collection = clipart()
    >>> collection.names[0], collection.images[0][8:12]
    ('animals/baby-tux_alex_kuehne_01.webp', b'WEBP')
    """
    lines = metadata()
    names = [line["file_name"] for line in lines]
    Y, tags = tag_matrix(line["tags"] for line in lines)
    test = np.array([line["split"] == "test" for line in lines])
    return Collection(
        name="clip art",
        Y=Y,
        tags=tags,
        train=np.flatnonzero(~test),
        test=np.flatnonzero(test),
        images=Members(CONTAINER, names),
        names=names,
        groups=np.array([line["group"] for line in lines], np.int64),
        source="Open Clip Art Library 0.18, public domain",
        checksum=hashlib.sha256(CONTAINER.read_bytes()).hexdigest(),
    )


def metadata() -> list[dict[str, Any]]:
    """Return the metadata of each picture, in the order of :func:`clipart`.

    Each has ``file_name``, ``tags``, ``split`` and ``group``; most have ``title`` and ``author``.
    """
    try:
        with zipfile.ZipFile(CONTAINER) as container:
            text = container.read(_METADATA).decode()
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise DatasetError(
            f"{CONTAINER.name} of this package cannot be read ({error}): reinstall the package."
        ) from error
    return [json.loads(line) for line in text.split("\n") if line]


def unpack(folder: str | os.PathLike[str], part: str | None = None) -> Path:
    """Write the pictures to a folder, with a ``metadata.jsonl`` that names their tags.

    Parameters
    ----------
    folder : path
        A new or an empty folder; it appears after everything is written.
    part : {"train", "test"} or None
        One side of the split, or both.

    Returns
    -------
    Path
        The folder.
    """
    if part not in ("train", "test", None):
        raise InputError(f"part={part!r}: give 'train', 'test' or None for both.")
    target = Path(folder)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise DatasetError(
            f"{target} exists and is not an empty folder: give a new or empty folder."
        )
    lines = [line for line in metadata() if part in (line["split"], None)]
    members = Members(CONTAINER, [line["file_name"] for line in lines])
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.parent / f".{target.name}.{secrets.token_hex(4)}"
    try:
        for line, content in zip(lines, members, strict=True):
            path = temporary / line["file_name"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        (temporary / _METADATA).write_text(text, encoding="utf-8")
        if target.exists():
            target.rmdir()
        temporary.rename(target)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    return target
