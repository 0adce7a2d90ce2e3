"""Work as blocks of rows, and what runs them.

A block function stands at the top level of its module, takes arrays and returns values: nothing is
written into shared memory, so that threads, processes or a cluster can run it. Sums over blocks are
taken in a fixed tree. The bits of a result depend on how rows are cut into blocks, never on who
computed them.
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
