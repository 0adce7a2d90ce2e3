"""How far long work is: one event, given to one callback, which may draw it."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple


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
        self.stage = stage
        self.total = total
        self.progress = progress
        self.done = 0
        self._instant = 0  # steps that took no time, such as pictures that the cache knew
        self._began = time.monotonic()

    def advance(self, steps: int = 1, *, instant: int = 0, message: str = "") -> None:
        """``steps`` more are done, ``instant`` of them without any work."""
        self.done += steps
        self._instant += instant
        if self.progress is not None:
            self.progress(Event(self.stage, self.done, self.total, self.seconds_left(), message))

    def show(self, message: str) -> None:
        """Tell something without a step."""
        self.advance(0, message=message)

    @property
    def seconds(self) -> float:
        """Since the stage began."""
        return time.monotonic() - self._began

    def seconds_left(self) -> float | None:
        """Foretold by the pace of the steps that took time."""
        worked = self.done - self._instant
        if self.total is None or worked < 1:
            return None
        return self.seconds / worked * max(self.total - self.done, 0)


def notify(progress: Progress | None, stage: str, message: str = "") -> None:
    """A stage that is not counted begins, or has something to say."""
    if progress is not None:
        progress(Event(stage, 0, message=message))


class SharedByClones:
    """Mixin for scikit-learn estimators whose clones share some parameters with the original.

    ``sklearn.base.clone`` deep-copies every parameter. A ``progress`` callback is often a bound
    method of an object that holds a terminal, a lock or a socket: its copy fails, or is told what
    nobody reads. Mix this class in before ``BaseEstimator``.
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
    """Counts pictures by where their vectors came from, and tells it.

    Parameters
    ----------
    progress : callable, optional
        Told an :class:`prototag.events.Event` after each count.
    total : int
        Pictures in all.
    """

    def __init__(self, progress: Progress | None, total: int) -> None:
        self.computed = self.cached = self.unreadable = 0
        self._meter = Meter("Computing vectors", total, progress)
        self._since = time.monotonic()
        self._working = 0.0  # seconds in which pictures were computed

    def count(self, pictures: Sequence[Any], *, cached_cost_nothing: bool = True) -> None:
        """These are done; for those that the cache knew there was nothing to do, if ``free``.

        A picture says whether its vector is ``known`` from the cache, and the ``reason`` if it has
        none.
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
        # Pictures from the cache cost nearly nothing: the rate is of those that cost something.
        rate = self.computed / self._working if self._working > 0 else 0.0
        parts = (
            f"{rate:.1f} pictures/s" if rate else "",
            f"{self.cached:,} from the cache" if self.cached else "",
            f"{self.unreadable:,} cannot be read" if self.unreadable else "",
        )
        return ", ".join(part for part in parts if part)
