"""Whether a fit has room, asked before hours are spent on it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from prototag.errors import NotEnoughMemoryError

FLOAT, DOUBLE = 4, 8
BLOCK = 512  # images coded together, whose products with 4,096 prototypes are held at once
_WORK = 16 * BLOCK * 4096


class Forecast(NamedTuple):
    """Bytes that a fit takes, roughly and on the safe side."""

    what: str  # the fit, in words
    held: int  # from beginning to end
    stages: Mapping[str, int]  # what each stage takes beside that

    @property
    def peak(self) -> int:
        return self.held + max(self.stages.values())

    @property
    def largest(self) -> str:
        """The stage that takes most."""
        return max(self.stages, key=lambda stage: self.stages[stage])


def mcdl(n: int, m: int, t: int, k: int, nonzeros: int) -> Forecast:
    """Of Algorithm 1."""
    dictionary = 3 * FLOAT * k * (m + t)  # D and S, stacked and copied once
    pairs = 12 * min(n * nonzeros**2, k * k)  # A^T P A
    stages = {
        "k-means": FLOAT * (2 * n * (m + t) + 5 * k * (m + t)),
        "coding": 3 * 12 * n * nonzeros + min(2 * FLOAT * k * k, 1 << 28),
        "visual step": 2 * pairs + 6 * FLOAT * k * m,
        "thresholds": 4 * FLOAT * n * t,
    }
    held = FLOAT * n * m + dictionary + 12 * n * (nonzeros + 8) + _WORK
    return Forecast(f"{n:,} images with {t:,} tags and {k:,} prototypes", held, stages)


def exemplars(n: int, m: int, t: int, k: int, nonzeros: int) -> Forecast:
    """Of learning out of fold."""
    stages = {
        "k-means": FLOAT * (2 * n * (m + t) + 5 * k * (m + t)) if k < n else 0,
        "semantic step": FLOAT * (6 * n * t + 4 * k * t) + 4 * 12 * n * nonzeros,
        "thresholds": 5 * FLOAT * n * t,
    }
    held = FLOAT * (2 * n * m + k * m + 3 * k * t) + 12 * n * nonzeros + _WORK
    return Forecast(f"{n:,} images with {t:,} tags and {k:,} prototypes", held, stages)


def tagger(
    n: int, m: int, t: int, k: int, landmarks: int, nonzeros: int, width: int, short: int
) -> Forecast:
    """Of everything that ``recommended()`` does."""
    core = exemplars(n, width, t, k, nonzeros)
    exact = landmarks == n
    square = FLOAT * n * n if exact else FLOAT * n * landmarks * 3 + DOUBLE * 3 * landmarks**2
    stages = {
        "reduction": FLOAT * n * m + 3 * DOUBLE * m * m,
        "linear part": FLOAT * 2 * n * m + 3 * DOUBLE * min(n, m) ** 2 + FLOAT * 4 * n * t,
        "codes": core.peak,
        "kernel": square + FLOAT * (4 * n * t + n * short),
        "mixture": FLOAT * 6 * n * t,
    }
    held = FLOAT * (n * m + n * (width + short) + 5 * n * t) + _WORK
    return Forecast(f"{n:,} images with {t:,} tags", held, stages)


def streamed(n: int, m: int, t: int, k: int, landmarks: int) -> Forecast:
    """Of learning block by block, beside the vectors themselves."""
    codes, sample = 3 * 12 * 25 * n, min(n, 40_000, 32_000_000 // m)
    judged = min(sample * t, 20_000_000)
    stages = {
        "sums": DOUBLE * 6 * m * (m + t),
        "codes": codes + FLOAT * 4 * k * t,
        "kernel": DOUBLE * 3 * landmarks**2,
        "scores": FLOAT * (4 * k * t + 6 * judged),
        "thresholds": FLOAT * 6 * min(16 * n, max(8_000_000, 4 * n)) + FLOAT * 3 * 6 * 4096 * t,
    }
    held = FLOAT * (sample * m + 2 * k * t) + 24 * n + _WORK
    return Forecast(f"{n:,} images with {t:,} tags", held, stages)


def available() -> int | None:
    """Bytes of memory that are free, or None where that cannot be asked."""
    found = [*_meminfo(), *_cgroup()]
    if found:
        return min(found)
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def _meminfo() -> list[int]:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except (OSError, UnicodeDecodeError):
        return []
    words = (line.split() for line in lines if line.startswith("MemAvailable:"))
    return [int(word[1]) << 10 for word in words]


def _cgroup() -> list[int]:
    """What a container may still take, where it is limited."""
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii").strip()
        used = int(Path("/sys/fs/cgroup/memory.current").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return []
    return [] if limit == "max" else [max(int(limit) - used, 0)]


def require(forecast: Forecast) -> None:
    """Refuse a fit that memory cannot hold, before it begins."""
    have = available()
    if have is not None and forecast.peak > have:
        raise NotEnoughMemoryError(
            f"{forecast.what} need about {_gigabytes(forecast.peak)}, most of it for the "
            f"{forecast.largest}, and {_gigabytes(have)} are free: learn from fewer images, or "
            "give fewer prototypes (n_prototypes)."
        )


def _gigabytes(size: int) -> str:
    return f"{size / 2**30:.1f} GB"
