"""Data-parallel execution of batch functions on threads or a cluster, with identical results.

A batch function is a top-level function that takes arrays and returns values. It writes nothing
into shared memory, so threads, processes or a cluster can run it. Sums over batches are computed in
a fixed tree. The bits of a result depend on the batch size, but not on the engine or its number of
workers.
"""

from prototag.engine.threads import (
    SINGLE_THREAD,
    Engine,
    LazyRows,
    Threads,
    batch_slices,
    count_threads,
    map_rows,
    single_threaded_blas,
    tree_sum,
)

__all__ = [
    "SINGLE_THREAD",
    "Engine",
    "LazyRows",
    "Threads",
    "batch_slices",
    "count_threads",
    "map_rows",
    "single_threaded_blas",
    "tree_sum",
]
