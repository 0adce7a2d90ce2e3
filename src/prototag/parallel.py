"""Blocks over threads: the one place that starts threads and limits those of BLAS.

Kernels and BLAS release the interpreter lock, so plain threads suffice. A block is always computed
by one thread with BLAS at one thread, whatever ``n_jobs`` is: the bits of a result depend on how
the rows are cut into blocks, never on how many threads ran them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import TypeVar

from threadpoolctl import ThreadpoolController

T = TypeVar("T")


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
    return _blas().limit(limits=1)


def blocks(n: int, size: int) -> Iterator[slice]:
    """Cut ``range(n)`` into slices of at most ``size``."""
    return (slice(start, min(start + size, n)) for start in range(0, n, size))


def map_blocks(
    function: Callable[[slice], T], n: int, *, size: int, n_jobs: int | None = None
) -> list[T]:
    """Apply ``function`` to each block of ``range(n)``; results in the order of the blocks.

    The first exception of any block ends the call after the blocks already running.
    """
    parts = list(blocks(n, size))
    n_threads = min(count_threads(n_jobs), len(parts))
    with one_thread():
        if n_threads <= 1:
            return [function(part) for part in parts]
        with ThreadPoolExecutor(n_threads, thread_name_prefix="prototag") as pool:
            futures = [pool.submit(function, part) for part in parts]
            try:
                return [future.result() for future in futures]
            except BaseException:
                pool.shutdown(wait=True, cancel_futures=True)
                raise
