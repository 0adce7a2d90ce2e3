"""Runner of attempts in child processes with limits, which the parent watches and restarts.

An attempt returns its outcome ("refused", "sound") or raises. An exception, a child that dies or
hangs, and memory beyond a limit are findings.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import resource
import shutil
import signal
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

Attempt = Callable[[random.Random, Path], str]
Prepare = Callable[[Path], Attempt]
KEPT = 20  # findings of a kind that are told in full


class Limits(NamedTuple):
    seconds: float = 20.0  # of one attempt
    grown: int = 300 << 20  # bytes that a child may take beyond what it began with
    room: int = 2 << 30  # of address space beyond it; more is refused by the system


class Found(NamedTuple):
    """Counts and findings of all attempts."""

    attempts: int
    outcomes: dict[str, int]
    findings: list[dict[str, Any]]
    seconds: float
    peak_grown_mb: float = 0.0


def in_words(error: Exception) -> None:
    """Check that an error of ProtoTag has a message."""
    if not str(error).strip():
        raise AssertionError("an error without words") from error


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def _size() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def _work(
    prepare: Prepare,
    seed: int,
    span: tuple[int, int],
    limits: Limits,
    state: Any,
    pipe: Any,
    folder: Path,
) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # decoders write what they think of a file
    counts: Counter[str] = Counter()
    try:
        attempt = prepare(folder)
        attempt(random.Random(f"{seed} warm"), folder)  # what is loaded at first use is no finding
    except Exception:
        pipe.send(("broken", traceback.format_exc()))
        return
    began = peak()
    resource.setrlimit(resource.RLIMIT_AS, (_size() + limits.room,) * 2)
    last_report = time.monotonic()
    for number in range(*span):
        state[:] = number, time.monotonic(), time.process_time()
        before = peak()
        try:
            counts[attempt(random.Random(f"{seed} {number}"), folder)] += 1
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{Path(last.filename).name}:{last.lineno}"
            pipe.send(("finding", number, f"{type(error).__name__}: {error}"[:300], where))
            counts["finding"] += 1
        grown = peak() - began
        if grown > limits.grown and peak() > before:
            pipe.send(("finding", number, f"memory grew by {grown >> 20} MB", "memory"))
            counts["finding"] += 1
            pipe.send(("counts", dict(counts), number + 1, grown))
            break  # a fresh child goes on, so that the next growth is seen, too
        if time.monotonic() - last_report > 1:
            pipe.send(("counts", dict(counts), number + 1, grown))
            counts.clear()
            last_report = time.monotonic()
    else:
        pipe.send(("counts", dict(counts), span[1], peak() - began))
    pipe.send(("end",))


def _hangs(child: int | None, state: Any, limits: Limits, first: bool) -> bool:
    """Return whether a child hangs, by its CPU time (the machine may be busy) or by blocking."""
    waited = time.monotonic() - state[1] - (60 if first else 0)
    if waited <= limits.seconds:
        return False
    fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
    used = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") - state[2]
    return used > limits.seconds or waited > 10 * limits.seconds


def place() -> str | None:
    """Return a folder in memory if there is one: attempts write many small files."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def run(  # noqa: C901, PLR0912, PLR0915 - one loop that watches one process
    prepare: Prepare, count: int, seed: int, seconds: float, limits: Limits | None = None
) -> Found:
    """Make at most ``count`` attempts within a number of seconds."""
    limits = limits or Limits()
    context = multiprocessing.get_context("fork")
    began, done, most = time.monotonic(), 0, 0
    outcomes: Counter[str] = Counter()
    findings: list[dict[str, Any]] = []

    def note(number: int, what: str, where: str) -> None:
        same = [known for known in findings if known["where"] == where]
        if same:
            same[0]["times"] += 1
        elif len(findings) < KEPT:
            findings.append({"attempt": number, "what": what, "where": where, "times": 1})

    while done < count and time.monotonic() - began < seconds:
        state = context.Array("d", [float(done), time.monotonic(), 0.0], lock=False)
        mine, theirs = context.Pipe(False)
        folder = Path(tempfile.mkdtemp(prefix="prototag-attack-", dir=place()))
        child = context.Process(
            target=_work, args=(prepare, seed, (done, count), limits, state, theirs, folder)
        )
        child.start()
        theirs.close()
        ended = False
        while not ended:
            try:
                if mine.poll(1.0):
                    kind, *details = mine.recv()
                    if kind == "counts":
                        outcomes.update(details[0])
                        done, most = details[1], max(most, details[2])
                    elif kind == "finding":
                        note(*details)
                    elif kind == "broken":
                        raise RuntimeError(details[0])
                    else:
                        ended = True
            except EOFError:
                child.join()
                done = int(state[0])
                note(done, f"the process ended with {child.exitcode}", f"exit {child.exitcode}")
                outcomes["crash"] += 1
                done += 1
                ended = True
            if not ended and _hangs(child.pid, state, limits, first=state[2] == 0):
                note(int(state[0]), f"nothing for {limits.seconds:g} s", "hang")
                outcomes["hang"] += 1
                done = int(state[0]) + 1
                ended = True
            if time.monotonic() - began > seconds:
                ended = True
        if child.is_alive():
            child.kill()
        child.join()
        mine.close()
        shutil.rmtree(folder, ignore_errors=True)
    return Found(
        sum(outcomes.values()),
        dict(outcomes),
        findings,
        round(time.monotonic() - began, 1),
        round(most / 2**20, 1),
    )
