"""Progress of long operations: one event type and one callback."""

from __future__ import annotations

import copy
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal, NamedTuple

from prototag.errors import InputError


class Event(NamedTuple):
    """Progress of an operation."""

    stage: str  # such as "Computing vectors"
    done: int
    total: int | None = None  # None if unknown
    seconds_left: float | None = None  # None if there is no estimate yet
    message: str = ""  # details for display


Progress = Callable[[Event], object]
ProgressOption = Progress | Literal["rich", "tqdm"]


def resolve_progress(progress: ProgressOption | None) -> Progress | None:
    """Return the callback of a ``progress`` parameter: "rich", "tqdm", a callable or None."""
    if progress is None or callable(progress):
        return progress
    if progress == "rich":
        return RichBar()
    if progress == "tqdm":
        return TqdmBar()
    raise InputError(f"progress={progress!r}: give 'rich', 'tqdm', a callable, or None.")


class ProgressBar:
    """Progress bar of the current stage, drawn by another package; a callback of events.

    A subclass opens, moves, closes and writes beside a bar of its package.
    """

    def __init__(self) -> None:
        self._stage = ""
        self._finalizer: Callable[[], object] | None = None  # closes the bar of the stage

    def __call__(self, event: Event) -> None:
        if event.total is None and event.done == 0:
            if event.message:
                self._write(event.message)
            return
        if event.stage != self._stage:
            self.close()
            self._stage = event.stage
            self._finalizer = weakref.finalize(self, self._open(event.stage, event.total))
        self._move(event)
        if event.done == event.total:
            self.close()

    def close(self) -> None:
        """End the bar of the current stage."""
        if self._finalizer is not None:
            self._finalizer()  # once: also if the stage is abandoned, or when Python exits
        self._finalizer = None
        self._stage = ""

    def _open(self, stage: str, total: int | None) -> Callable[[], object]:
        """Draw a new bar, and return the function that closes it."""
        raise NotImplementedError

    def _move(self, event: Event) -> None:
        raise NotImplementedError

    def _write(self, message: str) -> None:
        raise NotImplementedError


class RichBar(ProgressBar):
    """Progress bar of rich, on standard error or in a notebook."""

    def _open(self, stage: str, total: int | None) -> Callable[[], object]:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[message]}", markup=False),
            console=Console(stderr=True),
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._task = self._bar.add_task(stage, total=total, message="")
        self._bar.start()
        return self._bar.stop

    def _move(self, event: Event) -> None:
        self._bar.update(self._task, completed=event.done, total=event.total, message=event.message)

    def _write(self, message: str) -> None:
        from rich.console import Console

        Console(stderr=True).print(message, markup=False, highlight=False)


class TqdmBar(ProgressBar):
    """Progress bar of tqdm, on standard error or in a notebook."""

    def __init__(self) -> None:
        super().__init__()
        try:
            from tqdm.auto import tqdm
        except ModuleNotFoundError:
            raise InputError(
                "progress='tqdm': tqdm is not installed. Run pip install tqdm, or give 'rich'."
            ) from None
        self._tqdm: Any = tqdm

    def _open(self, stage: str, total: int | None) -> Callable[[], object]:
        self._bar = self._tqdm(desc=stage, total=total)
        close: Callable[[], object] = self._bar.close
        return close

    def _move(self, event: Event) -> None:
        self._bar.set_postfix_str(event.message, refresh=False)
        self._bar.update(event.done - self._bar.n)

    def _write(self, message: str) -> None:
        import sys

        self._tqdm.write(message, file=sys.stderr)


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
