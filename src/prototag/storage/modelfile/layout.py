"""Names, limits and dtypes of the model file format."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

FORMAT = "prototag"
VERSION = 2
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
