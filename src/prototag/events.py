"""How far long work is: one event, given to one callback, which may draw it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple


class Event(NamedTuple):
    """One step of long work."""

    stage: str  # what is being done, such as "Computing vectors"
    done: int
    total: int | None = None  # None where it is not known
    seconds_left: float | None = None  # None where it cannot be foretold yet
    message: str = ""  # what else there is to say, in words


Progress = Callable[[Event], object]


class Meter:
    """Counts the steps of one stage and tells each of them.

    Parameters
    ----------
    stage : str
    total : int or None
        Steps in all, if that is known.
    progress : callable, optional
        Called with an :class:`Event` after each step; without one the meter only counts.
    """

    def __init__(self, stage: str, total: int | None, progress: Progress | None) -> None:
        self.stage, self.total, self.progress = stage, total, progress
        self.done = 0
        self._free = 0  # steps that took no time, such as pictures that the cache knew
        self._began = time.monotonic()

    def advance(self, steps: int = 1, *, free: int = 0, message: str = "") -> None:
        """``steps`` more are done, ``free`` of them without any work."""
        self.done += steps
        self._free += free
        if self.progress is not None:
            self.progress(Event(self.stage, self.done, self.total, self.seconds_left(), message))

    def say(self, message: str) -> None:
        """Tell something without a step."""
        self.advance(0, message=message)

    @property
    def seconds(self) -> float:
        """Since the stage began."""
        return time.monotonic() - self._began

    def seconds_left(self) -> float | None:
        """Foretold by the pace of the steps that took time."""
        worked = self.done - self._free
        if self.total is None or worked < 1:
            return None
        return self.seconds / worked * max(self.total - self.done, 0)


def tell(progress: Progress | None, stage: str, message: str = "") -> None:
    """A stage that is not counted begins, or has something to say."""
    if progress is not None:
        progress(Event(stage, 0, message=message))
