"""Background trainer: debounced incremental updates and full retraining when it is due."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any

from prototag.errors import PrototagError
from prototag.service.problem_details import Problem

if TYPE_CHECKING:
    from prototag.service.jobs import Jobs

DEBOUNCE_S = 0.4  # pause without a decision before an update
RETRY_AFTER_DECISIONS = 20  # between two attempts of a full retrain, as one may fail
KIND = "learn"


class BackgroundTrainer:
    """Thread that updates the model of a library while people decide.

    Parameters
    ----------
    library : Library
    jobs : Jobs
        Runs full retraining as a job, which clients see and can stop.
    """

    def __init__(self, library: Any, jobs: Jobs) -> None:
        self._library = library
        self._jobs = jobs
        self._notified = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closing = False
        self._urgent = threading.Event()
        self._waiting: list[threading.Event] = []
        self._last_attempt: int | None = None  # number of the last decision then

    def notify(self) -> None:
        """Schedule an update after new decisions."""
        self._notified.set()
        with self._lock:
            if self._thread is None and not self._closing:
                self._thread = threading.Thread(target=self._run, name="prototag-learning")
                self._thread.start()

    def catch_up(self, seconds: float) -> None:
        """Update without debouncing and wait for it, at most so many seconds."""
        updated = threading.Event()
        self._waiting.append(updated)
        self._urgent.set()
        self.notify()
        updated.wait(seconds)

    def close(self) -> None:
        """Stop the thread; the next start learns the decisions that are left."""
        with self._lock:
            self._closing = True
        self._notified.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while True:
            self._notified.wait()
            while self._notified.is_set() and not self._closing:
                self._notified.clear()
                if not self._urgent.is_set():
                    self._notified.wait(DEBOUNCE_S)
            if self._closing:
                return
            self._urgent.clear()
            waiting, self._waiting = self._waiting, []
            try:
                self._library.update_model()
                for one in waiting:
                    one.set()
                self._retrain_if_due()
            except Problem:
                pass  # a retraining is running
            except PrototagError as error:
                logging.getLogger("prototag.service").info("the model was not updated: %s", error)
            except Exception as error:
                logging.getLogger("prototag.service").error(
                    "the update of the model failed", exc_info=error
                )

    def _retrain_if_due(self) -> None:
        last = self._library.last_decision()
        previous = self._last_attempt
        if previous is None:  # without a model, the first one takes some decisions or a request
            has_model = any(model.current for model in self._library.models())
            previous = -RETRY_AFTER_DECISIONS if has_model else 0
        if last - previous < RETRY_AFTER_DECISIONS or not self._library.due():
            return
        self._last_attempt = last

        def work(progress: Any, stop: Any) -> Any:  # noqa: ARG001
            return self._library.learn(full=True, progress=progress)

        self._jobs.start(KIND, work, cooperative=False)
