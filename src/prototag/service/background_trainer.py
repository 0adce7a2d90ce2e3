"""Background trainer: debounced incremental updates and full retraining when it is due."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Any

from prototag.errors import PrototagError
from prototag.service.problem_details import Problem

if TYPE_CHECKING:
    from prototag.library.library import Library
    from prototag.service.jobs import Jobs

DEBOUNCE_S = 0.4  # pause without a decision before an update
RETRY_AFTER_DECISIONS = 20  # between two attempts of a full retrain, as one may fail
KIND = "learn"


class BackgroundTrainer:
    """Thread that updates the model of a library while people decide.

    It has the only debounce of the service: an update starts ``DEBOUNCE_S`` after the last
    decision, or at once when a review batch is about to be selected (:meth:`flush`). One update
    covers all decisions before its start.

    Parameters
    ----------
    library : Library
    jobs : Jobs
        Runs full retraining as a job, which clients see and can stop.
    """

    def __init__(self, library: Library, jobs: Jobs) -> None:
        self._library = library
        self._jobs = jobs
        self._changed = threading.Condition()  # of all attributes below
        self._requested = 0  # updates that were requested
        self._covered = 0  # of these, covered by updates that have ended
        self._start_at = 0.0  # monotonic time at which the next update starts
        self._thread: threading.Thread | None = None
        self._closing = False
        self._last_attempt: int | None = None  # number of the last decision at the last retraining

    def notify(self) -> None:
        """Schedule an update after new decisions."""
        self._request(DEBOUNCE_S)

    def flush(self, timeout: float) -> bool:
        """Update without debouncing; return whether the update ended within ``timeout`` seconds."""
        request = self._request(0.0)
        with self._changed:
            return self._changed.wait_for(lambda: self._covered >= request, timeout)

    def _request(self, delay: float) -> int:
        with self._changed:
            if self._closing:
                return self._covered
            self._requested += 1
            self._start_at = time.monotonic() + delay
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="prototag-learning")
                self._thread.start()
            self._changed.notify_all()
            return self._requested

    def close(self) -> None:
        """Stop the thread; the next start applies the decisions that are left."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    def _wait_for_request(self) -> int | None:
        """Wait for a request and its debounce; return its number, or None when closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._closing or self._requested > self._covered)
            while not self._closing and (remaining := self._start_at - time.monotonic()) > 0:
                self._changed.wait(remaining)
            return None if self._closing else self._requested

    def _run(self) -> None:
        while (request := self._wait_for_request()) is not None:
            try:
                self._update(request)
                self._retrain_if_due()
            except Problem:
                pass  # a retraining is running
            except PrototagError as error:
                logging.getLogger("prototag.service").info("the model was not updated: %s", error)
            except Exception as error:
                logging.getLogger("prototag.service").error(
                    "the update of the model failed", exc_info=error
                )

    def _update(self, request: int) -> None:
        try:
            self._library.update_model()
        finally:
            with self._changed:
                self._covered = request
                self._changed.notify_all()

    def _retrain_if_due(self) -> None:
        last = self._library.last_decision()
        previous = self._last_attempt
        if previous is None:  # without a model, the first one takes some decisions or a request
            has_model = any(model.current for model in self._library.models())
            previous = -RETRY_AFTER_DECISIONS if has_model else 0
        if last - previous < RETRY_AFTER_DECISIONS or not self._library.is_retrain_due():
            return
        self._last_attempt = last

        def work(progress: Any, stop: Any) -> Any:  # noqa: ARG001
            return self._library.learn(full=True, progress=progress)

        self._jobs.start(KIND, work, cooperative=False)
