"""Reader of INRIA's vector files, in which TagProp's authors publish annotations and features.

Each row is its length followed by its numbers, little-endian: ``.hvecs`` 16-bit unsigned
integers (the length too), ``.hvecs32`` 32-bit unsigned integers, ``.fvec`` and ``.fvecs`` a 32-bit
integer and float32 numbers.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from prototag.arrays import Array
from prototag.errors import DatasetError

_TYPES = {
    ".hvecs": ("<u2", "<u2"),
    ".hvecs32": ("<u4", "<u4"),
    ".fvec": ("<i4", "<f4"),
    ".fvecs": ("<i4", "<f4"),
}


def read_vecs(path: Path) -> Array:
    """Read the rows of a file as an n x m array of the file's number type."""
    if path.suffix not in _TYPES:
        raise DatasetError(f"{path}: ends in {path.suffix!r}; supported are {', '.join(_TYPES)}.")
    length, number = (np.dtype(code) for code in _TYPES[path.suffix])
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DatasetError(f"{path}: cannot be read ({error.strerror or error}).") from error
    if len(data) < length.itemsize:
        raise DatasetError(
            f"{path}: {len(data)} bytes are too short for a vector: download it again."
        )
    m = int(np.frombuffer(data, length, count=1)[0])
    size = length.itemsize + m * number.itemsize
    if m < 1 or len(data) % size:
        raise DatasetError(
            f"{path}: {len(data):,} bytes are not a whole number of vectors of {m} "
            f"({size:,} bytes each): the file is truncated or of another type; download it again."
        )
    rows = np.frombuffer(data, np.dtype([("length", length), ("values", number, (m,))]))
    wrong = np.flatnonzero(rows["length"] != m)
    if len(wrong):
        raise DatasetError(
            f"{path}: row {wrong[0]} declares {rows['length'][wrong[0]]} numbers, the first row "
            f"{m}: the file is damaged or of another type; download it again."
        )
    return rows["values"]
