"""Estimated memory of the fits of this package, in bytes."""

from __future__ import annotations

from prototag.engine.memory_forecast import MemoryEstimate

FLOAT_BYTES = 4
ENTRY_BYTES = 12  # a non-zero of a sparse matrix: value and indices
BATCH_ROWS = 512  # images encoded together; their products with 4,096 prototypes are in memory
CODING_BYTES = 16 * BATCH_ROWS * 4096
REMEDY = "learn from fewer images, or give fewer prototypes (n_prototypes)"


def estimate_mcdl(n: int, m: int, t: int, k: int, nonzeros: int) -> MemoryEstimate:
    """Estimate the memory of Algorithm 1."""
    dictionary = 3 * FLOAT_BYTES * k * (m + t)  # D and S, stacked and copied once
    pairs = ENTRY_BYTES * min(n * nonzeros**2, k * k)  # A^T P A
    gram = min(2 * FLOAT_BYTES * k * k, 1 << 28)
    stages = {
        "k-means": FLOAT_BYTES * (2 * n * (m + t) + 5 * k * (m + t)),
        "coding": 3 * ENTRY_BYTES * n * nonzeros + gram,
        "visual step": 2 * pairs + 6 * FLOAT_BYTES * k * m,
        "thresholds": 4 * FLOAT_BYTES * n * t,
    }
    codes = ENTRY_BYTES * n * (nonzeros + 8)
    held = FLOAT_BYTES * n * m + dictionary + codes + CODING_BYTES
    return MemoryEstimate(f"{n:,} images with {t:,} tags and {k:,} prototypes", held, stages)


def estimate_exemplars(n: int, m: int, t: int, k: int, nonzeros: int) -> MemoryEstimate:
    """Estimate the memory of out-of-fold training."""
    codes = ENTRY_BYTES * n * nonzeros
    stages = {
        "k-means": FLOAT_BYTES * (2 * n * (m + t) + 5 * k * (m + t)) if k < n else 0,
        "semantic step": FLOAT_BYTES * (6 * n * t + 4 * k * t) + 4 * codes,
        "thresholds": 5 * FLOAT_BYTES * n * t,
    }
    held = FLOAT_BYTES * (2 * n * m + k * m + 3 * k * t) + codes + CODING_BYTES
    return MemoryEstimate(f"{n:,} images with {t:,} tags and {k:,} prototypes", held, stages)
