"""Rows cut into blocks, what runs them, and sums in a fixed order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from prototag.arrays import Array

T = TypeVar("T")


class Lazy(Protocol):
    """Rows that are somewhere else: a slice of them is cheap, and is read where a block is run."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def __getitem__(self, part: slice) -> Lazy: ...

    def load(self) -> Any:
        """The rows themselves."""


class Engine(ABC):
    """Runs block functions.

    ``stream(function, rows, shared, size=s)`` calls ``function(*(a[part] for a in rows), *shared)``
    for each part of at most ``size`` rows, and gives the results in the order of the parts. All of
    ``rows`` (arrays, CSR matrices, lists, :class:`Lazy` rows) have as many rows, or are None and
    stay so; ``shared`` is the same for every block. The function stands at the top level of a
    module, changes nothing that it is given, and is run with BLAS at one thread. Only a few blocks
    are under way at a time, so that results are held no longer than they are looked at.
    """

    def __sklearn_clone__(self) -> Engine:
        """An engine is where work is done, not what is done: copies of an estimator share it."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Engine:
        return self

    @abstractmethod
    def stream(
        self,
        function: Callable[..., T],
        rows: Sequence[Any],
        shared: Sequence[Any] = (),
        *,
        size: int,
    ) -> Iterator[T]:
        """The results one after the other. Blocks that are not needed any more are not run."""

    def map(
        self,
        function: Callable[..., T],
        rows: Sequence[Any],
        shared: Sequence[Any] = (),
        *,
        size: int,
    ) -> list[T]:
        """All of them."""
        return list(self.stream(function, rows, shared, size=size))


def blocks(n: int, size: int) -> Iterator[slice]:
    """Cut ``range(n)`` into slices of at most ``size``."""
    return (slice(start, min(start + size, n)) for start in range(0, n, size))


def height(rows: Sequence[Any]) -> int:
    """How many rows the arrays of a call have; they must agree."""
    given = [array for array in rows if array is not None]
    counts = {array.shape[0] if hasattr(array, "shape") else len(array) for array in given}
    if len(counts) != 1:
        raise ValueError(f"arrays of {sorted(counts)} rows cannot be cut into the same blocks.")
    return int(counts.pop())


def cut(rows: Sequence[Any], part: slice) -> list[Any]:
    """The rows of one block."""
    return [None if array is None else array[part] for array in rows]


def perform(function: Callable[..., T], rows: Sequence[Any], shared: Sequence[Any]) -> T:
    """Run one block; rows that are somewhere else are read now."""
    return function(*(row.load() if hasattr(row, "load") else row for row in rows), *shared)


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


def total(
    engine: Engine,
    function: Callable[..., T],
    rows: Sequence[Any],
    shared: Sequence[Any] = (),
    *,
    add: Callable[[T, T], T],
    size: int,
) -> T:
    """What a function returns for the blocks, added up in the same tree whoever computes it.

    Neighbours are added first, then their sums; only a few results are held at a time.
    """
    sums: list[tuple[int, T]] = []  # of 2^level blocks each, the levels falling
    for value in engine.stream(function, rows, shared, size=size):
        level = 0
        while sums and sums[-1][0] == level:
            value = add(sums.pop()[1], value)
            level += 1
        sums.append((level, value))
    result = sums.pop()[1]
    while sums:
        result = add(sums.pop()[1], result)
    return result
