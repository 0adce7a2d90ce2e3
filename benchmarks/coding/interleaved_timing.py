"""Interleaved timing of several calls, so that other load on the machine affects all alike."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

LONG_ENOUGH = 0.02  # seconds that a turn takes at least: shorter work is repeated


class TimedCall(NamedTuple):
    work: Callable[[], object]
    images: int  # that one call of it codes
    threads: int = 1


class Spread(NamedTuple):
    """Median with quartiles."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: np.ndarray) -> Spread:
        low, median, high = np.percentile(values, [25, 50, 75])
        return cls(float(median), float(low), float(high))


class Rounds:
    """Microseconds an image of each call in each round."""

    def __init__(self, calls: dict[str, TimedCall], rounds: int) -> None:
        self.times: dict[str, list[float]] = {name: [] for name in calls}
        repeats = {name: _repeats(call) for name, call in calls.items()}
        for _ in range(rounds):
            for name, call in calls.items():
                with threadpool_limits(call.threads):
                    self.times[name].append(_turn(call, repeats[name]))

    def spread(self, name: str) -> Spread:
        return Spread.of(np.array(self.times[name]))

    def ratio(self, slow: str, fast: str) -> Spread:
        """Return the ratio of times of the same round, which other load affects alike."""
        return Spread.of(np.array(self.times[slow]) / np.array(self.times[fast]))

    def fastest(self, *names: str) -> str:
        return min(names, key=lambda name: self.spread(name).median)

    def report(self) -> dict[str, dict[str, float]]:
        return {name: self.spread(name)._asdict() for name in self.times}


def _turn(call: TimedCall, repeats: int) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        call.work()
    return (time.perf_counter() - start) / (repeats * call.images) * 1e6


def _repeats(call: TimedCall) -> int:
    """How often a turn repeats the work; also the warming up."""
    with threadpool_limits(call.threads):
        call.work()
        seconds = _turn(call, 1) * call.images / 1e6
    return max(1, round(LONG_ENOUGH / max(seconds, 1e-6)))
