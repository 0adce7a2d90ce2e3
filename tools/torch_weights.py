"""Read the tensors of a legacy PyTorch file with NumPy alone, without executing its code.

Such a file is four pickles (magic number, protocol, system, the object), a pickled list of storage
keys, and the raw storages. A pickle can call anything it can name, so the unpickler here knows
exactly four names and refuses every other.
"""

from __future__ import annotations

import pickle
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

MAGIC = 0x1950A86A20F9469CFC6C
PROTOCOL = 1001


class _Storage(NamedTuple):
    key: str
    dtype: np.dtype[Any]
    size: int


class _Tensor(NamedTuple):
    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def _rebuild_tensor(
    storage: _Storage, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], *_: object
) -> _Tensor:
    return _Tensor(storage, offset, shape, strides)


_ALLOWED: Mapping[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): OrderedDict,
    ("torch._utils", "_rebuild_tensor_v2"): _rebuild_tensor,
    ("torch", "FloatStorage"): np.dtype("<f4"),
    ("torch", "LongStorage"): np.dtype("<i8"),
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ALLOWED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(
                f"the file names {module}.{name}; a file of plain weights names only "
                + ", ".join(".".join(names) for names in _ALLOWED)
            ) from None

    def persistent_load(self, pid: Any) -> _Storage:
        kind, dtype, key, _device, size, view = pid
        if kind != "storage" or view is not None:
            raise pickle.UnpicklingError(f"unknown kind of stored object: {kind!r}, view {view!r}")
        return _Storage(key, dtype, size)


def read_weights(path: Path) -> dict[str, np.ndarray]:
    """Return the tensors of the state dictionary in ``path``, by name."""
    with path.open("rb") as file:
        if _Unpickler(file).load() != MAGIC or _Unpickler(file).load() != PROTOCOL:
            raise pickle.UnpicklingError(f"{path.name} is not a legacy PyTorch file")
        _Unpickler(file).load()  # byte order and word sizes of the writer: always little endian
        tensors = _Unpickler(file).load()
        keys = _Unpickler(file).load()
        dtypes = {tensor.storage.key: tensor.storage for tensor in tensors.values()}
        storages = {key: _read_storage(file, dtypes[key]) for key in keys}
    return {name: _view(tensor, storages[tensor.storage.key]) for name, tensor in tensors.items()}


def _read_storage(file: IO[bytes], storage: _Storage) -> np.ndarray:
    size = int.from_bytes(file.read(8), "little")
    if size != storage.size:
        raise pickle.UnpicklingError(f"storage {storage.key} has {size} values, not {storage.size}")
    data = file.read(size * storage.dtype.itemsize)
    return np.frombuffer(data, storage.dtype, count=size)


def _view(tensor: _Tensor, storage: np.ndarray) -> np.ndarray:
    # Weights that came from TensorFlow lie permuted, so strides matter; bounds are checked by hand
    # because as_strided would read outside the storage without a word.
    steps = tensor.strides
    last = tensor.offset + sum((n - 1) * step for n, step in zip(tensor.shape, steps, strict=True))
    if min((tensor.offset, *steps)) < 0 or min((1, *tensor.shape)) < 1 or last >= len(storage):
        raise pickle.UnpicklingError(
            f"a tensor of shape {tensor.shape} reaches outside its storage"
        )
    view = np.lib.stride_tricks.as_strided(
        storage[tensor.offset :], tensor.shape, [step * storage.itemsize for step in steps]
    )
    return np.array(view, order="C")
