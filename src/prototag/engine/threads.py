"""Engine interface, reductions in a fixed order, and the thread engine.

Kernels and BLAS release the interpreter lock, so threads suffice. One thread computes a batch, with
single-threaded BLAS, for any ``n_jobs``.
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
BATCHES_PER_THREAD = 2  # batches per thread that run or whose results wait


class LazyRows(Protocol):
    """Out-of-core rows: slicing is lazy, and the worker loads the data."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def __getitem__(self, part: slice) -> LazyRows: ...

    def load(self) -> Any:
        """Read the rows into memory."""


class Engine(ABC):
    """Runs batch functions.

    ``stream(function, rows, shared, size=s)`` calls ``function(*(a[part] for a in rows), *shared)``
    for each part of at most ``size`` rows, and yields the results in order. All of ``rows``
    (arrays, CSR matrices, lists, :class:`LazyRows`) have the same number of rows, or are None,
    which is passed on; ``shared`` is the same for every batch. The function is a top-level
    function, does not modify its arguments, and runs with single-threaded BLAS. Few batches run or
    wait at a time, which bounds the memory of results.

    Every engine calls :func:`run_batch`. Arrays among ``rows`` arrive as copies in C order, aligned
    to 64 bytes; arrays among ``shared`` arrive contiguous and aligned; no two of them share memory.
    Arrays inside other objects are not copied, so these objects must hold contiguous arrays.
    """

    def __sklearn_clone__(self) -> Engine:
        """Return the engine itself: clones of an estimator share it."""
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
        """Yield the results in order; batches are not run after the iteration ends."""

    def map(
        self,
        function: Callable[..., T],
        rows: Sequence[Any],
        shared: Sequence[Any] = (),
        *,
        size: int,
    ) -> list[T]:
        """Return the results of all batches."""
        return list(self.stream(function, rows, shared, size=size))


def batch_slices(n: int, size: int) -> Iterator[slice]:
    """Split ``range(n)`` into slices of at most ``size``."""
    return (slice(start, min(start + size, n)) for start in range(0, n, size))


def count_rows(rows: Sequence[Any]) -> int:
    """Return the number of rows of the arrays of a call, which must agree."""
    given = [array for array in rows if array is not None]
    counts = {array.shape[0] if hasattr(array, "shape") else len(array) for array in given}
    if len(counts) != 1:
        raise ValueError(
            f"arrays of {sorted(counts)} rows: all arrays of a call must have the same number."
        )
    return int(counts.pop())


def slice_rows(rows: Sequence[Any], part: slice) -> list[Any]:
    """Return the rows of one batch."""
    return [None if array is None else array[part] for array in rows]


def run_batch(function: Callable[..., T], rows: Sequence[Any], shared: Sequence[Any]) -> T:
    """Run a batch function on arrays with the memory layout that all engines use.

    Lazy rows are loaded here. An engine that runs many batches calls
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
    """Concatenate the arrays that a function returns for the batches."""
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
    """Sum the results of the batches in a fixed binary tree, which makes the bits reproducible.

    Only a logarithmic number of partial sums is in memory.
    """
    sums: list[tuple[int, T]] = []  # of 2^level batches each, by decreasing level
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
    """Runs batches on ``n_jobs`` threads: None is one, -1 all cores, -2 all but one."""

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

        The first exception of a batch ends the call after the batches that already run.
        """
        parts = list(batch_slices(count_rows(rows), size))
        workers = min(count_threads(self.n_jobs), len(parts))
        shared = separate_shared(shared)

        def run_part(part: slice) -> T:
            return run_batch(function, slice_rows(rows, part), shared)

        with single_threaded_blas():
            yield from map_in_order(
                run_part,
                parts,
                workers=workers if workers > 1 else 0,
                window=BATCHES_PER_THREAD * workers,
            )


SINGLE_THREAD = Threads()


def count_threads(n_jobs: int | None) -> int:
    """Return the number of threads for ``n_jobs``, with joblib's meaning of negative numbers."""
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
    return _blas_libraries("scipy.linalg" in sys.modules)  # SciPy has its own BLAS


@lru_cache(maxsize=2)
def _blas_libraries(_with_scipy: bool) -> ThreadpoolController:
    # Listing the loaded libraries takes a millisecond, longer than encoding an image.
    return ThreadpoolController().select(user_api="blas")


def single_threaded_blas() -> AbstractContextManager[object]:
    """Limit BLAS to one thread for reproducible results of operations without batches.

    If BLAS is single-threaded already, nothing is set or restored.
    """
    if all(library.num_threads == 1 for library in _blas().lib_controllers):
        return nullcontext()
    limited: AbstractContextManager[object] = _blas().limit(limits=1)
    return limited


def set_blas_single_threaded() -> None:
    """Limit BLAS to one thread permanently, for programs whose threads annotate concurrently.

    The limit is global: :func:`single_threaded_blas` would reset it for all threads.
    """
    _blas().limit(limits=1)


def ensure_blas_single_threaded() -> None:
    """Limit BLAS to one thread permanently if it is not limited; the check takes microseconds."""
    if any(library.num_threads != 1 for library in _blas().lib_controllers):
        set_blas_single_threaded()


def map_in_order(
    function: Callable[[S], T], items: Iterable[S], *, workers: int, window: int
) -> Iterator[T]:
    """Yield results in the order of ``items``, with at most ``window`` submitted at a time."""
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
