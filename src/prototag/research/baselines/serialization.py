"""What a fitted rival keeps in a model file: declared by dtype and shape, checked when read.

A declaration is a dtype and the names of sizes, such as "f4 n m"; a name stands for one size
throughout, "m" for the number of features and "t" for that of tags. "tags n t" is a CSR matrix of
0/1.
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


def pack(owner: Any, declared: Mapping[str, str]) -> dict[str, Array]:
    """The declared attributes as arrays of a model file, named without their underscores."""
    arrays: dict[str, Array] = {}
    for name, form in declared.items():
        value = getattr(owner, name)
        key = name.strip("_")
        arrays |= modelfile.pack_csr(key, value) if is_tags(form) else {key: value}
    return arrays


def unpack(arrays: Arrays, declared: Mapping[str, str], sizes: Mapping[str, int]) -> dict[str, Any]:
    """The attributes that :func:`pack` gave; ``sizes`` are those known before."""
    known: dict[str, int] = dict(sizes)
    found: dict[str, Any] = {}
    for name, form in declared.items():
        key = name.strip("_")
        (dtype, *letters) = form.split()
        shape = tuple(known.get(letter) for letter in letters)
        if is_tags(form):
            found[name] = _tags(arrays, key, shape)
            continue
        value = modelfile.expect_array(arrays, key, shape, dtype)
        if not value.size:
            raise ModelFileError(f"The array {key!r} is empty: the model is damaged.")
        known.update(zip(letters, value.shape, strict=True))
        found[name] = value
    return found


def is_tags(form: str) -> bool:
    return form.startswith(TAGS)


def _tags(arrays: Arrays, key: str, shape: Any) -> sparse.csr_array:
    matrix = modelfile.unpack_csr(arrays, key, shape)
    if matrix.dtype != np.bool_ or not matrix.data.all():
        raise ModelFileError(f"The tags {key!r} are not 0/1: the file was not written by prototag.")
    return matrix


def plain(value: Any) -> Any:
    """A value as JSON keeps it: numbers of NumPy as Python's, arrays as lists."""
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return np.asarray(value).tolist()


def check(values: Mapping[str, Any], kinds: Mapping[str, type], rules: Mapping[str, Any]) -> None:
    """Refuse values of another type, and choices that the parameter of their name forbids."""
    for name, kind in kinds.items():
        value = values[name]
        if type(value) is not kind:
            raise ModelFileError(f"{name}={value!r} is no {kind.__name__}: the model is damaged.")
        chosen = value if isinstance(value, dict) else {name.rstrip("_"): value}
        for parameter, choice in chosen.items():
            if type(choice) not in (int, float):
                raise ModelFileError(f"{parameter}={choice!r} is no number: the model is damaged.")
        rule = {parameter: rules[parameter] for parameter in chosen if parameter in rules}
        validate_parameter_constraints(rule, {p: chosen[p] for p in rule}, "the model file")
