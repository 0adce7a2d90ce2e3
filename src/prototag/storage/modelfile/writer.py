"""Writer of model files: atomic, and byte-identical for identical content."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prototag.errors import ModelFileError
from prototag.storage.atomic_write import replacing
from prototag.storage.modelfile.layout import (
    CODES,
    FORMAT,
    MAX_HEADER_BYTES,
    VERSION,
    Arrays,
)
from prototag.storage.modelfile.reader import check_json


def write(
    path: str | os.PathLike[str], header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> None:
    """Write a model file atomically.

    Parameters
    ----------
    path : path-like
        A symbolic link is followed. The folder must exist.
    header : mapping of JSON values
        ``kind`` (a string) is required. ``format``, ``version`` and ``tensors`` belong to the file
        and are always overwritten.
    arrays : mapping of names to arrays
        float16/32/64, int32/64, uint8 or bool. Parts are named like ``mcdl/visual_prototypes``.

    Raises
    ------
    ModelFileError
        The header is not plain JSON or an array cannot be stored.
    OSError
        The write failed; no file remains and an existing file is unchanged.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        raise ModelFileError(f"{path} is not a regular file: give the path of a file to write.")
    stored = {name: _storable(name, array) for name, array in arrays.items()}
    # Wide items first keeps every array aligned to its own size in the file.
    order = sorted(stored, key=lambda name: (-stored[name].itemsize, name))
    head = _encode(header, {name: stored[name] for name in order})
    with replacing(target) as file:
        file.write(head)
        for name in order:
            file.write(_bytes(stored[name]))


def pack_csr(name: str, matrix: Any) -> Arrays:
    """Convert a sparse matrix to arrays ``name/data``, ``name/indices`` and ``name/indptr``.

    Rows are sorted and duplicates summed; the indices are int32 if possible.
    """
    from scipy import sparse

    csr = sparse.csr_array(matrix, copy=True)
    csr.sum_duplicates()
    wide = max(csr.nnz, *csr.shape) > np.iinfo(np.int32).max
    index = np.int64 if wide else np.int32
    return {
        f"{name}/data": csr.data,
        f"{name}/indices": csr.indices.astype(index, copy=False),
        f"{name}/indptr": csr.indptr.astype(index, copy=False),
    }


def provenance() -> dict[str, Any]:
    """Return time and versions of a result, without personal data."""
    import platform
    from datetime import UTC, datetime
    from importlib.metadata import version

    return {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "machine": platform.machine(),
        **{name: version(name) for name in ("prototag", "numpy", "scipy", "scikit-learn")},
    }


def _encode(header: Mapping[str, Any], arrays: Arrays) -> bytes:
    """Encode the header; the bytes of the arrays follow in the same order."""
    tensors = {}
    table = {}
    end = 0
    for name, array in arrays.items():
        kind = {"dtype": CODES[array.dtype], "shape": list(array.shape)}
        tensors[name] = {**kind, "sha256": hashlib.sha256(_bytes(array)).hexdigest()}
        start = end
        end += array.nbytes
        table[name] = {**kind, "data_offsets": [start, end]}
    full = {**header, "format": FORMAT, "version": VERSION, "tensors": tensors}
    check_json(full, "The header")
    if not isinstance(full.get("kind"), str):
        raise ModelFileError(f"The header has kind={full.get('kind')!r}: give a string.")
    text = _dumps(full)
    metadata = {FORMAT: text, f"{FORMAT}_sha256": hashlib.sha256(text.encode()).hexdigest()}
    encoded = _dumps({**table, "__metadata__": metadata}).encode()
    encoded += b" " * (-len(encoded) % 8)
    if len(encoded) > MAX_HEADER_BYTES:
        raise ModelFileError(
            f"The header needs {len(encoded)} bytes, the limit is {MAX_HEADER_BYTES}: "
            "store large lists as arrays."
        )
    return len(encoded).to_bytes(8, "little") + encoded


def _storable(name: str, array: NDArray[Any]) -> NDArray[Any]:
    if not isinstance(name, str) or not name or name == "__metadata__":
        raise ModelFileError(f"An array is named {name!r}: give a non-empty string of your own.")
    array = np.asarray(array, order="C")
    if array.dtype.newbyteorder("<") not in CODES:
        raise ModelFileError(
            f"The array {name!r} has dtype {array.dtype}: a model file holds float16, float32, "
            "float64, int32, int64, uint8 and bool."
        )
    return array.astype(array.dtype.newbyteorder("<"), copy=False)


def _bytes(array: NDArray[Any]) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


def _dumps(value: Any) -> str:
    return json.dumps(
        value, allow_nan=False, ensure_ascii=False, separators=(",", ":"), sort_keys=True
    )
