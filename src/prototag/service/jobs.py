"""Background jobs: long operations, at most one of a kind at a time, with progress and results.

A job runs in a thread of its own and continues when its client disconnects. It is asked to stop
when the service stops or when a client asks for it. Work that commits in batches, such as a scan,
ends after its current batch and keeps the finished ones.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import logging
import math
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from prototag.errors import PrototagError
from prototag.events import Event, Progress
from prototag.service import heap
from prototag.service.problem_details import Problem, from_error, not_found

Stop = Callable[[], bool]
Work = Callable[[Progress, Stop], Any]
MAX_FINISHED_JOBS = 50  # whose records are kept
RUNNING = "running"
DONE = "done"
FAILED = "failed"
STOPPED = "stopped"
STATES = (RUNNING, DONE, FAILED, STOPPED)
POLL_INTERVAL_S = 0.1  # between two events to one listener
KEEP_ALIVE_S = 15.0  # after which an idle connection gets a comment, before proxies close it


class _Stopped(Exception):
    """Raised from the progress callback of work that was asked to stop."""


class Job:
    """One background operation.

    Attributes
    ----------
    number : int
    kind : str
        What the job does, such as "scan".
    state : str
        One of ``STATES``.
    began, ended : float
        Seconds since 1970; ``ended`` is 0 while the job runs.
    event : Event or None
        The last progress event.
    changes : int
        Rises with every change that a listener can see.
    result : object
        What the work returned.
    problem : dict or None
        Problem details of a failed job.
    """

    def __init__(self, number: int, kind: str) -> None:
        self.number = number
        self.kind = kind
        self.state = RUNNING
        self.began = time.time()
        self.ended = 0.0
        self.event: Event | None = None
        self.changes = 0
        self.result: Any = None
        self.problem: dict[str, Any] | None = None
        self._stop = threading.Event()

    def report(self, event: Event) -> None:
        """Record a progress event."""
        self.event = event
        self.changes += 1

    def report_or_stop(self, event: Event) -> None:
        """Record a progress event; end work that has no ``stop`` parameter by an exception."""
        self.report(event)
        if self._stop.is_set():
            raise _Stopped

    def stop(self) -> None:
        """Ask the job to end."""
        self._stop.set()

    def is_stop_requested(self) -> bool:
        """Return whether the job was asked to end."""
        return self._stop.is_set()

    def end(self, state: str, result: Any = None, problem: dict[str, Any] | None = None) -> None:
        """Set the final state."""
        self.result = result
        self.problem = problem
        self.ended = time.time()
        self.state = state
        self.changes += 1

    def record(self) -> dict[str, Any]:
        """Return the JSON object of the job."""
        return {
            "job": self.number,
            "kind": self.kind,
            "state": self.state,
            "began": self.began,
            "ended": self.ended or None,
            "progress": self.event._asdict() if self.event else None,
            "result": to_json(self.result),
            "problem": self.problem,
        }


class Jobs:
    """Background jobs of one service.

    Parameters
    ----------
    release_memory : callable
        Called after each job.
    """

    def __init__(self, release_memory: Callable[[], object] = heap.release) -> None:
        self._release_memory = release_memory
        self._jobs: dict[int, Job] = {}
        self._threads: dict[int, threading.Thread] = {}
        self._lock = threading.Lock()
        self._count = 0
        self.closing = False

    def start(self, kind: str, work: Work, *, cooperative: bool = True) -> Job:
        """Start a job; raise a :class:`Problem` if one of the same kind is running.

        Parameters
        ----------
        kind : str
        work : callable
            Takes ``progress`` and ``stop``, returns the result.
        cooperative : bool
            Whether the work checks ``stop`` itself. If not, an exception ends it at its next
            progress event.
        """
        with self._lock:
            if self.closing:
                raise Problem(503, "stopping", "the service is stopping.")
            for job in self._jobs.values():
                if job.kind == kind and job.state == RUNNING:
                    raise Problem(
                        409,
                        "already-running",
                        f"a {kind} is running: wait for job {job.number}, or stop it.",
                        job=job.number,
                    )
            self._count += 1
            job = Job(self._count, kind)
            self._jobs[job.number] = job
            finished = [number for number, one in self._jobs.items() if one.state != RUNNING]
            for number in finished[:-MAX_FINISHED_JOBS]:
                del self._jobs[number]
            thread = threading.Thread(
                target=self._run, args=(job, work, cooperative), name=f"prototag-{kind}"
            )
            self._threads[job.number] = thread
        thread.start()
        return job

    def _run(self, job: Job, work: Work, cooperative: bool) -> None:
        progress = job.report if cooperative else job.report_or_stop
        try:
            result = work(progress, job.is_stop_requested)
            job.end(STOPPED if job.is_stop_requested() else DONE, result)
        except _Stopped:
            job.end(STOPPED)
        except Exception as error:
            problem = from_error(error)
            if problem.status >= 500:
                # The message of a PrototagError says what to do; a traceback is for bugs.
                log = logging.getLogger("prototag.service")
                if isinstance(error, PrototagError):
                    log.error("the %s failed: %s", job.kind, error)
                else:
                    log.error("a %s failed", job.kind, exc_info=error)
            job.end(FAILED, problem=problem.to_json())
        finally:
            self._threads.pop(job.number, None)
            self._release_memory()

    def get(self, number: int) -> Job:
        """Return a job by its number."""
        try:
            return self._jobs[number]
        except KeyError:
            raise not_found(
                f"there is no job {number}: /api/v1/jobs lists the last {MAX_FINISHED_JOBS}."
            ) from None

    def list(self) -> list[Job]:
        """Return all jobs, the latest first."""
        return sorted(self._jobs.values(), key=lambda job: -job.number)

    def request_stop(self) -> None:
        """Refuse new jobs, ask all jobs to end and disconnect all listeners."""
        self.closing = True
        for job in list(self._jobs.values()):
            job.stop()

    def close(self, seconds: float | None = None) -> None:
        """Stop all jobs and wait for them."""
        self.request_stop()
        for thread in list(self._threads.values()):
            thread.join(seconds)

    async def listen(self, job: Job) -> AsyncIterator[bytes]:
        """Yield server-sent events: ``progress`` for each change, then ``end``."""
        sent_changes = -1
        last_sent = time.monotonic()
        while True:
            changes = job.changes
            state = job.state
            if changes != sent_changes:
                sent_changes = changes
                last_sent = time.monotonic()
                name = "progress" if state == RUNNING else "end"
                yield _server_sent_event(name, changes, job.record())
            if state != RUNNING or self.closing:
                return
            if time.monotonic() - last_sent > KEEP_ALIVE_S:
                last_sent = time.monotonic()
                yield b": still here\n\n"
            await asyncio.sleep(POLL_INTERVAL_S)


def _server_sent_event(name: str, number: int, record: dict[str, Any]) -> bytes:
    return f"event: {name}\nid: {number}\ndata: {json.dumps(record)}\n\n".encode()


def to_json(value: Any) -> Any:
    """Convert a result to JSON types: records to objects by their fields, paths to text."""
    if hasattr(value, "item"):  # a NumPy scalar
        value = value.item()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    elif isinstance(value, tuple) and hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return {str(name): to_json(part) for name, part in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [to_json(part) for part in value]
    return _scalar_to_json(value)


def _scalar_to_json(value: Any) -> str | int | float | bool | None:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, str | int | bool):
        return value
    if isinstance(value, Path):
        return path_text(value)
    return str(value)


def path_text(path: Path) -> str:
    """Return a path as text; escape bytes that are not UTF-8, because JSON cannot hold them."""
    return str(path).encode("utf-8", "backslashreplace").decode()
