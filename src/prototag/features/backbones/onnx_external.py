"""Check of ONNX files for external data, which onnxruntime would open.

A tensor of an ONNX file may be in another file (``data_location`` EXTERNAL, ``external_data``). In
this way onnxruntime opens any file of the working directory, even a library that this process has
open, whose locks are lost when onnxruntime closes it (:mod:`prototag.storage.sqlite_lock_guard`).
The check parses the Protocol Buffers messages that can contain tensors, and skips weights.
"""

from __future__ import annotations

from collections.abc import Iterator

from prototag.errors import BackboneError

# wire types; groups are long deprecated
_VARINT = 0
_FIXED64 = 1
_BYTES = 2
_FIXED32 = 5
_MAX_DEPTH = 64  # of graphs in attributes of nodes of graphs

# Numbers of the fields of onnx.proto that lead to tensors, by message.
_FIELDS = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "function": {7: "node", 11: "attribute"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "node": {5: "attribute"},
    "attribute": {
        5: "tensor",
        6: "graph",
        10: "tensor",
        11: "graph",
        22: "sparse",
        23: "sparse",
    },
    "sparse": {1: "tensor", 2: "tensor"},
}
# fields of a tensor
_EXTERNAL_DATA = 13
_DATA_LOCATION = 14


class _Malformed(ValueError):
    """Error of a file that is not a message of Protocol Buffers."""


def refuse_external_data(data: bytes, name: str) -> None:
    """Refuse a network whose weights are in other files.

    Raises
    ------
    BackboneError
        If it has external data, or is not an ONNX file.
    """
    try:
        has_external_data = _has_external_data(memoryview(data), "model", 0)
    except _Malformed as error:
        raise BackboneError(
            f"onnxruntime cannot load {name}: it is not an ONNX file ({error})."
        ) from (None)
    if has_external_data:
        raise BackboneError(
            f"{name} has weights in other files, which ProtoTag does not open: save the network "
            "as one file (onnx.save_model(..., save_as_external_data=False))."
        )


def _has_external_data(message: memoryview, kind: str, depth: int) -> bool:
    if depth > _MAX_DEPTH:
        raise _Malformed("its graphs are nested too deeply")
    if kind == "tensor":
        return any(
            number == _EXTERNAL_DATA or (number == _DATA_LOCATION and value != 0)
            for number, value in _fields(message)
        )
    children = _FIELDS[kind]
    return any(
        number in children
        and isinstance(value, memoryview)
        and _has_external_data(value, children[number], depth + 1)
        for number, value in _fields(message)
    )


def _fields(message: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Yield number and value of each field of a message."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        number = tag >> 3
        wire = tag & 7
        value: int | memoryview
        if wire == _VARINT:
            value, at = _varint(message, at)
        elif wire in (_BYTES, _FIXED64, _FIXED32):
            size = 8 if wire == _FIXED64 else 4
            if wire == _BYTES:
                size, at = _varint(message, at)
            value = message[at : at + size]
            at += size
            if at > len(message):
                raise _Malformed("it ends too early")
        else:
            raise _Malformed(f"a field has wire type {wire}")
        yield number, value


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for place in range(10):
        if at >= len(message):
            raise _Malformed("it ends too early")
        byte = message[at]
        at += 1
        value |= (byte & 127) << 7 * place
        if byte < 128:
            return value & 0xFFFFFFFFFFFFFFFF, at
    raise _Malformed("a number is too long")
