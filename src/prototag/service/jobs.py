"""Long work beside the answers: one job of a kind at a time, looked at or listened to by anyone.

A job runs in a thread of its own and goes on when whoever began it goes away. It is told to stop
when the service stops, or when somebody asks for it; work that keeps what it has done (a scan, one
batch after another) ends at its next step, and all of it is kept.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from prototag.errors import PrototagError
from prototag.events import Event, Progress
from prototag.service import heap
from prototag.service.problem_details import Problem, missing, of

Stop = Callable[[], bool]
Work = Callable[[Progress, Stop], Any]
KEPT = 50  # jobs that are remembered
RUNNING = "running"
DONE = "done"
FAILED = "failed"
STOPPED = "stopped"
STATES = (RUNNING, DONE, FAILED, STOPPED)
_PAUSE = 0.1  # seconds between two events of one listener
_BEAT = 15.0  # seconds of silence after which a listener is told that we are here


class _Stopped(Exception):
    """Raised inside of work that tells its progress after it was to stop."""


class Job:
    """One piece of long work."""

    def __init__(self, number: int, kind: str) -> None:
        self.number = number
        self.kind = kind
        self.state = RUNNING
        self.began = time.time()
        self.ended = 0.0
        self.event: Event | None = None
        self.changes = 0  # rises with everything that can be told
        self.result: Any = None
        self.problem: dict[str, Any] | None = None
        self._stop = threading.Event()

    def tell(self, event: Event) -> None:
        """How far it is; the place where work that knows nothing of ``stop`` ends early."""
        self.event = event
        self.changes += 1
        if self._stop.is_set():
            raise _Stopped

    def stop(self) -> None:
        """Ask it to end."""
        self._stop.set()

    def end(self, state: str, result: Any = None, problem: dict[str, Any] | None = None) -> None:
        self.result = result
        self.problem = problem
        self.ended = time.time()
        self.state = state
        self.changes += 1

    def record(self) -> dict[str, Any]:
        """As it is answered."""
        return {
            "job": self.number,
            "kind": self.kind,
            "state": self.state,
            "began": self.began,
            "ended": self.ended or None,
            "progress": self.event._asdict() if self.event else None,
            "result": plain(self.result),
            "problem": self.problem,
        }


class Jobs:
    """All long work of one service; ``tidy`` frees the memory that a job leaves behind."""

    def __init__(self, tidy: Callable[[], object] = heap.release) -> None:
        self._tidy = tidy
        self._jobs: dict[int, Job] = {}
        self._threads: dict[int, threading.Thread] = {}
        self._lock = threading.Lock()
        self._count = 0
        self.closing = False

    def start(self, kind: str, work: Work, *, cooperative: bool = True) -> Job:
        """Begin work; a :class:`Problem` where work of the kind is under way.

        Parameters
        ----------
        kind : str
        work : callable
            Takes ``progress`` and ``stop``, returns its result.
        cooperative : bool
            Whether it looks at ``stop`` itself; if not, it ends where it next tells its progress.
        """
        with self._lock:
            if self.closing:
                raise Problem(503, "stopping", "the service is stopping.")
            for job in self._jobs.values():
                if job.kind == kind and job.state == RUNNING:
                    raise Problem(
                        409,
                        "already-running",
                        f"a {kind} is under way: wait for job {job.number}, or stop it.",
                        job=job.number,
                    )
            self._count += 1
            job = Job(self._count, kind)
            self._jobs[job.number] = job
            for number in [n for n, j in self._jobs.items() if j.state != RUNNING][:-KEPT]:
                del self._jobs[number]
            thread = threading.Thread(
                target=self._run, args=(job, work, cooperative), name=f"prototag-{kind}"
            )
            self._threads[job.number] = thread
        thread.start()
        return job

    def _run(self, job: Job, work: Work, cooperative: bool) -> None:
        def noted(event: Event) -> None:
            job.event = event
            job.changes += 1

        try:
            result = work(noted if cooperative else job.tell, job._stop.is_set)
            job.end(STOPPED if job._stop.is_set() else DONE, result)
        except _Stopped:
            job.end(STOPPED)
        except Exception as error:
            problem = of(error)
            if problem.status >= 500:
                # What a person can fix is said in its words; a traceback is for bugs.
                log = logging.getLogger("prototag.service")
                if isinstance(error, PrototagError):
                    log.error("the %s failed: %s", job.kind, error)
                else:
                    log.error("a %s failed", job.kind, exc_info=error)
            job.end(FAILED, problem=problem.members())
        finally:
            self._threads.pop(job.number, None)
            self._tidy()

    def get(self, number: int) -> Job:
        try:
            return self._jobs[number]
        except KeyError:
            raise missing(
                f"there is no job {number}: /api/v1/jobs lists the last {KEPT}."
            ) from None

    def list(self) -> list[Job]:
        """The last first."""
        return sorted(self._jobs.values(), key=lambda job: -job.number)

    def begin_to_stop(self) -> None:
        """Begin no more, ask all to end, let all listeners go."""
        self.closing = True
        for job in list(self._jobs.values()):
            job.stop()

    def close(self, seconds: float | None = None) -> None:
        """The same, and wait for them."""
        self.begin_to_stop()
        for thread in list(self._threads.values()):
            thread.join(seconds)

    async def listen(self, job: Job) -> AsyncIterator[bytes]:
        """Server-sent events: ``progress`` whenever something changed, at last ``end``."""
        seen = -1
        told = time.monotonic()
        while True:
            changes = job.changes
            state = job.state
            if changes != seen:
                seen = changes
                told = time.monotonic()
                yield _sent("progress" if state == RUNNING else "end", changes, job.record())
            if state != RUNNING or self.closing:
                return
            if time.monotonic() - told > _BEAT:
                told = time.monotonic()
                yield b": still here\n\n"
            await asyncio.sleep(_PAUSE)


def _sent(kind: str, number: int, record: dict[str, Any]) -> bytes:
    return f"event: {kind}\nid: {number}\ndata: {json.dumps(record)}\n\n".encode()


def plain(value: Any) -> Any:
    """Results as JSON has them: named tuples and data classes by their fields, paths as text."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: plain(part) for name, part in value._asdict().items()}
    if isinstance(value, dict):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(part) for part in value]
    if isinstance(value, Path):
        return text(value)
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else None
    if value is None or isinstance(value, str | int | bool):
        return value
    if hasattr(value, "item"):  # NumPy's numbers
        return plain(value.item())
    return str(value)


def text(path: Path) -> str:
    """A path as text; bytes that are no UTF-8 as they are shown, for JSON cannot hold them."""
    return str(path).encode("utf-8", "backslashreplace").decode()
