"""Two processes that decide in one library, beside clients that name every file of its folder.

SQLite's locks are dropped as soon as the process that holds them closes any descriptor of the
database or its ``-shm``. So clients name the database, ``-wal`` and ``-shm``, and hard and symbolic
links to them, wherever a path is taken (also as the picture of a task of Label Studio; and scans
read the folder with all those links), while decisions are made through both processes. In turn
these are two services, and one service beside a command that opens and closes the library for each
decision. Nothing that was acknowledged may be lost, and ``integrity_check`` must be silent.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import Any

from benchmarks.attack.runner import Found
from benchmarks.attack.sigkill import PICTURES, collection
from benchmarks.service.server import serving
from prototag import Library

ROUND = 250  # requests, and as many decisions, of one round
TAILS = ("", "-wal", "-shm")
LABELS = (
    '<View><Image name="image" value="$image"/><Choices name="tags" toName="image">'
    '<Choice value="red"/></Choices></View>'
)
Served = tuple[Any, ...]  # arguments of serving()
DECIDE = f"""
import sys
from prototag import Library
for number in range(int(sys.argv[2])):
    with Library(sys.argv[1], cache=None) as library:
        library.accept([1 + number % {PICTURES}], [f"command {{number}}"])
    print(number, flush=True)
"""


def requests_naming(name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Return all requests that make a service open a file by its path."""
    for operation in ("/annotate", "/similar", "/explain"):
        yield operation, {"path": name}
    yield "/annotate/many", {"paths": [name]}
    task = {"id": 1, "data": {"image": name}}
    project = {"id": 1, "title": "photos", "label_config": LABELS}
    yield (
        "/label-studio/predict",
        {"tasks": [task], "project": "1.1", "label_config": LABELS, "params": {}},
    )
    yield (
        "/label-studio/webhook",
        {
            "action": "ANNOTATION_CREATED",
            "annotation": {"id": 2, "result": [], "was_cancelled": False},
            "project": project,
            "task": {**task, "project": 1},
        },
    )
    yield "/scan", {}


class Client:
    """One connection to one service."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def post(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Send a request; return status and JSON of the response."""
        headers = {"Content-Type": "application/json"}
        address = path if path.startswith("/label-studio/") else f"/api/v1{path}"
        self._connection.request("POST", address, json.dumps(body), headers)
        answer = self._connection.getresponse()
        return answer.status, json.loads(answer.read() or b"{}")

    def close(self) -> None:
        self._connection.close()


def every_name(library: Path) -> list[str]:
    """The files of a library by their own names, and by hard and symbolic links."""
    names = []
    for tail in TAILS:
        file = Path(f"{library}{tail}")
        hard, soft = (library.with_name(f"{kind}{tail}.jpg") for kind in ("hard", "soft"))
        os.link(file, hard)
        soft.symlink_to(file)
        names += [file.name, hard.name, soft.name]
    return names


def name_files(
    port: int, names: list[str], least: int, ended: threading.Event, answers: Counter[str]
) -> None:
    """Name every file in turn, in all operations that take a path, until decisions have ended."""
    client, count = Client(port), 0
    requests = cycle([one for name in names for one in requests_naming(name)])
    while count < least or not ended.is_set():
        operation, body = next(requests)
        count += 1
        status, answer = client.post(operation, body)
        if operation == "/annotate/many" and status == 200:
            status = answer["results"][0].get("error", {}).get("status", 200)
        answers[f"a file of the library named to {operation}: {status}"] += 1
    client.close()


@contextmanager
def named(
    port: int, names: list[str], least: int, answers: Counter[str]
) -> Iterator[threading.Event]:
    """Name files while the block runs, and at least ``count`` times."""
    ended = threading.Event()
    thread = threading.Thread(target=name_files, args=(port, names, least, ended, answers))
    thread.start()
    try:
        yield ended
    finally:
        ended.set()
        thread.join()


class Deciders:
    """Decide through services and commands, and remember what was acknowledged."""

    def __init__(self, library: Path, answers: Counter[str]) -> None:
        self.library, self.answers = library, answers
        self.acknowledged: set[tuple[int, str]] = set()

    def service(
        self, port: int, name: str, numbers: range, turn: threading.Semaphore | None = None
    ) -> None:
        client = Client(port)
        for number in numbers:
            if turn is not None:
                turn.acquire(timeout=10)
            picture, tag = 1 + number % PICTURES, f"{name} {number}"
            body = {"decisions": [{"picture": picture, "tag": tag, "verdict": "accepted"}]}
            status, answer = client.post("/decisions", body)
            if status == 201 and answer["changed"] == 1:
                self.acknowledged.add((picture, tag))
            else:
                self.answers[f"decision not acknowledged: {status}"] += 1
        client.close()

    def command(self, count: int, turn: threading.Semaphore) -> None:
        """Decide in a process that opens and closes the library each time."""
        command = [sys.executable, "-c", DECIDE, str(self.library), str(count)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                self.acknowledged.add((1 + int(line) % PICTURES, f"command {int(line)}"))
                turn.release()

    def lost(self) -> str | None:
        """Describe lost decisions or damage; None for nothing."""
        with Library(self.library, cache=None) as opened:
            if damage := opened.check():
                return f"damaged: {damage[0]}"
            decided = {(one.picture, one.tag) for one in opened.history(100_000)}
            stands = {
                (number, tag)
                for number in range(1, PICTURES + 1)
                for tag in opened.picture(number).accepted
            }
        if lost := self.acknowledged - (decided & stands):
            return f"{len(lost)} of {len(self.acknowledged)} acknowledged decisions lost"
        return None


def two_services(served: Served, size: int, deciders: Deciders, answers: Counter[str]) -> None:
    """The second service stops and starts again while the first goes on."""
    mine, others = size // 2, size - size // 2
    first, second = deciders.service, deciders.service
    with serving(*served) as one:
        names = every_name(deciders.library)
        with named(one.port, names, size, answers):
            with serving(*served) as other, named(other.port, names, 0, answers):
                _at_once(
                    (first, one.port, "first", range(mine // 3)),
                    (second, other.port, "second", range(others // 2)),
                )
            first(one.port, "first", range(mine // 3, 2 * mine // 3))
            with serving(*served) as other, named(other.port, names, 0, answers):
                _at_once(
                    (first, one.port, "first", range(2 * mine // 3, mine)),
                    (second, other.port, "second", range(others // 2, others)),
                )


def service_and_command(
    served: Served, size: int, deciders: Deciders, answers: Counter[str]
) -> None:
    """A service and a command that opens and closes the library decide in turn."""
    turn = threading.Semaphore(0)
    with serving(*served) as one:
        names = every_name(deciders.library)
        with named(one.port, names, size, answers):
            _at_once(
                (deciders.command, size - size // 2, turn),
                (deciders.service, one.port, "first", range(size // 2), turn),
            )


KINDS = {"two services": two_services, "a service and a command": service_and_command}


def one_round(
    kind: str, template: Path, root: Path, size: int, answers: Counter[str]
) -> str | None:
    """Describe what one round lost or damaged; None for nothing."""
    folder = root / "round"
    shutil.copytree(template, folder)
    deciders = Deciders(folder / "prototag.library", answers)
    try:
        served = (deciders.library, "--allow", folder, "--cache", root / "cache.sqlite")
        KINDS[kind](served, size, deciders, answers)
        answers["decisions acknowledged"] += len(deciders.acknowledged)
        return deciders.lost()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _at_once(*work: tuple[Any, ...]) -> None:
    threads = [threading.Thread(target=function, args=given) for function, *given in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def run(count: int, seed: int, seconds: float) -> Found:
    """Run ``count`` requests and as many decisions, in rounds."""
    del seed  # every request is made in its turn
    began, findings = time.monotonic(), list[dict[str, Any]]()
    answers = Counter[str]()
    root = Path(tempfile.mkdtemp(prefix="prototag-attack-"))
    try:
        template = root / "made"
        template.mkdir()
        collection(template)
        with Library.create(template, crops="fast", cache=None) as library:
            library.scan()
            library.learn()
        done, kinds = 0, cycle(KINDS)
        while done < count and time.monotonic() - began < seconds:
            size, kind = min(ROUND, count - done), next(kinds)
            try:
                wrong = one_round(kind, template, root, size, answers)
            except Exception as error:
                wrong = f"{type(error).__name__}: {error}"[:300]
            done += size
            answers[f"{kind}: {'wrong' if wrong else 'whole'}"] += 1
            if wrong:
                findings.append({"attempt": done, "what": wrong, "where": kind, "times": 1})
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return Found(done, dict(answers), findings, round(time.monotonic() - began, 1))
