"""What all routes share: the model, the library, the folders that may be read, the threads."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prototag.service.bodies import Intake, Limits
from prototag.service.jobs import Jobs
from prototag.service.paths import Roots
from prototag.service.pool import QUEUE, Pool
from prototag.service.problems import Problem

if TYPE_CHECKING:
    from prototag.annotator.annotator import Annotator


class Service:
    """One model or one library, asked by many.

    Parameters
    ----------
    library : Library, optional
        Whose latest model annotates.
    annotator : Annotator, optional
        That annotates where there is no library.
    roots : iterable of paths
        Folders whose files may be named by whoever asks.
    fetch : iterable of str
        Hosts, besides this computer, that Label Studio's pictures may be fetched from.
    """

    def __init__(
        self,
        library: Any = None,
        annotator: Annotator | None = None,
        *,
        roots: Iterable[str | Path] = (),
        limits: Limits | None = None,
        threads: int | None = None,
        queue: int = QUEUE,
        fetch: Iterable[str] = (),
    ) -> None:
        self._library, self._annotator = library, annotator
        self.roots = Roots(roots)
        self.intake = Intake(limits)
        self.jobs = Jobs()
        self.fetch = frozenset(host.lower() for host in fetch)
        self.pool = Pool(lambda: self.annotator, threads=threads, queue=queue)
        self.plans: dict[str, Any] = {}  # the last plan of a synchronisation, by its name
        self.stopping = False

    @property
    def has_library(self) -> bool:
        return self._library is not None

    @property
    def library(self) -> Any:
        if self._library is None:
            raise Problem(
                409,
                "no-library",
                "this service has a model and no library, which this request needs: start it with "
                "`prototag open FOLDER`, or `prototag serve LIBRARY`.",
            )
        return self._library

    @property
    def learned(self) -> bool:
        """Whether there is a model that annotates."""
        try:
            _ = self.annotator
        except Problem:
            return False
        return True

    @property
    def annotator(self) -> Annotator:
        """The annotator of the moment."""
        if self._annotator is not None:
            return self._annotator
        found = self._library.annotator() if hasattr(self._library, "annotator") else None
        if found is None:
            raise Problem(
                409,
                "nothing-learned",
                "the library has not learned anything yet: accept some tags, then POST "
                "/api/v1/learn.",
            )
        annotator: Annotator = found
        return annotator

    def begin_to_stop(self) -> None:
        """Let listeners go and ask long work to end; what was asked is still answered."""
        self.stopping = True
        self.jobs.begin_to_stop()

    def close(self) -> None:
        """End once everything that was taken is done."""
        self.begin_to_stop()
        self.pool.close()
        self.jobs.close()
