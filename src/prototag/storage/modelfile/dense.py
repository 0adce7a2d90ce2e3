"""Dense arrays of a model file, as their owner expects them."""

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
