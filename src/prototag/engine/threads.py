"""Rows cut into blocks, sums in a fixed order, and the engine of one machine: threads.

Kernels and BLAS release the interpreter lock, so plain threads suffice. A block is always computed
by one thread with BLAS at one thread, whatever ``n_jobs`` is.
"""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import Any, Protocol, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

from prototag.arrays import Array
from prototag.engine.layout import copy_rows, make_contiguous, separate_shared

S = TypeVar("S")
T = TypeVar("T")
BATCHES_PER_THREAD = 2  # blocks for each thread that are under way or wait to be looked at


class LazyRows(Protocol):
    """Rows that are somewhere else: a slice of them is cheap, and is read where a block is run."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def __getitem__(self, part: slice) -> LazyRows: ...

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

    Every engine runs a block by :func:`perform`. Arrays among ``rows`` arrive as copies in C order,
    aligned to 64 bytes; arrays among ``shared`` arrive contiguous and aligned; no two of them use
    the same memory. Arrays inside other objects arrive as they are, so such objects hold contiguous
    arrays.
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


def batch_slices(n: int, size: int) -> Iterator[slice]:
    """Cut ``range(n)`` into slices of at most ``size``."""
    return (slice(start, min(start + size, n)) for start in range(0, n, size))


def count_rows(rows: Sequence[Any]) -> int:
    """How many rows the arrays of a call have; they must agree."""
    given = [array for array in rows if array is not None]
    counts = {array.shape[0] if hasattr(array, "shape") else len(array) for array in given}
    if len(counts) != 1:
        raise ValueError(f"arrays of {sorted(counts)} rows cannot be cut into the same blocks.")
    return int(counts.pop())


def slice_rows(rows: Sequence[Any], part: slice) -> list[Any]:
    """The rows of one block."""
    return [None if array is None else array[part] for array in rows]


def run_batch(function: Callable[..., T], rows: Sequence[Any], shared: Sequence[Any]) -> T:
    """Run one block, its arrays laid out in memory alike by every engine.

    Rows that are somewhere else are read now. An engine that runs many blocks calls
    :func:`prototag.engine.layout.separate_shared` once on the shared values and saves copies here.
    """
    loaded = copy_rows([row.load() if hasattr(row, "load") else row for row in rows])
    result: T = make_contiguous(function(*loaded, *separate_shared(shared)))
    return result


def map_rows(
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


def tree_sum(
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


class Threads(Engine):
    """Runs blocks on ``n_jobs`` threads: None is one, -1 all cores, -2 all but one."""

    def __init__(self, n_jobs: int | None = None) -> None:
        self.n_jobs = n_jobs

    def stream(
        self,
        function: Callable[..., T],
        rows: Sequence[Any],
        shared: Sequence[Any] = (),
        *,
        size: int,
    ) -> Iterator[T]:
        """See :class:`prototag.engine.Engine`.

        The first exception of any block ends the call after the blocks already running.
        """
        parts = list(batch_slices(count_rows(rows), size))
        workers = min(count_threads(self.n_jobs), len(parts))
        shared = separate_shared(shared)

        def block(part: slice) -> T:
            return run_batch(function, slice_rows(rows, part), shared)

        with single_threaded_blas():
            yield from map_in_order(
                block,
                parts,
                workers=workers if workers > 1 else 0,
                window=BATCHES_PER_THREAD * workers,
            )


SINGLE_THREAD = Threads()  # blocks one after the other


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
    return _blas_libraries("scipy.linalg" in sys.modules)  # which has a BLAS of its own


@lru_cache(maxsize=2)
def _blas_libraries(_with_scipy: bool) -> ThreadpoolController:
    # Listing the loaded libraries costs a millisecond, more than coding one image: do it once.
    return ThreadpoolController().select(user_api="blas")


def single_threaded_blas() -> AbstractContextManager[object]:
    """BLAS at one thread, for what cannot be cut into blocks and should still be the same bits.

    Where it is so already there is nothing to set, or to set back.
    """
    if all(library.num_threads == 1 for library in _blas().lib_controllers):
        return nullcontext()
    limited: AbstractContextManager[object] = _blas().limit(limits=1)
    return limited


def set_blas_single_threaded() -> None:
    """BLAS at one thread from now on, for a program whose own threads annotate side by side.

    Setting it back after each call, as :func:`one_thread` does, would set it for all of them.
    """
    _blas().limit(limits=1)


def ensure_blas_single_threaded() -> None:
    """BLAS at one thread from now on, where it is not so already: a look costs microseconds."""
    if any(library.num_threads != 1 for library in _blas().lib_controllers):
        set_blas_single_threaded()


def map_in_order(
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
