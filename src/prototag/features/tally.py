"""How far the vectors of many pictures are, in numbers and in words."""

from __future__ import annotations

import time
from collections.abc import Sequence

from prototag.events import Meter, Progress
from prototag.features.decoding import Picture


class Tally:
    """Counts pictures by where their vectors came from, and tells it.

    Parameters
    ----------
    progress : callable, optional
        Called with an :class:`prototag.events.Event` after each count.
    total : int
        Pictures in all.
    """

    def __init__(self, progress: Progress | None, total: int) -> None:
        self.computed = self.cached = self.unreadable = 0
        self._meter = Meter("Computing vectors", total, progress)
        self._since = time.monotonic()
        self._working = 0.0  # seconds in which pictures were computed

    def count(self, pictures: Sequence[Picture], *, free: bool = True) -> None:
        """These are done; for those that the cache knew there was nothing to do, if ``free``."""
        known = sum(picture.known for picture in pictures)
        failed = sum(picture.reason is not None for picture in pictures)
        computed = len(pictures) - known - failed
        now = time.monotonic()
        self._working += now - self._since if computed else 0.0
        self._since = now
        self.computed += computed
        self.cached += known
        self.unreadable += failed
        self._meter.advance(len(pictures), free=known if free else 0, message=str(self))

    def __str__(self) -> str:
        # Pictures from the cache cost nearly nothing: the rate is of those that cost something.
        rate = self.computed / self._working if self._working > 0 else 0.0
        parts = (
            f"{rate:.1f} pictures/s" if rate else "",
            f"{self.cached:,} from the cache" if self.cached else "",
            f"{self.unreadable:,} cannot be read" if self.unreadable else "",
        )
        return ", ".join(part for part in parts if part)
