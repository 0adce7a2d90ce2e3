"""Model files may come from anywhere: limits before memory, digests while reading, clear errors.

The safetensors library is not used, because it offers none of the three; the tests hold what is
read and written here to it.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from prototag.errors import ModelFileError
from prototag.storage.modelfile.layout import (
    DTYPES,
    FORMAT,
    MAX_BYTES,
    MAX_HEADER_BYTES,
    VERSION,
    Arrays,
    check_json,
    is_shape,
)

_PIECE = 1 << 22


def read(
    path: str | os.PathLike[str],
    *,
    wanted: Callable[[str], bool] | None = None,
    max_bytes: int = MAX_BYTES,
) -> tuple[dict[str, Any], Arrays]:
    """Read a model file and check every byte that is read against its digests.

    Parameters
    ----------
    path : path-like
    wanted : function of an array's name, optional
        Whether to read it; all if not given.
    max_bytes : int
        A larger file is refused before anything of it is read.

    Returns
    -------
    header : dict
    arrays : dict of arrays
        In memory of their own, aligned, C-contiguous, writable.

    Raises
    ------
    ModelFileError
        Whatever is wrong with the file, in words. Nothing in a file is ever executed.
    """
    with _opened(path, max_bytes) as (file, size):
        header, spans = _read_header(file, size, path)
        arrays = {}
        for name, (start, entry) in sorted(spans.items(), key=lambda item: item[1][0]):
            if wanted is not None and not wanted(name):
                continue
            arrays[name] = _read_array(file, name, start, entry, path)
    return header, arrays


def read_header(path: str | os.PathLike[str], *, max_bytes: int = MAX_BYTES) -> dict[str, Any]:
    """Read and check the header of a model file, without its arrays.

    Its ``tensors`` field says the dtype, shape and SHA-256 of each array.
    """
    with _opened(path, max_bytes) as (file, size):
        return _read_header(file, size, path)[0]


def _refusal(path: str | os.PathLike[str], what: str) -> ModelFileError:
    return ModelFileError(
        f"{path} {what}: give an intact model file that prototag wrote, or learn the model again."
    )


@contextmanager
def _opened(path: str | os.PathLike[str], max_bytes: int) -> Iterator[tuple[BinaryIO, int]]:
    # Not blocking: a named pipe nobody writes to would keep us waiting for ever.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        descriptor = os.open(path, flags)
    except FileNotFoundError:
        raise ModelFileError(
            f"{path} does not exist: give the path of a model, or learn one (`prototag train`)."
        ) from None
    except (OSError, ValueError) as error:
        raise _refusal(path, f"cannot be opened ({error})") from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise _refusal(path, "is a folder, a pipe or a device, not a file")
        if status.st_size > max_bytes:
            raise ModelFileError(
                f"{path} has {status.st_size} bytes, the limit is {max_bytes}: "
                "raise max_bytes if you trust the file."
            )
        with open(descriptor, "rb", closefd=False) as file:
            yield file, status.st_size
    except OSError as error:
        raise _refusal(path, f"cannot be read ({error})") from error
    finally:
        os.close(descriptor)


def _read_header(
    file: BinaryIO, size: int, path: str | os.PathLike[str]
) -> tuple[dict[str, Any], dict[str, tuple[int, dict[str, Any]]]]:
    """The header, and for each array where it starts and what it is."""
    start = file.read(8)
    length = int.from_bytes(start, "little")
    if len(start) < 8 or not 2 <= length <= min(size - 8, MAX_HEADER_BYTES):
        raise _refusal(path, _guess(start))
    table = _parse(file.read(length), path)
    metadata = table.pop("__metadata__", None)
    text = metadata.get(FORMAT) if isinstance(metadata, dict) else None
    if not isinstance(metadata, dict) or not isinstance(text, str):
        raise _refusal(path, "is a safetensors file, but not one of prototag")
    encoded = text.encode(errors="replace")
    if metadata.get(f"{FORMAT}_sha256") != hashlib.sha256(encoded).hexdigest():
        raise _refusal(path, "was altered: its header does not match its digest")

    header = _parse(encoded, path)
    version = header.get("version")
    if header.get("format") != FORMAT or type(version) is not int or version < 1:
        raise _refusal(path, "names neither the format prototag nor a version of it")
    if version > VERSION:
        raise ModelFileError(
            f"{path} has version {version} of the model file format, this prototag reads versions "
            f"up to {VERSION}: install a newer prototag."
        )
    check_json(header, f"The header of {path}")
    tensors = header.get("tensors")
    if not isinstance(header.get("kind"), str) or not isinstance(tensors, dict):
        raise _refusal(path, "lacks the kind of model or the list of its arrays")
    if tensors.keys() != table.keys():
        raise _refusal(path, "holds other arrays than its header lists")
    spans = {name: _span(name, table[name], tensors[name], path) for name in table}
    end = 0
    for first, last in sorted(spans.values()):
        if first != end:
            raise _refusal(path, "has arrays that overlap or leave gaps")
        end = last
    if 8 + length + end != size:
        raise _refusal(path, f"has {size} bytes where its header needs {8 + length + end}")
    return header, {name: (8 + length + spans[name][0], tensors[name]) for name in spans}


def _guess(start: bytes) -> str:
    if not start:
        return "is empty"
    if start.startswith(b"PK"):
        return "is a zip archive (perhaps of another library), not a model file"
    if start[0] == 0x80:
        return "looks like a pickle, which is never loaded"
    return "is truncated or not a model file"


def _parse(encoded: bytes, path: str | os.PathLike[str]) -> dict[str, Any]:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(pairs)
        if len(result) < len(pairs):
            raise ValueError("a name occurs twice")
        return result

    def refuse(constant: str) -> float:
        raise ValueError(f"{constant} is not a number")

    try:
        value = json.loads(encoded.decode(), object_pairs_hook=unique, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise _refusal(path, f"has a header that is not valid JSON ({error})") from None
    if not isinstance(value, dict):
        raise _refusal(path, "has a header that is not a JSON object")
    return value


def _span(name: str, place: Any, entry: Any, path: str | os.PathLike[str]) -> tuple[int, int]:
    """Where an array starts and ends behind the header, once table and header agree on it."""
    if isinstance(place, dict) and isinstance(entry, dict):
        offsets: Any = place.get("data_offsets")
        shape: Any = entry.get("shape")
        same = all(place.get(key) == entry.get(key) for key in ("dtype", "shape"))
        dtype = DTYPES.get(str(entry.get("dtype")))
        if same and dtype and is_shape(shape) and is_shape(offsets) and len(offsets) == 2:
            start, end = offsets
            if end - start == math.prod(shape) * dtype.itemsize:
                return start, end
    raise _refusal(path, f"describes its array {name!r} wrongly")


def _read_array(
    file: BinaryIO, name: str, start: int, entry: dict[str, Any], path: str | os.PathLike[str]
) -> NDArray[Any]:
    dtype = DTYPES[entry["dtype"]]
    try:
        raw = np.empty(math.prod(entry["shape"]) * dtype.itemsize, dtype=np.uint8)
        array = raw.view(dtype).reshape(entry["shape"])
    except (MemoryError, ValueError) as error:
        raise _refusal(path, f"has an array {name!r} that memory cannot hold ({error})") from error
    file.seek(start)
    digest = hashlib.sha256()
    for first in range(0, raw.size, _PIECE):
        piece = raw[first : first + _PIECE].data
        if file.readinto(piece) != len(piece):  # type: ignore[attr-defined]
            raise _refusal(path, "became shorter while it was read")
        digest.update(piece)
    if digest.hexdigest() != entry.get("sha256"):
        raise _refusal(path, f"was altered: its array {name!r} does not match its digest")
    if entry["dtype"] == "BOOL" and raw.size and raw.max() > 1:
        raise _refusal(path, f"has an array {name!r} of booleans that are neither 0 nor 1")
    return array.astype(dtype.newbyteorder("="), copy=False)
