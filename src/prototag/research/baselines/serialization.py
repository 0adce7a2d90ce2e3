"""Model files of the baselines: arrays are declared by dtype and shape and validated when read.

A declaration is a dtype and the names of dimensions, such as "f4 n m"; equal names have equal
sizes, "m" is the number of features and "t" the number of tags. "tags n t" is a CSR matrix of 0/1,
"codes n k" a CSR matrix of float32.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils._param_validation import validate_parameter_constraints

from prototag.arrays import Array, Arrays
from prototag.errors import ModelFileError
from prototag.storage import modelfile

TAGS = "tags"
CODES = "codes"


def pack(owner: Any, declared: Mapping[str, str]) -> dict[str, Array]:
    """Return the declared attributes as arrays of a model file, without outer underscores."""
    arrays: dict[str, Array] = {}
    for name, declaration in declared.items():
        value = getattr(owner, name)
        key = name.strip("_")
        arrays |= modelfile.pack_csr(key, value) if is_sparse(declaration) else {key: value}
    return arrays


def unpack(arrays: Arrays, declared: Mapping[str, str], sizes: Mapping[str, int]) -> dict[str, Any]:
    """Return the attributes that :func:`pack` stored; ``sizes`` are those already known."""
    known: dict[str, int] = dict(sizes)
    attributes: dict[str, Any] = {}
    for name, declaration in declared.items():
        key = name.strip("_")
        (dtype, *letters) = declaration.split()
        shape = tuple(known.get(letter) for letter in letters)
        if is_sparse(declaration):
            attributes[name] = _csr(arrays, key, shape, dtype)
            continue
        value = modelfile.expect_array(arrays, key, shape, dtype)
        if not value.size:
            raise ModelFileError(f"The array {key!r} is empty: the model is damaged.")
        known.update(zip(letters, value.shape, strict=True))
        attributes[name] = value
    return attributes


def is_sparse(declaration: str) -> bool:
    return declaration.startswith((TAGS, CODES))


def _csr(arrays: Arrays, key: str, shape: Any, kind: str) -> sparse.csr_array:
    matrix = modelfile.unpack_csr(arrays, key, shape)
    if kind == TAGS and (matrix.dtype != np.bool_ or not matrix.data.all()):
        raise ModelFileError(f"The tags {key!r} are not 0/1: the file was not written by prototag.")
    if kind == CODES and (matrix.dtype != np.float32 or not np.isfinite(matrix.data).all()):
        raise ModelFileError(
            f"The codes {key!r} are no finite float32 numbers: the file was not written by "
            "prototag."
        )
    return matrix


def plain(value: Any) -> Any:
    """Convert a value for JSON: NumPy numbers to Python numbers, arrays to lists."""
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return np.asarray(value).tolist()


def check(values: Mapping[str, Any], kinds: Mapping[str, type], rules: Mapping[str, Any]) -> None:
    """Reject values of a wrong type or outside the constraints of the parameter of their name."""
    for name, kind in kinds.items():
        value = values[name]
        if type(value) is not kind:
            raise ModelFileError(f"{name}={value!r} is no {kind.__name__}: the model is damaged.")
        numbers = value if isinstance(value, dict) else {name.rstrip("_"): value}
        for parameter, number in numbers.items():
            if type(number) not in (int, float):
                raise ModelFileError(
                    f"{parameter}={number!r} is not a number: the model is damaged."
                )
        rule = {parameter: rules[parameter] for parameter in numbers if parameter in rules}
        validate_parameter_constraints(rule, {p: numbers[p] for p in rule}, "the model file")
