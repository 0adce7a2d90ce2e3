"""The engine of one machine: threads.

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
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

from prototag.engine.blocks import Engine, blocks, cut, height, perform

S = TypeVar("S")
T = TypeVar("T")
AHEAD = 2  # blocks for each thread that are under way or wait to be looked at


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
        parts = list(blocks(height(rows), size))
        workers = min(count_threads(self.n_jobs), len(parts))

        def block(part: slice) -> T:
            return perform(function, cut(rows, part), shared)

        with one_thread():
            yield from ahead(
                block, parts, workers=workers if workers > 1 else 0, window=AHEAD * workers
            )


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


def hold_one_thread() -> None:
    """BLAS at one thread from now on, where it is not so already: a look costs microseconds."""
    if any(library.num_threads != 1 for library in _blas().lib_controllers):
        keep_one_thread()


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
