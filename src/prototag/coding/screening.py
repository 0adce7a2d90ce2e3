"""Screening: the prototypes that promise to take part in a code, gathered chunk by chunk."""

from __future__ import annotations

import numpy as np

from prototag import _kernels
from prototag.arrays import Floats, Rows
from prototag.coding.paths import Candidates

CORE, WIDTH, ROOM = 48, 192, 512  # candidates: followed at once, at hand, at most


class Selection:
    """The prototypes of the largest promise for each image, gathered chunk by chunk."""

    def __init__(self, n: int) -> None:
        self.key = np.empty((n, 2 * WIDTH), np.uint64)
        self.count, self.floor = np.zeros(n, np.int32), np.zeros(n, np.float32)

    def add(self, promise: Floats, offset: int) -> None:
        """Consider prototypes from number ``offset`` on, by their promise (n x chunk)."""
        _kernels.screen(promise, offset, WIDTH, self.key, self.count, self.floor)

    def settle(self) -> Candidates:
        """The best of all that were considered, the core first."""
        n = len(self.key)
        out = Candidates(np.empty((n, ROOM), np.int32), np.empty(n, np.int32))
        _kernels.settle(self.key, self.count, WIDTH, CORE, out.index, out.count)
        return out


def every(n: int, k: int, own: Rows | None) -> Candidates:
    """All prototypes as candidates of n images, each without its own."""
    index = np.empty((n, k), np.int32)
    index[:] = np.arange(k)
    count = np.full(n, k, np.int32)
    if own is not None:  # its own goes last, where it is not counted
        rows = np.flatnonzero(own >= 0)
        index[rows, own[rows]] = k - 1
        index[rows, -1] = own[rows]
        count[rows] -= 1
    return Candidates(index, count)
