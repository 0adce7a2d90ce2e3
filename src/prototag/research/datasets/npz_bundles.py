"""Bundles: one ``.npz`` file with the vectors, tags, names and split of a collection.

Keys: ``X`` (n x m, any float type), ``label_bits`` (bits of the n x t tag matrix, eight to a byte),
``n_tags``, ``tags``, ``image_names`` or ``image_ids``, ``train_idx``, ``test_idx``.
"""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy import sparse

from prototag.arrays import Array
from prototag.errors import DatasetError, InputError
from prototag.research.datasets.collection import Collection
from prototag.research.datasets.file_access import checksum
from prototag.storage.atomic_write import replacing

_KEYS = ("label_bits", "n_tags", "tags", "train_idx", "test_idx")
# A small zip file can declare any size; a million vectors of 4,096 float32 have 16 GB.
_MAX_BYTES = 32 << 30


def bundle(*paths: str | os.PathLike[str], name: str | None = None) -> Collection:
    """Load a bundle, or several bundles of the same images with their vectors concatenated.

    Parameters
    ----------
    *paths : paths
        ``.npz`` files. All must have the same images, tags and split.
    name : str, optional
        The name of the collection; by default that of the first file.

    Returns
    -------
    Collection
        ``X`` is float32, with the columns of all bundles.
    """
    if not paths:
        raise InputError("bundle() needs the path of at least one .npz file.")
    files = [Path(path) for path in paths]
    loaded = [_read(path) for path in files]
    for path, other in zip(files[1:], loaded[1:], strict=True):
        for key, value in loaded[0].items():
            if key != "X" and not np.array_equal(value, other[key]):
                raise DatasetError(
                    f"{files[0].name} and {path.name} differ in {key}: joined bundles "
                    "must have the same images, tags and split."
                )
    first = loaded[0]
    matrices = [values["X"] for values in loaded if "X" in values]
    if matrices and len(matrices) < len(loaded):
        raise DatasetError("A bundle without vectors cannot be joined to others: omit it.")
    bits = np.unpackbits(first["label_bits"], axis=1)[:, : int(first["n_tags"])]
    return Collection(
        name=name or files[0].stem,
        Y=sparse.csr_array(bits.astype(np.float32)),
        tags=[str(tag) for tag in first["tags"]],
        train=first["train_idx"].astype(np.int64),
        test=first["test_idx"].astype(np.int64),
        X=_concatenate(matrices) if matrices else None,
        names=[str(image) for image in first["images"]],
        source=" + ".join(path.name for path in files),
        checksum=checksum(files),
    )


def save_bundle(collection: Collection, path: str | os.PathLike[str]) -> None:
    """Write a collection for :func:`bundle` atomically, with vectors as float32."""
    n = collection.Y.shape[0]
    arrays: dict[str, npt.ArrayLike] = {
        "label_bits": np.packbits(collection.Y.toarray() > 0, axis=1),
        "n_tags": np.int64(collection.Y.shape[1]),
        "tags": np.array(collection.tags),
        "image_names": np.array(collection.names or [str(row) for row in range(n)]),
        "train_idx": collection.train,
        "test_idx": collection.test,
    }
    if collection.X is not None:
        arrays["X"] = collection.X
    with replacing(Path(path)) as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)


def _read(path: Path) -> dict[str, Array]:
    if not path.is_file():
        raise DatasetError(f"{path}: no such file. Give the path of a bundle (.npz).")
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(member.file_size for member in archive.infolist())
        if size > _MAX_BYTES:
            raise DatasetError(f"{path}: {size:,} bytes unpacked, at most {_MAX_BYTES:,} allowed.")
        with np.load(path, allow_pickle=False) as archive:
            names = next((key for key in ("image_names", "image_ids") if key in archive), None)
            lost = [key for key in _KEYS if key not in archive]
            if names is None:
                lost.append("image_names")
            if lost or names is None:
                raise DatasetError(
                    f"{path}: {', '.join(lost)} missing; a bundle has {', '.join(_KEYS)}, "
                    "image_names or image_ids, and X."
                )
            values: dict[str, Array] = {key: archive[key] for key in _KEYS}
            values["images"] = archive[names]
            if "X" in archive:
                values["X"] = archive["X"]
    except DatasetError:
        raise
    except (OSError, ValueError, EOFError, MemoryError, zipfile.BadZipFile) as error:
        raise DatasetError(f"{path}: not a bundle, or damaged ({error}).") from error
    _check(values, path)
    return values


def _check(values: dict[str, Array], path: Path) -> None:
    bits = values["label_bits"]
    images = values["images"]
    if bits.ndim != 2 or bits.dtype != np.uint8 or np.ndim(values["n_tags"]) != 0:
        raise DatasetError(f"{path}: label_bits must be bytes, a row for each image.")
    t = int(values["n_tags"])
    if not 0 < t <= 8 * bits.shape[1] or values["tags"].shape != (t,):
        raise DatasetError(
            f"{path}: n_tags={t}, {8 * bits.shape[1]} bits, {values['tags'].shape} names of tags: "
            "these must be as many."
        )
    n = len(bits)
    X = values.get("X")
    rows = [("images", images)] + ([] if X is None else [("X", X)])
    for key, value in rows:
        if len(value) != n:
            raise DatasetError(f"{path}: {key} has {len(value)} rows, label_bits {n}.")
    if X is not None and (X.ndim != 2 or X.dtype.kind != "f"):
        raise DatasetError(f"{path}: X is {X.dtype} of shape {X.shape}, expected n x m floats.")
    for key in ("train_idx", "test_idx"):
        if values[key].ndim != 1 or values[key].dtype.kind not in "iu":
            raise DatasetError(f"{path}: {key} must be row numbers.")


def _concatenate(matrices: list[Array]) -> npt.NDArray[np.float32]:
    """Concatenate columns as float32 without a temporary copy: bundles can be large."""
    X = np.empty((len(matrices[0]), sum(part.shape[1] for part in matrices)), np.float32)
    start = 0
    for part in matrices:
        X[:, start : start + part.shape[1]] = part
        start += part.shape[1]
    return X
