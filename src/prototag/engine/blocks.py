"""Rows cut into blocks, the contract of what runs them, and sums in a fixed order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from prototag.arrays import Array

T = TypeVar("T")


class Engine(Protocol):
    """Runs block functions.

    ``map(function, rows, shared, size=s)`` calls ``function(*(a[part] for a in rows), *shared)``
    for each part of at most ``size`` rows, and returns the results in the order of the parts. All
    of ``rows`` (arrays, CSR matrices) have as many rows; ``shared`` is the same for every block.
    """

    def map(
        self, function: Callable[..., T], rows: Sequence[Any], shared: Sequence[Any], *, size: int
    ) -> list[T]: ...


def blocks(n: int, size: int) -> Iterator[slice]:
    """Cut ``range(n)`` into slices of at most ``size``."""
    return (slice(start, min(start + size, n)) for start in range(0, n, size))


def height(rows: Sequence[Any]) -> int:
    """How many rows the arrays of a call have; they must agree."""
    counts = {array.shape[0] if hasattr(array, "shape") else len(array) for array in rows}
    if len(counts) != 1:
        raise ValueError(f"arrays of {sorted(counts)} rows cannot be cut into the same blocks.")
    return int(counts.pop())


def run(
    engine: Engine,
    function: Callable[..., Array],
    rows: Sequence[Any],
    shared: Sequence[Any] = (),
    *,
    size: int,
) -> Array:
    """The arrays that a function returns for the blocks, one below the other."""
    parts = engine.map(function, rows, shared, size=size)
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def total(parts: Sequence[T], add: Callable[[T, T], T]) -> T:
    """Results of blocks added up, neighbours first, then their sums: the same tree always."""
    level = list(parts)
    while len(level) > 1:
        pairs = [level[i : i + 2] for i in range(0, len(level), 2)]
        level = [add(*pair) if len(pair) == 2 else pair[0] for pair in pairs]
    return level[0]
