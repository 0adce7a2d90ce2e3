"""What both ends of a model file agree on: names, limits, dtypes, and the JSON allowed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prototag.errors import ModelFileError

FORMAT = "prototag"
VERSION = 1
MAX_BYTES = 8 << 30
MAX_HEADER_BYTES = 16 << 20
MAX_DEPTH = 50

Arrays = dict[str, NDArray[Any]]

DTYPES: dict[str, np.dtype[Any]] = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "U8": np.dtype("u1"),
    "BOOL": np.dtype("?"),
}
CODES = {dtype: code for code, dtype in DTYPES.items()}


def check_json(value: Any, where: str, depth: int = 0) -> None:
    """Refuse what another language could not read back as the same thing."""
    if depth > MAX_DEPTH:
        raise ModelFileError(
            f"{where} is nested more than {MAX_DEPTH} deep: give a flatter header."
        )
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ModelFileError(
                f"{where} holds text that is not Unicode: give valid text."
            ) from None
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str):
                raise ModelFileError(f"{where} has the key {key!r}: give strings as keys.")
            check_json(key, where, depth + 1)
            check_json(item, f"{where}[{key!r}]", depth + 1)
    elif isinstance(value, list | tuple):
        for item in value:
            check_json(item, where, depth + 1)
    elif isinstance(value, float):
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
