"""Learning beside the answers: on from decisions in a moment, everything anew when it is due."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any

from prototag.errors import PrototagError
from prototag.service.problem_details import Problem

if TYPE_CHECKING:
    from prototag.service.jobs import Jobs

QUIET = 0.4  # seconds without a decision after which all of them are learned
AGAIN = 20  # decisions between two attempts to learn everything
KIND = "learn"


class Learning:
    """Learns on by itself while people decide.

    Parameters
    ----------
    library : Library
    jobs : Jobs
        That learning everything anew is one of: it is seen, and can be stopped.
    """

    def __init__(self, library: Any, jobs: Jobs) -> None:
        self._library = library
        self._jobs = jobs
        self._told = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closing = False
        self._urgent = threading.Event()
        self._waiting: list[threading.Event] = []
        self._tried: int | None = None  # the last decision when everything was to be learned

    def tell(self) -> None:
        """Something was decided."""
        self._told.set()
        with self._lock:
            if self._thread is None and not self._closing:
                self._thread = threading.Thread(target=self._run, name="prototag-learning")
                self._thread.start()

    def catch_up(self, seconds: float) -> None:
        """Learn what was decided at once, and wait for it, but no longer than so many seconds."""
        learned = threading.Event()
        self._waiting.append(learned)
        self._urgent.set()
        self.tell()
        learned.wait(seconds)

    def close(self) -> None:
        """Learn no more; nothing is lost, the next start goes on from the same decisions."""
        with self._lock:
            self._closing = True
        self._told.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while True:
            self._told.wait()
            while self._told.is_set() and not self._closing:
                self._told.clear()
                if not self._urgent.is_set():
                    self._told.wait(QUIET)
            if self._closing:
                return
            self._urgent.clear()
            waiting, self._waiting = self._waiting, []
            try:
                self._library.update_model()
                for one in waiting:
                    one.set()
                self._learn_anew()
            except Problem:
                pass  # such a job is under way
            except PrototagError as error:
                logging.getLogger("prototag.service").info("not learned: %s", error)
            except Exception as error:
                logging.getLogger("prototag.service").error("learning failed", exc_info=error)

    def _learn_anew(self) -> None:
        last = self._library.last_decision()
        before = self._tried
        if before is None:  # the first time somebody asks for it, or says enough
            before = -AGAIN if any(model.current for model in self._library.models()) else 0
        if last - before < AGAIN or not self._library.due():
            return
        self._tried = last

        def work(progress: Any, stop: Any) -> Any:  # noqa: ARG001
            return self._library.learn(full=True, progress=progress)

        self._jobs.start(KIND, work, cooperative=False)
