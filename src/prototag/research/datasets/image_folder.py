"""Loader of a folder of pictures with tags in ``metadata.jsonl`` or ``metadata.csv``.

The layout is that of Hugging Face's imagefolder: one record per picture, with its
``file_name`` relative to the metadata file, in the folder itself or in ``train`` and ``test``.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import sparse

from prototag.errors import DatasetError, InputError, MetadataError
from prototag.evaluation.splits import stratified_split
from prototag.metadata import csv_jsonl
from prototag.research.datasets.collection import Collection, Ints, Seed, tag_matrix
from prototag.research.datasets.file_access import checksum, report_problem

_PARTS = {
    "train": "train",
    "training": "train",
    "validation": "train",
    "valid": "train",
    "val": "train",
    "dev": "train",
    "test": "test",
    "testing": "test",
}


class Record(NamedTuple):
    """A picture of the metadata."""

    path: Path
    tags: list[str]
    part: str | None


def folder(
    path: str | os.PathLike[str],
    *,
    at_least: int = 1,
    test_share: float | None = None,
    random_state: Seed = 0,
    encoding: str = "utf-8",
    strict: bool = True,
) -> Collection:
    """Load the pictures and tags that ``metadata.jsonl`` or ``metadata.csv`` name.

    Parameters
    ----------
    path : path
        The folder, or a ``.jsonl`` or ``.csv`` file in it, as read by
        :mod:`prototag.metadata.csv_jsonl`. ``split`` is ``train`` or ``test`` (``validation``
        counts as training). Without a ``split`` column, folders named ``train`` and ``test``
        determine the split.
    at_least : int, default=1
        Tags on fewer images are omitted.
    test_share : float, optional
        The share of test images of a stratified split, if the metadata have no split. By default
        all images are for training.
    random_state : int, Generator or None, default=0
        The seed of that split.
    encoding : str, default="utf-8"
    strict : bool, default=True
        A missing picture is an error; otherwise a warning, and the picture is omitted.

    Returns
    -------
    Collection
    """
    if isinstance(at_least, bool) or not isinstance(at_least, int | np.integer) or at_least < 1:
        raise InputError(f"at_least={at_least!r}: give a whole number of at least 1.")
    if test_share is not None and not 0 < test_share < 1:
        raise InputError(f"test_share={test_share!r}: give a share between 0 and 1, or None.")
    top = Path(path)
    files = _metadata(top)
    records = [record for file in files for record in _records(file, encoding)]
    if not records:
        raise DatasetError(f"{files[0]}: names no picture.")
    twice = [name for name, times in Counter(r.path for r in records).items() if times > 1]
    if twice:
        raise DatasetError(f"{twice[0]}: has several records; join them to one.")
    lost = [record.path for record in records if not record.path.is_file()]
    if lost:
        report_problem(
            f"{len(lost):,} of {len(records):,} pictures are missing (the first: {lost[0]}).",
            strict=strict,
        )
        records = [record for record in records if record.path.is_file()]
    count = Counter(tag for record in records for tag in dict.fromkeys(record.tags))
    kept = sorted(tag for tag, times in count.items() if times >= at_least)
    if not kept:
        raise DatasetError(
            f"{files[0]}: no tag is on at least {at_least} of {len(records):,} pictures."
        )
    kept_set = set(kept)
    Y, tags = tag_matrix(([tag for tag in r.tags if tag in kept_set] for r in records), kept)
    train, test = _split(Y, records, test_share, random_state, files[0])
    base = top if top.is_dir() else top.parent
    return Collection(
        name=base.resolve().name,
        Y=Y,
        tags=tags,
        train=train,
        test=test,
        images=[record.path for record in records],
        names=[record.path.relative_to(base).as_posix() for record in records],
        source=", ".join(file.relative_to(base).as_posix() for file in files),
        checksum=checksum(files),
    )


def _split(
    Y: sparse.csr_array,
    records: list[Record],
    test_share: float | None,
    random_state: Seed,
    file: Path,
) -> tuple[Ints, Ints]:
    parts = [record.part for record in records]
    if any(parts):
        if not all(parts):
            row = parts.index(None)
            raise DatasetError(f"{file}: {records[row].path.name} has no split, others have.")
        if test_share is not None:
            raise DatasetError(f"{file}: already has a split: omit test_share.")
        is_test = np.array([part == "test" for part in parts])
        return np.flatnonzero(~is_test), np.flatnonzero(is_test)
    if test_share is None:
        return np.arange(len(records), dtype=np.int64), np.empty(0, np.int64)
    return stratified_split(Y, test_share, random_state=random_state)


def _metadata(top: Path) -> list[Path]:
    if top.is_file():
        if top.suffix.lower() not in csv_jsonl.JSON_LINES_SUFFIXES + csv_jsonl.TABLE_SUFFIXES:
            raise DatasetError(f"{top}: ends in {top.suffix!r}; give a .jsonl or .csv file.")
        return [top]
    if not top.is_dir():
        raise DatasetError(f"{top}: no such folder or file.")
    for folders in ([top], [top / "train", top / "test"]):
        files = [
            inner / name
            for inner in folders
            for name in csv_jsonl.FOLDER_LISTS
            if (inner / name).is_file()
        ]
        if len({file.parent for file in files}) < len(files):
            raise DatasetError(
                f"{files[0].parent} has both {' and '.join(csv_jsonl.FOLDER_LISTS)}: give one file."
            )
        if files:
            return files
    raise DatasetError(
        f"{top} has no metadata.jsonl and no metadata.csv, nor have train and test in it. Write "
        'one with a line for each picture, such as {"file_name": "a.jpg", "tags": ["sea", "sky"]}.'
    )


def _records(file: Path, encoding: str) -> Iterator[Record]:
    try:
        rows = list(csv_jsonl.read(file, encoding=encoding))
    except MetadataError as error:
        raise DatasetError(str(error)) from None
    by_folder = file.parent.name if file.parent.name in ("train", "test") else None
    for row in rows:
        where = f"{file}, line {row.line}"
        part = by_folder
        if row.split is not None:
            part = _PARTS.get(row.split.lower())
            if part is None:
                raise DatasetError(f"{where}: split is {row.split!r}; give train or test.")
        yield Record(_inside(file.parent, row.file, where), row.tags, part)


def _inside(base: Path, name: str, where: str) -> Path:
    if ".." in Path(name).parts or Path(name).anchor:
        raise DatasetError(f"{where}: {name!r} leads out of the folder; give a path within it.")
    return base / name
