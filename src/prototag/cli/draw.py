"""Draws how far long work is: one line on a terminal, and elsewhere only what is said in words."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from prototag.events import Event, Progress

WIDTH = 24  # of the bar, in characters
_PAUSE = 0.1  # seconds between two drawings


class Line:
    """The line of a terminal that shows the current stage; redrawn at most ten times a second.

    An event that counts nothing and has a message is news: a line of its own, printed everywhere.

    Parameters
    ----------
    stream : text stream
        Standard error if not given.
    show : bool, optional
        Whether to draw; if not given, only when the stream is a terminal.
    """

    def __init__(self, stream: TextIO | None = None, show: bool | None = None) -> None:
        self._stream = stream or sys.stderr
        self._show = self._stream.isatty() if show is None else show
        self._stage = ""
        self._began = self._drawn = 0.0
        self._open = False  # whether the cursor stands behind a drawn line

    def __call__(self, event: Event) -> None:
        """Draw an event."""
        now = time.monotonic()
        if event.total is None and event.done == 0:
            if event.message:
                self.close()
                self._stream.write(f"{event.message}\n")
                self._stream.flush()
            return
        if event.stage != self._stage:
            self.close()
            self._stage, self._began, self._drawn = event.stage, now, 0.0
        if self._show and (now - self._drawn >= _PAUSE or event.done == event.total):
            self._drawn, self._open = now, True
            self._stream.write(f"\r\x1b[K{line(event)}")
            self._stream.flush()

    def close(self) -> None:
        """End the line that is being drawn."""
        if self._open:
            self._stream.write("\n")
            self._stream.flush()
            self._open = False
            self._stage = ""


def line(event: Event) -> str:
    """An event as a line of text."""
    head = f"{event.done:,} done"
    if event.total is not None:
        filled = WIDTH * event.done // max(event.total, 1)
        head = f"[{'#' * filled}{'.' * (WIDTH - filled)}] {event.done:,} of {event.total:,}"
    left = f"{clock(event.seconds_left)} left" if event.seconds_left is not None else ""
    parts = [part for part in (head, left, event.message) if part]
    return f"{event.stage} {', '.join(parts)}"


def clock(seconds: float) -> str:
    """Seconds as ``m:ss`` or ``h:mm:ss``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


@contextmanager
def progress(stream: TextIO | None = None, *, show: bool | None = None) -> Iterator[Progress]:
    """A callback that draws, for the time of a command."""
    drawn = Line(stream, show)
    try:
        yield drawn
    finally:
        drawn.close()
