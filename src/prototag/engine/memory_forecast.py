"""Comparison of the estimated memory of a fit with the free memory, before the fit begins."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from prototag.errors import NotEnoughMemoryError


class MemoryEstimate(NamedTuple):
    """Conservative estimate of the memory of a fit, in bytes."""

    subject: str  # description of the input for messages
    resident: int  # during the whole fit
    stages: Mapping[str, int]  # additional bytes of each stage, by its name

    @property
    def peak(self) -> int:
        return self.resident + max(self.stages.values())

    @property
    def largest_stage(self) -> str:
        return max(self.stages, key=lambda stage: self.stages[stage])


def available_bytes() -> int | None:
    """Return the bytes of free memory; None if unknown."""
    limits = [*_meminfo(), *_cgroup()]
    if limits:
        return min(limits)
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
    """Return the free bytes below the memory limit of a container, if there is one."""
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii").strip()
        used = int(Path("/sys/fs/cgroup/memory.current").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return []
    return [] if limit == "max" else [max(int(limit) - used, 0)]


def require_memory(estimate: MemoryEstimate, remedy: str) -> None:
    """Raise an error with a ``remedy`` if the estimate exceeds the free memory."""
    free = available_bytes()
    if free is not None and estimate.peak > free:
        raise NotEnoughMemoryError(
            f"{estimate.subject} need about {_gigabytes(estimate.peak)}, most of it for the "
            f"{estimate.largest_stage}, and {_gigabytes(free)} are free: {remedy}."
        )


def _gigabytes(size: int) -> str:
    return f"{size / 2**30:.1f} GB"
