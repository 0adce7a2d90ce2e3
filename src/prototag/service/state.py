"""Application state shared by all request handlers."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.concurrency import run_in_threadpool

from prototag.knowledge.words import keep_encoder, release_encoder
from prototag.service import heap
from prototag.service.allowed_paths import Roots
from prototag.service.background_trainer import BackgroundTrainer
from prototag.service.idle_release import IdleRelease
from prototag.service.inference_queue import MAX_WAITING, InferencePool
from prototag.service.jobs import Jobs
from prototag.service.problem_details import Problem
from prototag.service.request_body import BodyReader, Limits

if TYPE_CHECKING:
    from prototag.annotator.annotator import Annotator
    from prototag.library.library import Library
    from prototag.service.phone import PhoneAccess


VERSION_CHECK_INTERVAL_S = 1.0  # a check reads a few rows of the library


class Service:
    """Model or library, work queues, jobs and limits of one running service.

    Parameters
    ----------
    library : Library, optional
        Library whose current model annotates.
    annotator : Annotator, optional
        Model that annotates if there is no library.
    roots : iterable of paths
        Folders whose files requests may name by path.
    limits : Limits, optional
        Sizes and times of request bodies.
    threads : int, optional
        Number of pictures computed at a time; one per core if not given.
    queue : int
        Largest number of requests in a queue.
    fetch : iterable of str
        Hosts, besides this computer, from which Label Studio's pictures may be fetched.

    Attributes
    ----------
    plans : dict of str to SyncPlan
        The last sync plan, by its name.
    phones : PhoneAccess or None
        Sessions of phones, if they may connect.
    stopping : bool
        Whether the service refuses new work.
    """

    def __init__(
        self,
        library: Library | None = None,
        annotator: Annotator | None = None,
        *,
        roots: Iterable[str | Path] = (),
        limits: Limits | None = None,
        threads: int | None = None,
        queue: int = MAX_WAITING,
        fetch: Iterable[str] = (),
    ) -> None:
        self._library = library
        self._annotator = annotator
        self.roots = Roots(roots)
        self.body_reader = BodyReader(limits)
        self.jobs = Jobs(self._release_memory)
        self.fetch = frozenset(host.lower() for host in fetch)
        self.pool = InferencePool(
            lambda: self.annotator, threads=threads, max_waiting=queue, open_file=self.roots.open
        )
        self.plans: dict[str, Any] = {}
        self.trainer = None if library is None else BackgroundTrainer(library, self.jobs)
        self._words = IdleRelease(self._release_words)
        if library is not None:
            keep_encoder()
        self.phones: PhoneAccess | None = None
        self.stopping = False
        self._lock = threading.Lock()
        self._library_annotator: Annotator | None = None
        self._annotator_version: tuple[int | None, int] | None = None
        self._checked_at = -VERSION_CHECK_INTERVAL_S

    @property
    def has_library(self) -> bool:
        """Whether the service has a library."""
        return self._library is not None

    @property
    def library(self) -> Library:
        """The library; raises a :class:`Problem` if there is none."""
        if self._library is None:
            raise Problem(
                409,
                "no-library",
                "this service has a model and no library, which this request needs: start it with "
                "`prototag open FOLDER`, or `prototag serve LIBRARY`.",
            )
        return self._library

    @property
    def has_model(self) -> bool:
        """Whether there is a model; reads the version from the file of a library."""
        return self._annotator is not None or self.library.version()[0] is not None

    @property
    def annotator(self) -> Annotator:
        """The current annotator; loading that of a library may take seconds."""
        if self._annotator is not None:
            return self._annotator
        with self._lock:
            if time.monotonic() - self._checked_at > VERSION_CHECK_INTERVAL_S:
                self._reload_annotator()
            if self._library_annotator is None:
                raise self.no_model_problem()
            return self._library_annotator

    async def ready(self) -> Annotator:
        """Return the current annotator without blocking the event loop."""
        if self._annotator is not None:
            return self._annotator
        if (
            self._library_annotator is not None
            and time.monotonic() - self._checked_at <= VERSION_CHECK_INTERVAL_S
        ):
            return self._library_annotator
        return await run_in_threadpool(lambda: self.annotator)

    def no_model_problem(self) -> Problem:
        """Return the problem of a request that needs a model."""
        return Problem(
            409,
            "no-model",
            "the library has no model yet: tag some pictures, then POST /api/v1/learn.",
        )

    def version(self, used: bool = False) -> tuple[int | None, int]:
        """Return the number of the library's model and of its updates.

        With ``used`` it is the version of the loaded annotator, if one is loaded.
        """
        if used and self._annotator_version is not None:
            return self._annotator_version
        return self.library.version()

    def refresh_annotator(self) -> None:
        """Check for a newer model before the next request."""
        self._checked_at = -VERSION_CHECK_INTERVAL_S

    def _reload_annotator(self) -> None:
        """Load the library's annotator if its version has changed."""
        version = self.library.version()
        if version[0] is None:
            self._library_annotator = None
        elif version != self._annotator_version:
            annotator = self.library.annotator()
            # Another thread may add a tag to the library meanwhile.
            annotator.tags = annotator.tags[: annotator.model.n_tags]
            self._library_annotator = annotator
            self._annotator_version = version
            heap.release()  # loading a model and its network frees half of what it takes
        self._checked_at = time.monotonic()

    def _release_memory(self) -> None:
        """Free the memory that only a scan or a training needs."""
        if self._library is not None:
            self._library.extractor.release()
        heap.release()

    def words_used(self) -> None:
        """Keep the encoder of words and the concept index in memory for two more minutes."""
        self._words.mark_used()

    def _release_words(self) -> None:
        release_encoder()
        if self._library is not None:
            self._library.release_words()
        heap.release()

    def decisions_changed(self) -> None:
        """Schedule a background update of the model after new decisions."""
        self.words_used()
        if self.trainer is not None:
            self.trainer.notify()

    def request_stop(self) -> None:
        """Disconnect listeners and stop jobs; pending requests are still completed."""
        self.stopping = True
        self.jobs.request_stop()

    def close(self) -> None:
        """Complete all accepted work and join the threads."""
        self.request_stop()
        self._words.close()
        if self.trainer is not None:
            self.trainer.close()
        self.pool.close()
        self.jobs.close()
