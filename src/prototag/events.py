"""Progress of long operations: one event type and one callback."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple


class Event(NamedTuple):
    """Progress of an operation."""

    stage: str  # such as "Computing vectors"
    done: int
    total: int | None = None  # None if unknown
    seconds_left: float | None = None  # None if there is no estimate yet
    message: str = ""  # details for display


Progress = Callable[[Event], object]


class Meter:
    """Counts the steps of a stage and reports each of them.

    Parameters
    ----------
    stage : str
    total : int or None
        Number of steps, if known.
    progress : callable, optional
        Called with an :class:`Event` after each step.
    """

    def __init__(self, stage: str, total: int | None, progress: Progress | None) -> None:
        self.stage = stage
        self.total = total
        self.progress = progress
        self.done = 0
        self._instant = 0  # steps that took no time, such as cached pictures
        self._began = time.monotonic()

    def advance(self, steps: int = 1, *, instant: int = 0, message: str = "") -> None:
        """Count completed steps, ``instant`` of which took no time."""
        self.done += steps
        self._instant += instant
        if self.progress is not None:
            self.progress(Event(self.stage, self.done, self.total, self.seconds_left(), message))

    def show(self, message: str) -> None:
        """Report a message without a step."""
        self.advance(0, message=message)

    @property
    def seconds(self) -> float:
        """Seconds since the stage began."""
        return time.monotonic() - self._began

    def seconds_left(self) -> float | None:
        """Estimate the remaining seconds from the steps that took time."""
        worked = self.done - self._instant
        if self.total is None or worked < 1:
            return None
        return self.seconds / worked * max(self.total - self.done, 0)


def notify(progress: Progress | None, stage: str, message: str = "") -> None:
    """Report the beginning, or a message, of a stage without steps."""
    if progress is not None:
        progress(Event(stage, 0, message=message))


class SharedByClones:
    """Mixin for scikit-learn estimators whose clones share some parameters with the original.

    ``sklearn.base.clone`` deep-copies every parameter. A ``progress`` callback is often a bound
    method of an object that holds a terminal, a lock or a socket: copying it fails, or the copy
    has no reader. Mix this class in before ``BaseEstimator``.
    """

    _shared_by_clones: ClassVar[tuple[str, ...]] = ("progress",)

    def __sklearn_clone__(self) -> Any:
        shared = {
            name: getattr(self, name) for name in self._shared_by_clones if hasattr(self, name)
        }
        original: Any = copy.copy(self)
        vars(original).update(dict.fromkeys(shared))
        clone: Any = super(SharedByClones, original).__sklearn_clone__()  # type: ignore[misc]
        vars(clone).update(shared)
        return clone


class Tally:
    """Counts pictures by the origin of their vectors, and reports it.

    Parameters
    ----------
    progress : callable, optional
        Called with an :class:`prototag.events.Event` after each count.
    total : int
        Number of pictures.
    """

    def __init__(self, progress: Progress | None, total: int) -> None:
        self.computed = 0
        self.cached = 0
        self.unreadable = 0
        self._meter = Meter("Computing vectors", total, progress)
        self._since = time.monotonic()
        self._working = 0.0  # seconds in which pictures were computed

    def count(self, pictures: Sequence[Any], *, cached_cost_nothing: bool = True) -> None:
        """Count finished pictures.

        A picture has the attributes ``is_cached`` (its vector was cached) and ``reason`` (why it
        has no vector, or None). ``cached_cost_nothing`` excludes cached ones from estimated times.
        """
        known = sum(picture.is_cached for picture in pictures)
        failed = sum(picture.reason is not None for picture in pictures)
        computed = len(pictures) - known - failed
        now = time.monotonic()
        self._working += now - self._since if computed else 0.0
        self._since = now
        self.computed += computed
        self.cached += known
        self.unreadable += failed
        self._meter.advance(
            len(pictures), instant=known if cached_cost_nothing else 0, message=str(self)
        )

    def __str__(self) -> str:
        # The rate excludes cached pictures, which take almost no time.
        rate = self.computed / self._working if self._working > 0 else 0.0
        parts = (
            f"{rate:.1f} pictures/s" if rate else "",
            f"{self.cached:,} from the cache" if self.cached else "",
            f"{self.unreadable:,} cannot be read" if self.unreadable else "",
        )
        return ", ".join(part for part in parts if part)
