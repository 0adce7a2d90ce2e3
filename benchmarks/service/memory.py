"""Resident memory of the review service with a small library.

    python -m benchmarks.service.memory --photos FOLDER [--pictures N]

`prototag open` reads a folder of tagged photographs, trains in its own process, and is then asked
what the review page asks: review batches, thumbnails, previews, decisions, and tags of uploads.
After that it is closed and opened again with the same library. The memory after each step is read
from /proc: VmRSS (all that is resident), RssAnon (the process's own), RssFile (pages of libraries
and mapped files, which the system can drop). Written to benchmarks/results/service_memory.json.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.machine import stamp

TARGET = Path(__file__).parents[1] / "results" / "service_memory.json"
SEED = 0
FIELDS = {"rss_mb": "VmRSS", "anonymous_mb": "RssAnon", "file_mb": "RssFile", "peak_mb": "VmHWM"}
UPLOADS = 24
BATCHES = 5
TAKEN = 3  # decisions of a review batch


class Client:
    """Requests to the service, and its memory."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.process, self.port = process, port

    def ask(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Any:
        """The answer: JSON as an object, anything else as bytes."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        try:
            data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
            headers = {} if data is None else {"Content-Type": kind}
            connection.request(method, f"/api/v1{path}", data, headers)
            answer = connection.getresponse()
            content = answer.read()
            if answer.status >= 400:
                raise RuntimeError(f"{method} {path}: {answer.status} {content[:500]!r}")
            is_json = "json" in answer.headers.get("Content-Type", "")
            return json.loads(content) if is_json else content
        finally:
            connection.close()

    def finish(self) -> None:
        """Wait until no job runs."""
        while any(job["ended"] is None for job in self.ask("GET", "/jobs")["jobs"]):
            time.sleep(0.2)

    def memory(self) -> dict[str, float]:
        """Megabytes by name."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        known = dict(line.split(":", 1) for line in lines)
        return {name: round(int(known[key].split()[0]) / 1024, 1) for name, key in FIELDS.items()}


@contextmanager
def opened(folder: Path, cache: Path, jobs: int) -> Iterator[Client]:
    """Run `prototag open` in a separate process."""
    command = [sys.executable, "-m", "prototag", "open", str(folder), "--no-browser"]
    command += ["--cache", str(cache), "--jobs", str(jobs)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ})
    assert process.stderr is not None
    output = ""
    while "http://" not in (line := process.stderr.readline()):
        output += line
        if not line:
            raise RuntimeError(output)
    port = int(line[line.index("http://") :].split()[0].rstrip("/").rpartition(":")[2])
    reader = threading.Thread(target=process.stderr.read, daemon=True)
    reader.start()
    try:
        yield Client(process, port)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        reader.join()
        process.stderr.close()


def review(client: Client) -> None:
    """Ask what the review page asks, and decide."""
    client.ask("GET", "/facets")
    for _ in range(BATCHES):
        cells = client.ask("POST", "/review-batch", {"queue": "most_informative", "limit": 40})[
            "cells"
        ]
        for cell in cells:
            client.ask("GET", f"/pictures/{cell['picture']}/thumbnail")
        for cell in cells[:TAKEN]:
            client.ask("GET", f"/pictures/{cell['picture']}/preview")
        decisions = [
            {"picture": cell["picture"], "tag": cell["tag"], "verdict": "accepted"}
            for cell in cells[:TAKEN]
        ]
        if decisions:
            client.ask("POST", "/decisions", {"decisions": decisions})
    client.finish()


def measure(folder: Path, scratch: Path, jobs: int) -> dict[str, dict[str, dict[str, float]]]:
    """Memory after each step, of a first and of a second session."""
    uploads = [path.read_bytes() for path in sorted(folder.glob("*.jpg"))[:UPLOADS]]
    by_session: dict[str, dict[str, dict[str, float]]] = {"first session": {}, "second session": {}}
    for session, steps in by_session.items():
        with opened(folder, scratch / "cache.sqlite", jobs) as client:

            def note(name: str, steps: Any = steps, client: Client = client) -> None:
                steps[name] = client.memory()
                print(f"{name:10}", steps[name], flush=True)

            client.ask("GET", "/health")
            note("started")
            client.finish()
            note("scanned")
            if session == "first session":
                client.ask("POST", "/learn", {"full": True})
                client.finish()
                note("trained")
            review(client)
            note("reviewed")
            for picture in uploads:
                client.ask("POST", "/annotate", picture, "image/jpeg")
            note("annotated")
    return by_session


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--photos", type=Path, required=True)
    parser.add_argument("--pictures", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--target", type=Path, default=TARGET)
    given = parser.parse_args()
    files = sorted(given.photos.glob("*.jpg"))[: given.pictures]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "photos")
        folder.mkdir()
        for file in files:
            shutil.copy(file, folder)
        listed = given.photos / "metadata.jsonl"
        if listed.exists():
            shutil.copy(listed, folder)
        sessions = measure(folder, Path(name), given.jobs)
    result = {
        "machine": stamp(SEED, "onnxruntime", "numpy", "scipy", "scikit-learn"),
        "pictures": len(files),
        "threads": given.jobs,
        **sessions,
    }
    given.target.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
