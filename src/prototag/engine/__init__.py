"""Work as blocks of rows, and what runs them.

A block function stands at the top level of its module, takes arrays and returns values: nothing is
written into shared memory, so that threads, processes or a cluster can run it. Sums over blocks are
taken in a fixed tree. The bits of a result depend on how rows are cut into blocks, never on who
computed them.
"""

from prototag.engine.threads import (
    ONE,
    Engine,
    Lazy,
    Threads,
    blocks,
    count_threads,
    one_thread,
    run,
    total,
)

__all__ = [
    "ONE",
    "Engine",
    "Lazy",
    "Threads",
    "blocks",
    "count_threads",
    "one_thread",
    "run",
    "total",
]
