"""Settings of an ONNX backbone in a JSON file of the same name.

{"size": [224, 224], "mean": [0.48, 0.46, 0.41], "std": [0.27, 0.26, 0.28],
 "layout": "nchw", "interpolation": "bicubic", "output": "image_embeds"}
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from prototag.errors import BackboneError
from prototag.storage.sqlite_lock_guard import open_for_reading

MAX_BYTES = 1 << 16
LAYOUTS = ("nchw", "nhwc")
INTERPOLATIONS = ("bilinear", "bicubic", "lanczos")
POOLS = ("first", "mean")
_ALLOWED = {
    "size": "[width, height]",
    "shapes": "a list of [width, height]",
    "mean": "three numbers",
    "std": "three numbers above 0",
    "layout": " or ".join(map(repr, LAYOUTS)),
    "interpolation": ", ".join(map(repr, INTERPOLATIONS)),
    "output": "the name of an output",
    "pool": " or ".join(map(repr, POOLS)),
}


def read_settings(path: Path) -> dict[str, Any]:
    """Read and validate the settings beside a network; empty if there is no such file."""
    beside = path.with_suffix(".json")
    try:
        with open_for_reading(beside) as file:
            text = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise BackboneError(f"{beside} cannot be read: {error.strerror}.") from None
    try:
        values = json.loads(text) if len(text) <= MAX_BYTES else None
    except (ValueError, RecursionError) as error:
        raise BackboneError(f"{beside} is not JSON: {error}.") from None
    if not isinstance(values, dict):
        raise BackboneError(f"{beside} does not describe a network: one JSON object is needed.")
    for name, value in values.items():
        if name not in _ALLOWED:
            raise BackboneError(f"{beside} has {name!r}; it may have {', '.join(_ALLOWED)}.")
        if not _is_valid(name, value):
            raise BackboneError(f"{beside}: {name!r} is {value!r}; give {_ALLOWED[name]}.")
    settings = dict(values)
    if "size" in settings:
        settings["size"] = tuple(settings["size"])
    if "shapes" in settings:
        settings["shapes"] = tuple(tuple(shape) for shape in settings["shapes"])
    return settings


def _is_valid(name: str, value: Any) -> bool:
    if name == "size":
        return _is_size(value)
    if name == "shapes":
        return isinstance(value, list) and 1 <= len(value) <= 64 and all(map(_is_size, value))
    if name in ("mean", "std"):
        is_triple = isinstance(value, list) and len(value) == 3
        are_numbers = is_triple and all(type(x) in (int, float) and abs(x) < 1e6 for x in value)
        return are_numbers and (name == "mean" or min(value) > 0)
    if name == "output":
        return isinstance(value, str) and bool(value)
    return value in {"layout": LAYOUTS, "interpolation": INTERPOLATIONS, "pool": POOLS}[name]


def _is_size(value: Any) -> bool:
    is_pair = isinstance(value, list) and len(value) == 2
    are_counts = is_pair and all(type(side) is int for side in value)
    return are_counts and min(value) >= 1 and max(value) <= 4096
