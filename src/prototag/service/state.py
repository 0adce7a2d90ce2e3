"""What all routes share: the model, the library, the folders that may be read, the threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.concurrency import run_in_threadpool

from prototag.service import heap
from prototag.service.allowed_paths import Roots
from prototag.service.background_trainer import Learning
from prototag.service.inference_queue import QUEUE, Pool
from prototag.service.jobs import Jobs
from prototag.service.problem_details import Problem
from prototag.service.request_body import Intake, Limits

if TYPE_CHECKING:
    from prototag.annotator.annotator import Annotator
    from prototag.library.library import Library


FRESH = 1.0  # seconds after which a library is asked again whether it has learned


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
        library: Library | None = None,
        annotator: Annotator | None = None,
        *,
        roots: Iterable[str | Path] = (),
        limits: Limits | None = None,
        threads: int | None = None,
        queue: int = QUEUE,
        fetch: Iterable[str] = (),
    ) -> None:
        self._library = library
        self._annotator = annotator
        self.roots = Roots(roots)
        self.intake = Intake(limits)
        self.jobs = Jobs(self._tidy)
        self.fetch = frozenset(host.lower() for host in fetch)
        self.pool = Pool(
            lambda: self.annotator, threads=threads, queue=queue, opened=self.roots.opened
        )
        self.plans: dict[str, Any] = {}  # the last plan of a synchronisation, by its name
        self.learning = None if library is None else Learning(library, self.jobs)
        self.stopping = False
        self._lock = threading.Lock()
        self._latest: Annotator | None = None  # of the library
        self._made_of: tuple[int | None, int] | None = None
        self._looked = -FRESH

    @property
    def has_library(self) -> bool:
        return self._library is not None

    @property
    def library(self) -> Library:
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
        """Whether there is a model that annotates; of a library a look at its file."""
        return self._annotator is not None or self._version()[0] is not None

    @property
    def annotator(self) -> Annotator:
        """The annotator of the moment; of a library it may take a while to be made."""
        if self._annotator is not None:
            return self._annotator
        with self._lock:
            if time.monotonic() - self._looked > FRESH:
                self._look()
            if self._latest is None:
                raise self.nothing_learned()
            return self._latest

    async def ready(self) -> Annotator:
        """The same, for routes, which must not wait."""
        if self._annotator is not None:
            return self._annotator
        if self._latest is not None and time.monotonic() - self._looked <= FRESH:
            return self._latest
        return await run_in_threadpool(lambda: self.annotator)

    def nothing_learned(self) -> Problem:
        return Problem(
            409,
            "nothing-learned",
            "the library has not learned anything yet: give tags to some pictures, then POST "
            "/api/v1/learn.",
        )

    def version(self, used: bool = False) -> tuple[int | None, int]:
        """The number of the library's model and of the changes of its tags; now, or as used."""
        return self._made_of if used and self._made_of is not None else self._version()

    def look_again(self) -> None:
        """Something was decided that the next answer should know."""
        self._looked = -FRESH

    def _version(self) -> tuple[int | None, int]:
        return self.library.version()

    def _look(self) -> None:
        """Make the annotator anew if the library has learned since."""
        version = self._version()
        if version[0] is None:
            self._latest = None
        elif version != self._made_of:
            made = self.library.annotator()
            # The library may learn one more tag at any time; this one knows what its model knows.
            made.tags = made.tags[: made.model.n_tags]
            self._latest = made
            self._made_of = version
            heap.release()  # loading a model and its network frees half of what it takes
        self._looked = time.monotonic()

    def _tidy(self) -> None:
        """Return the memory that only a scan or a training needs."""
        if self._library is not None:
            self._library.extractor.release()
        heap.release()

    def decided(self) -> None:
        """Learn on from what was decided just now, beside the answers."""
        if self.learning is not None:
            self.learning.tell()

    def begin_to_stop(self) -> None:
        """Let listeners go and ask long work to end; what was asked is still answered."""
        self.stopping = True
        self.jobs.begin_to_stop()

    def close(self) -> None:
        """End once everything that was taken is done."""
        self.begin_to_stop()
        if self.learning is not None:
            self.learning.close()
        self.pool.close()
        self.jobs.close()
