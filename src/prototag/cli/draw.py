"""How far a long run is: one line on a terminal, nothing elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TextIO


class Progress:
    """Count, pictures per second and time left, redrawn at most ten times a second.

    Parameters
    ----------
    total : int or None
        Pictures in all, if that is known.
    show : bool, optional
        Whether to draw; if not given, only when ``stream`` is a terminal.
    stream : text stream
        Standard error if not given.
    """

    def __init__(
        self, total: int | None, *, show: bool | None = None, stream: TextIO | None = None
    ) -> None:
        self.total = total
        self._stream = stream or sys.stderr
        self._show = self._stream.isatty() if show is None else show
        self._start = self._drawn = time.monotonic()
        self._done = self._skipped = self._cached = 0

    def advance(self, count: int = 1, *, skipped: int = 0, cached: int = 0) -> None:
        self._done += count
        self._skipped += skipped
        self._cached += cached
        now = time.monotonic()
        if self._show and (now - self._drawn >= 0.1 or self._done == self.total):
            self._drawn = now
            self._stream.write(f"\r\x1b[K{self.line(now - self._start)}")
            self._stream.flush()

    def line(self, seconds: float) -> str:
        """The line after so many seconds."""
        computed = self._done - self._cached
        # Pictures from the cache cost nothing, so the rate that foretells the rest leaves them out.
        rate = computed / seconds if seconds > 0 else 0.0
        left = None
        head = f"{self._done:,} done"
        if self.total is not None:
            left = (self.total - self._done) / rate if rate > 0 else None
            filled = 24 * self._done // max(self.total, 1)
            head = f"[{'#' * filled}{'.' * (24 - filled)}] {self._done:,} of {self.total:,}"
        parts = [
            head,
            f"{rate:.1f} images/s" if computed or not self._done else "",
            f"{_clock(left)} left" if left is not None else "",
            f"{self._cached:,} from the cache" if self._cached else "",
            f"{self._skipped:,} skipped" if self._skipped else "",
        ]
        return ", ".join(part for part in parts if part)

    def close(self) -> None:
        if self._show and self._done:
            self._stream.write("\n")
            self._stream.flush()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
