"""Dense arrays and numbers of a model file, as their owner expects them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prototag.errors import ModelFileError


def expect(
    arrays: Mapping[str, NDArray[Any]], name: str, shape: tuple[int | None, ...], dtype: str
) -> NDArray[Any]:
    """The array ``name`` if it has this shape (None: any size) and dtype, and is finite."""
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
    return array


def _is_finite(array: NDArray[Any]) -> bool:
    # The sum is not finite if a number is not (or if it overflows): one pass and no copy.
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(array.sum()) or np.isfinite(array).all())


def expect_number(values: Mapping[str, Any], name: str, low: float, high: float) -> float:
    """The number ``name`` of a header if it lies between two limits."""
    value = values[name]
    if type(value) not in (int, float) or not low <= value <= high:
        raise ModelFileError(
            f"The header says {name} = {value!r}, expected a number from {low:g} to {high:g}: the "
            "file was not written by prototag."
        )
    return float(value)


def expect_count(values: Mapping[str, Any], name: str, largest: int) -> int:
    """The whole number ``name`` of a header if it is at least 1 and at most ``largest``."""
    if type(values[name]) is not int:
        raise ModelFileError(
            f"The header says {name} = {values[name]!r}, expected a whole number: the file was not "
            "written by prototag."
        )
    return int(expect_number(values, name, 1, largest))
