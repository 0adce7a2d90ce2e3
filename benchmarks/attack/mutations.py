"""Random mutations of bytes and values."""

from __future__ import annotations

import random
from typing import Any

NUMBERS: tuple[Any, ...] = (
    0, 1, -1, 2, 3, 7, 255, 256, 65535, 2**31 - 1, 2**31, 2**32, 2**63 - 1, 2**63, -(2**63), 10**9,
    10**12, 2**200, 0.0, -0.0, 0.5, 1.0, 2.5, 1e-30, 1e30, 1e300, -1e300, float("nan"),
    float("inf"), True, False,
)  # fmt: skip
TEXTS = (
    "", " ", "\0", "\x1b[31m\x1b]0;x\x07", "=cmd()", "<script>", "../../etc/passwd", "/dev/zero",
    "‮abc", "\ud800", "e" * 5000, "nan", "x.onnx", "timm:x", "embedded", "\U0001f980",
)  # fmt: skip


def value(rng: random.Random) -> Any:
    """Return a random value of an unexpected type or size."""
    kind = rng.randrange(6)
    if kind < 3:
        return rng.choice(NUMBERS)
    if kind == 3:
        return rng.choice(TEXTS)
    if kind == 4:
        return rng.choice((None, [], {}, [1], {"a": 1}, [[]], [None], [1, 2], ["a", "a"]))
    deep: Any = 1
    for _ in range(rng.choice((2, 49, 60, 200))):
        deep = [deep] if rng.random() < 0.5 else {"a": deep}
    return deep


def damage(rng: random.Random, data: bytes) -> bytes:
    """Flip bits; replace, remove, repeat or insert bytes."""
    damaged = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5, 30))):
        if not damaged:
            break
        at, kind = rng.randrange(len(damaged)), rng.randrange(8)
        if kind < 3:
            damaged[at] ^= 1 << rng.randrange(8)
        elif kind == 3:
            damaged[at] = rng.choice((0, 255, 127, 128, rng.randrange(256)))
        elif kind == 4 and rng.random() < 0.5:
            del damaged[at:]
        elif kind == 5:
            length = rng.choice((1, 2, 4, 8, 64))
            damaged[at : at + length] = rng.choice((b"\0", b"\xff")) * length
        elif kind == 6:
            length = rng.randrange(1, 200)
            damaged[at:at] = damaged[at : at + length]
        else:
            del damaged[at : at + rng.randrange(1, 50)]
    return bytes(damaged)
