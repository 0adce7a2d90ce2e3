"""Estimates of the memory of a fit, in bytes."""

from __future__ import annotations

from typing import NamedTuple

from prototag.engine.memory_forecast import MemoryEstimate
from prototag.mcdl.memory_estimates import (
    CODING_BYTES,
    ENTRY_BYTES,
    FLOAT_BYTES,
    estimate_exemplars,
)

DOUBLE_BYTES = 8


class FitSize(NamedTuple):
    """The sizes that decide the memory of a fit."""

    images: int
    columns: int
    tags: int
    prototypes: int
    landmarks: int


def estimate_in_memory_fit(size: FitSize, *, nonzeros: int, width: int) -> MemoryEstimate:
    """Estimate the memory of ``Tagger.fit``.

    Parameters
    ----------
    nonzeros : int
        Non-zeros of each code.
    width : int
        Columns of the reduced vectors.
    """
    n, m, t, k, landmarks = size
    core = estimate_exemplars(n, width, t, k, nonzeros)
    if landmarks == n:
        square = FLOAT_BYTES * n * n
    else:
        square = FLOAT_BYTES * n * landmarks * 3 + DOUBLE_BYTES * 3 * landmarks**2
    stages = {
        "reduction": FLOAT_BYTES * n * m + 3 * DOUBLE_BYTES * m * m,
        "codes": core.peak,
        "kernel": square + FLOAT_BYTES * (4 * n * t + n * width),
        "mixture": FLOAT_BYTES * 6 * n * t,
    }
    held = FLOAT_BYTES * (n * m + n * width + 5 * n * t) + CODING_BYTES
    return MemoryEstimate(f"{n:,} images with {t:,} tags", held, stages)


def estimate_out_of_core_fit(size: FitSize) -> MemoryEstimate:
    """Estimate the memory of an out-of-core fit, without the vectors themselves."""
    n, m, t, k, landmarks = size
    codes = 3 * ENTRY_BYTES * 25 * n
    sample = min(n, 40_000, 32_000_000 // m)
    scored = min(sample * t, 20_000_000)
    counted = min(16 * n, max(8_000_000, 4 * n))
    stages = {
        "sums": DOUBLE_BYTES * 6 * m * (m + t),
        "codes": codes + FLOAT_BYTES * 4 * k * t,
        "kernel": DOUBLE_BYTES * 3 * landmarks**2,
        "scores": FLOAT_BYTES * (4 * k * t + 6 * scored),
        "thresholds": FLOAT_BYTES * 6 * counted + FLOAT_BYTES * 3 * 6 * 4096 * t,
    }
    held = FLOAT_BYTES * (sample * m + 2 * k * t) + 24 * n + CODING_BYTES
    return MemoryEstimate(f"{n:,} images with {t:,} tags", held, stages)
