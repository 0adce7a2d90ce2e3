"""Rows cut into blocks, sums in a fixed order, and the engine of one machine: threads.

Kernels and BLAS release the interpreter lock, so plain threads suffice. A block is always computed
by one thread with BLAS at one thread, whatever ``n_jobs`` is.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import Any, Protocol, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

from prototag.arrays import Array

S = TypeVar("S")
T = TypeVar("T")
TOGETHER = 16  # blocks whose results are held before they are added up


class Engine(Protocol):
    """Runs block functions.

    ``map(function, rows, shared, size=s)`` calls ``function(*(a[part] for a in rows), *shared)``
    for each part of at most ``size`` rows, and returns the results in the order of the parts. All
    of ``rows`` (arrays, CSR matrices) have as many rows, or are None and stay so; ``shared`` is the
    same for every block. The function stands at the top level of a module, changes nothing that it
    is given, and is run with BLAS at one thread.
    """

    def map(
        self,
        function: Callable[..., T],
        rows: Sequence[Any],
        shared: Sequence[Any] = (),
        *,
        size: int,
    ) -> list[T]: ...


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
    for part in blocks(height(rows), TOGETHER * size):
        for value in engine.map(function, cut(rows, part), shared, size=size):
            level = 0
            while sums and sums[-1][0] == level:
                value = add(sums.pop()[1], value)
                level += 1
            sums.append((level, value))
    result = sums.pop()[1]
    while sums:
        result = add(sums.pop()[1], result)
    return result


class Threads:
    """Runs blocks on ``n_jobs`` threads: None is one, -1 all cores, -2 all but one."""

    def __init__(self, n_jobs: int | None = None) -> None:
        self.n_jobs = n_jobs

    def map(
        self,
        function: Callable[..., T],
        rows: Sequence[Any],
        shared: Sequence[Any] = (),
        *,
        size: int,
    ) -> list[T]:
        """See :class:`prototag.engine.Engine`.

        The first exception of any block ends the call after the blocks already running.
        """
        parts = list(blocks(height(rows), size))
        n_threads = min(count_threads(self.n_jobs), len(parts))

        def block(part: slice) -> T:
            return function(*cut(rows, part), *shared)

        with one_thread():
            if n_threads <= 1:
                return [block(part) for part in parts]
            with ThreadPoolExecutor(n_threads, thread_name_prefix="prototag") as pool:
                futures = [pool.submit(block, part) for part in parts]
                try:
                    return [future.result() for future in futures]
                except BaseException:
                    pool.shutdown(wait=True, cancel_futures=True)
                    raise


ONE = Threads()  # blocks one after the other


def count_threads(n_jobs: int | None) -> int:
    """Number of threads for ``n_jobs``: None is one, -1 all cores, -2 all but one, as in joblib."""
    if n_jobs is None:
        return 1
    if n_jobs == 0:
        raise ValueError(
            "n_jobs=0 has no meaning: give a positive count, -1 for all cores, or None for one."
        )
    return n_jobs if n_jobs > 0 else max(1, _cores() + 1 + n_jobs)


def _cores() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def _blas() -> ThreadpoolController:
    return _libraries("scipy.linalg" in sys.modules)  # which has a BLAS of its own


@lru_cache(maxsize=2)
def _libraries(_with_scipy: bool) -> ThreadpoolController:
    # Listing the loaded libraries costs a millisecond, more than coding one image: do it once.
    return ThreadpoolController().select(user_api="blas")


def one_thread() -> AbstractContextManager[object]:
    """BLAS at one thread, for what cannot be cut into blocks and should still be the same bits.

    Where it is so already there is nothing to set, or to set back.
    """
    if all(library.num_threads == 1 for library in _blas().lib_controllers):
        return nullcontext()
    limited: AbstractContextManager[object] = _blas().limit(limits=1)
    return limited


def keep_one_thread() -> None:
    """BLAS at one thread from now on, for a program whose own threads annotate side by side.

    Setting it back after each call, as :func:`one_thread` does, would set it for all of them.
    """
    _blas().limit(limits=1)


def ahead(
    function: Callable[[S], T], items: Iterable[S], *, workers: int, window: int
) -> Iterator[T]:
    """Results of ``function`` in the order of ``items``, at most ``window`` of them under way."""
    if workers < 1:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(workers, thread_name_prefix="prototag-ahead") as pool:
        queue: deque[Future[T]] = deque()
        try:
            for item in items:
                queue.append(pool.submit(function, item))
                if len(queue) >= window:
                    yield queue.popleft().result()
            while queue:
                yield queue.popleft().result()
        finally:
            for future in queue:
                future.cancel()
