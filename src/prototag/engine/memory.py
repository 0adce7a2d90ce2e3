"""Whether a fit has room, asked before hours are spent on it."""

from __future__ import annotations

import os

from prototag.coding.coder import BLOCK, CHUNK


def needed(*, n: int, m: int, t: int, k: int, nonzeros: int) -> int:
    """Bytes that fitting takes at its peak, roughly and on the safe side."""
    dictionary = 3 * 4 * k * (m + t)  # D and S, stacked and copied once
    images = 4 * n * (2 * m + t)  # vectors, k-means, scores for the threshold
    codes = 3 * 12 * n * nonzeros
    pairs = 12 * min(n * nonzeros**2, k * k)  # A^T P A
    return dictionary + images + codes + pairs + 16 * BLOCK * (CHUNK + m + t)


def available() -> int | None:
    """Bytes of memory in the machine, or None where that cannot be asked."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def require(*, n: int, m: int, t: int, k: int, nonzeros: int) -> None:
    want, have = needed(n=n, m=m, t=t, k=k, nonzeros=nonzeros), available()
    if have is not None and want > have:
        raise MemoryError(
            f"{n} images with {t} tags and {k} prototypes need about {want / 2**30:.1f} GB and the "
            f"machine has {have / 2**30:.1f} GB: lower n_prototypes or fit fewer images."
        )
