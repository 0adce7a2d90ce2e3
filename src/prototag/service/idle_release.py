"""Release of memory that only queries by words need, after a time without any."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

IDLE_S = 120.0  # after the last use


class IdleRelease:
    """Calls a function once nobody has called :meth:`touch` for a time.

    Parameters
    ----------
    release : callable
        Frees the memory; it is allocated again at the next use.
    idle_s : float
        Seconds after the last use.
    """

    def __init__(self, release: Callable[[], object], idle_s: float = IDLE_S) -> None:
        self._release = release
        self._idle_s = idle_s
        self._lock = threading.Lock()
        self._used_at = 0.0
        self._timer: threading.Timer | None = None
        self._is_closed = False

    def mark_used(self) -> None:
        """Note a use."""
        with self._lock:
            self._used_at = time.monotonic()
            if self._timer is None and not self._is_closed:
                self._start(self._idle_s)

    def _start(self, delay: float) -> None:
        self._timer = threading.Timer(delay, self._check)
        self._timer.daemon = True
        self._timer.start()

    def _check(self) -> None:
        with self._lock:
            left = self._used_at + self._idle_s - time.monotonic()
            if self._is_closed:
                return
            if left > 0:
                self._start(left)
                return
            self._timer = None
        self._release()

    def close(self) -> None:
        """Stop the timer."""
        with self._lock:
            self._is_closed = True
            if self._timer is not None:
                self._timer.cancel()
