"""Reader of model files from untrusted sources: size limits, digests and clear errors.

The safetensors library offers none of these; tests check compatibility with it.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from prototag.errors import ModelFileError
from prototag.storage.modelfile.layout import (
    DTYPES,
    FORMAT,
    MAX_BYTES,
    MAX_DEPTH,
    MAX_HEADER_BYTES,
    VERSION,
    Arrays,
)
from prototag.storage.sqlite_lock_guard import close_descriptor, open_descriptor

if TYPE_CHECKING:
    from scipy import sparse

READ_CHUNK_BYTES = 1 << 22


def read(
    path: str | os.PathLike[str],
    *,
    select: Callable[[str], bool] | None = None,
    max_bytes: int = MAX_BYTES,
) -> tuple[dict[str, Any], Arrays]:
    """Read a model file and check every byte that is read against its digests.

    Parameters
    ----------
    path : path-like
    wanted : function of an array's name, optional
        Whether to read the array; by default all are read.
    max_bytes : int
        A larger file is refused before it is read.

    Returns
    -------
    header : dict
    arrays : dict of arrays
        Aligned, C-contiguous and writable.

    Raises
    ------
    ModelFileError
        The file is missing, damaged or invalid. Nothing in a file is ever executed.
    """
    with open_model_file(path, max_bytes=max_bytes) as file:
        return file.header, file.arrays(select)


def read_header(path: str | os.PathLike[str], *, max_bytes: int = MAX_BYTES) -> dict[str, Any]:
    """Read and check the header of a model file, without its arrays.

    Its ``tensors`` field has the dtype, shape and SHA-256 of each array.
    """
    with open_model_file(path, max_bytes=max_bytes) as file:
        return file.header


class ModelFile:
    """An open model file: its checked header, and its arrays on demand.

    Attributes
    ----------
    path : path-like
    header : dict
    """

    def __init__(self, file: BinaryIO, size: int, path: str | os.PathLike[str]) -> None:
        self.path = path
        self._file = file
        with _translate_os_errors(path):
            self.header, self._spans = _read_header(file, size, path)

    def arrays(self, select: Callable[[str], bool] | None = None) -> Arrays:
        """Read and check the arrays whose names are wanted, all if no function is given."""
        spans = sorted(self._spans.items(), key=lambda item: item[1][0])
        with _translate_os_errors(self.path):
            return {
                name: _read_array(self._file, name, start, entry, self.path)
                for name, (start, entry) in spans
                if select is None or select(name)
            }


@contextmanager
def open_model_file(
    path: str | os.PathLike[str], *, max_bytes: int = MAX_BYTES
) -> Iterator[ModelFile]:
    """Open a model file, to read its header once and then its arrays; raises as :func:`read`."""
    with _open_regular_file(path, max_bytes) as (file, size):
        yield ModelFile(file, size, path)


@contextmanager
def _translate_os_errors(path: str | os.PathLike[str]) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _file_error(path, f"cannot be read ({error})") from error


def _file_error(path: str | os.PathLike[str], what: str) -> ModelFileError:
    return ModelFileError(
        f"{path} {what}: give an intact model file that prototag wrote, or learn the model again."
    )


@contextmanager
def _open_regular_file(
    path: str | os.PathLike[str], max_bytes: int
) -> Iterator[tuple[BinaryIO, int]]:
    # Opening a named pipe without a writer would block.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        descriptor = open_descriptor(path, flags)
    except FileNotFoundError:
        raise ModelFileError(
            f"{path} does not exist: give the path of a model, or learn one (`prototag train`)."
        ) from None
    except (OSError, ValueError) as error:
        raise _file_error(path, f"cannot be opened ({error})") from error
    try:
        with _translate_os_errors(path):
            status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise _file_error(path, "is a folder, a pipe or a device, not a file")
        if status.st_size > max_bytes:
            raise ModelFileError(
                f"{path} has {status.st_size} bytes, the limit is {max_bytes}: "
                "raise max_bytes if you trust the file."
            )
        with open(descriptor, "rb", closefd=False) as file:
            yield file, status.st_size
    finally:
        close_descriptor(descriptor)


def _read_header(
    file: BinaryIO, size: int, path: str | os.PathLike[str]
) -> tuple[dict[str, Any], dict[str, tuple[int, dict[str, Any]]]]:
    """Read the header, and the offset and description of each array."""
    start = file.read(8)
    length = int.from_bytes(start, "little")
    if len(start) < 8 or not 2 <= length <= min(size - 8, MAX_HEADER_BYTES):
        raise _file_error(path, _describe_start(start))
    table = _parse(file.read(length), path)
    header = _parse_own_header(table.pop("__metadata__", None), path)
    tensors = header.get("tensors")
    if not isinstance(header.get("kind"), str) or not isinstance(tensors, dict):
        raise _file_error(path, "lacks the kind of model or the list of its arrays")
    if tensors.keys() != table.keys():
        raise _file_error(path, "holds other arrays than its header lists")
    spans = {name: _span(name, table[name], tensors[name], path) for name in table}
    end = 0
    for first, last in sorted(spans.values()):
        if first != end:
            raise _file_error(path, "has arrays that overlap or leave gaps")
        end = last
    if 8 + length + end != size:
        raise _file_error(path, f"has {size} bytes where its header needs {8 + length + end}")
    return header, {name: (8 + length + spans[name][0], tensors[name]) for name in spans}


def _parse_own_header(metadata: Any, path: str | os.PathLike[str]) -> dict[str, Any]:
    """Parse ProtoTag's header in the safetensors metadata; check its digest and version."""
    text = metadata.get(FORMAT) if isinstance(metadata, dict) else None
    if not isinstance(metadata, dict) or not isinstance(text, str):
        raise _file_error(path, "is a safetensors file, but not one of prototag")
    encoded = text.encode(errors="replace")
    if metadata.get(f"{FORMAT}_sha256") != hashlib.sha256(encoded).hexdigest():
        raise _file_error(path, "was altered: its header does not match its digest")
    header = _parse(encoded, path)
    version = header.get("version")
    if header.get("format") != FORMAT or type(version) is not int or version < 1:
        raise _file_error(path, "names neither the format prototag nor a version of it")
    if version > VERSION:
        raise ModelFileError(
            f"{path} has version {version} of the model file format, this prototag reads versions "
            f"up to {VERSION}: install a newer prototag."
        )
    if version < VERSION:
        raise ModelFileError(
            f"{path} has version {version} of the model file format, this prototag reads version "
            f"{VERSION} only: train the model again."
        )
    check_json(header, f"The header of {path}")
    return header


def _describe_start(start: bytes) -> str:
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
        raise _file_error(path, f"has a header that is not valid JSON ({error})") from None
    if not isinstance(value, dict):
        raise _file_error(path, "has a header that is not a JSON object")
    return value


def _span(name: str, place: Any, entry: Any, path: str | os.PathLike[str]) -> tuple[int, int]:
    """Return start and end of an array after the header, if table and header agree."""
    if isinstance(place, dict) and isinstance(entry, dict):
        offsets: Any = place.get("data_offsets")
        shape: Any = entry.get("shape")
        same = all(place.get(key) == entry.get(key) for key in ("dtype", "shape"))
        dtype = DTYPES.get(str(entry.get("dtype")))
        if same and dtype and is_shape(shape) and is_shape(offsets) and len(offsets) == 2:
            start, end = offsets
            if end - start == math.prod(shape) * dtype.itemsize:
                return start, end
    raise _file_error(path, f"describes its array {name!r} wrongly")


def _read_array(
    file: BinaryIO, name: str, start: int, entry: dict[str, Any], path: str | os.PathLike[str]
) -> NDArray[Any]:
    dtype = DTYPES[entry["dtype"]]
    try:
        raw = np.empty(math.prod(entry["shape"]) * dtype.itemsize, dtype=np.uint8)
        array = raw.view(dtype).reshape(entry["shape"])
    except (MemoryError, ValueError) as error:
        raise _file_error(
            path, f"has an array {name!r} that memory cannot hold ({error})"
        ) from error
    file.seek(start)
    digest = hashlib.sha256()
    for first in range(0, raw.size, READ_CHUNK_BYTES):
        piece = raw[first : first + READ_CHUNK_BYTES].data
        if file.readinto(piece) != len(piece):  # type: ignore[attr-defined]
            raise _file_error(path, "became shorter while it was read")
        digest.update(piece)
    if digest.hexdigest() != entry.get("sha256"):
        raise _file_error(path, f"was altered: its array {name!r} does not match its digest")
    if entry["dtype"] == "BOOL" and raw.size and raw.max() > 1:
        raise _file_error(path, f"has an array {name!r} of booleans that are neither 0 nor 1")
    return array.astype(dtype.newbyteorder("="), copy=False)


def check_json(value: Any, where: str, depth: int = 0) -> None:
    """Refuse values that JSON parsers of other languages could read differently."""
    if depth > MAX_DEPTH:
        raise ModelFileError(
            f"{where} is nested more than {MAX_DEPTH} deep: give a flatter header."
        )
    if isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str):
                raise ModelFileError(f"{where} has the key {key!r}: give strings as keys.")
            check_json(key, where, depth + 1)
            check_json(item, f"{where}[{key!r}]", depth + 1)
    elif isinstance(value, list | tuple):
        for item in value:
            check_json(item, where, depth + 1)
    elif isinstance(value, str):
        if not _is_unicode(value):
            raise ModelFileError(f"{where} holds text that is not Unicode: give valid text.")
    else:
        _check_number(value, where)


def _is_unicode(text: str) -> bool:
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False


def _check_number(value: Any, where: str) -> None:
    """Refuse values that are neither JSON numbers nor true, false or null."""
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ModelFileError(f"{where} holds {value}: give finite numbers.")
    elif isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise ModelFileError(
                f"{where} holds a whole number of more than 64 bits: give a smaller one."
            )
    elif value is not None:
        raise ModelFileError(f"{where} holds a {type(value).__name__}: give plain JSON values.")


def is_shape(shape: Any) -> bool:
    return isinstance(shape, list | tuple) and all(
        type(extent) is int and 0 <= extent < 2**63 for extent in shape
    )


def expect_array(
    arrays: Mapping[str, NDArray[Any]],
    name: str,
    shape: tuple[int | None, ...],
    dtype: str,
    *,
    largest: float | None = None,
) -> NDArray[Any]:
    """Return the array ``name`` after validating shape (None: any size), dtype and finiteness.

    ``largest`` limits absolute values, because products of huge numbers overflow.
    """
    array = arrays.get(name)
    if array is None:
        raise ModelFileError(f"The file lacks the array {name!r}: it is not a complete model.")
    fits = array.ndim == len(shape) and all(
        want is None or want == have for want, have in zip(shape, array.shape, strict=True)
    )
    if not fits or array.dtype != np.dtype(dtype):
        raise ModelFileError(
            f"The array {name!r} is {array.dtype} of shape {array.shape}, expected "
            f"{np.dtype(dtype)} of shape {shape}: the file was not written by prototag."
        )
    if array.dtype.kind == "f" and not _is_finite(array):
        raise ModelFileError(f"The array {name!r} holds NaN or infinity: the model is damaged.")
    if largest is not None and array.size and max(-array.min(), array.max()) > largest:
        raise ModelFileError(
            f"The array {name!r} holds numbers beyond {largest:g}: the model is damaged."
        )
    return array


def _is_finite(array: NDArray[Any]) -> bool:
    # The sum is not finite if a number is not (or if it overflows): one pass and no copy.
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(array.sum()) or np.isfinite(array).all())


def expect_number(values: Mapping[str, Any], name: str, low: float, high: float) -> float:
    """Return the number ``name`` of a header, if it is between two limits."""
    value = values[name]
    if type(value) not in (int, float) or not low <= value <= high:
        raise ModelFileError(
            f"The header says {name} = {value!r}, expected a number from {low:g} to {high:g}: the "
            "file was not written by prototag."
        )
    return float(value)


def expect_count(values: Mapping[str, Any], name: str, largest: int) -> int:
    """Return the integer ``name`` of a header, if it is from 1 to ``largest``."""
    if type(values[name]) is not int:
        raise _header_error(f"The header says {name} = {values[name]!r}, expected a whole number")
    return int(expect_number(values, name, 1, largest))


def _header_error(what: str) -> ModelFileError:
    return ModelFileError(f"{what}: the file was not written by prototag.")


def expect_text(values: Mapping[str, Any], name: str) -> str:
    """Return the text ``name`` of a header."""
    if not isinstance(values[name], str):
        raise _header_error(f"The header says {name} = {values[name]!r}, expected text")
    return str(values[name])


def expect_numbers(values: Mapping[str, Any], name: str) -> dict[str, float]:
    """Return the dictionary of numbers ``name`` of a header."""
    numbers = values[name]
    if not isinstance(numbers, dict) or any(type(v) not in (int, float) for v in numbers.values()):
        raise _header_error(f"The header has {name} that are not all numbers")
    return {key: float(value) for key, value in numbers.items()}


def unpack_csr(arrays: Mapping[str, NDArray[Any]], name: str, shape: Any) -> sparse.csr_array:
    """Return the sparse matrix ``name``, validated by :func:`unpack_rows`."""
    from scipy import sparse

    return sparse.csr_array(unpack_rows(arrays, name, shape), shape=tuple(shape))


def unpack_rows(
    arrays: Mapping[str, NDArray[Any]], name: str, shape: Any
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return data, indices and indptr of a sparse matrix after checking every index.

    Raises
    ------
    ModelFileError
        A part is missing, or the indices are no CSR matrix of this shape with sorted rows.
    """

    def refuse(what: str) -> ModelFileError:
        return ModelFileError(
            f"The sparse matrix {name!r} {what}: the file was not written by prototag. "
            "Use an intact copy, or learn the model again."
        )

    parts = [arrays.get(f"{name}/{part}") for part in ("data", "indices", "indptr")]
    data, indices, indptr = parts
    if data is None or indices is None or indptr is None:
        raise refuse("lacks its data, indices or indptr")
    if not is_shape(shape) or len(shape) != 2:
        raise refuse(f"has the shape {shape!r} instead of two numbers of rows and columns")
    n_rows, n_columns = shape
    if not data.ndim == indices.ndim == indptr.ndim == 1:
        raise refuse("has parts that are not one-dimensional")
    if indices.dtype != indptr.dtype or indices.dtype not in (np.int32, np.int64):
        raise refuse(f"has indices of dtype {indices.dtype} and {indptr.dtype}")
    if len(indptr) != n_rows + 1 or len(indices) != len(data):
        raise refuse(f"has parts whose lengths do not fit {n_rows} rows")
    if indptr[0] != 0 or indptr[-1] != len(data) or (indptr[1:] < indptr[:-1]).any():
        raise refuse("has row limits that do not rise from 0 to its number of entries")
    if len(indices) and not 0 <= indices.min() <= indices.max() < n_columns:
        raise refuse(f"has columns outside 0..{n_columns - 1}")
    rising = indices[1:] > indices[:-1]
    row_starts = indptr[(indptr > 0) & (indptr < len(indices))]
    rising[row_starts - 1] = True  # the first column of a row may be lower
    if not rising.all():
        raise refuse("has rows whose columns do not rise")
    return data, indices, indptr
