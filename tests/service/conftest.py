"""A service to ask: in this process, and a real one on loopback."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import tagged
from prototag import Library
from prototag.service.app import create_app

HOME = "http://127.0.0.1"


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """A folder of six new pictures."""
    tagged.collection(tmp_path / "photos", 6, start=100, listed=False)
    return tmp_path / "photos"


@pytest.fixture
def served(photos: Path) -> Iterator[Callable[..., TestClient]]:
    """Makes clients of an application with the annotator of all tests."""
    opened: list[TestClient] = []

    def make(base_url: str = HOME, headers: Any = None, **settings: Any) -> TestClient:
        given = {"annotator": tagged.annotator(), "roots": [photos], **settings}
        client = TestClient(
            create_app(**given),
            base_url=base_url,
            headers=headers,
            raise_server_exceptions=False,
            follow_redirects=False,
        )
        client.__enter__()
        opened.append(client)
        return client

    yield make
    for client in opened:
        client.__exit__(None, None, None)


@pytest.fixture
def client(served: Callable[..., TestClient]) -> TestClient:
    return served()


class Running:
    """``prototag serve`` in a process of its own."""

    def __init__(self, process: subprocess.Popen[str], address: str) -> None:
        self.process, self.address = process, address
        self.port = int(address.rstrip("/").rpartition(":")[2])

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(30)


@pytest.fixture
def serve(tmp_path: Path, photos: Path) -> Iterator[Callable[..., Running]]:
    """Starts the command on a free port, and waits for the line that says where."""
    running: list[Running] = []

    def start(*arguments: object, command: Sequence[object] = ()) -> Running:
        if not command:
            command = ["serve", tagged.model(tmp_path), "--allow", photos]
        command = [sys.executable, "-m", "prototag", *command, "--port", "0", *arguments]
        process = subprocess.Popen(
            [str(part) for part in command],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        assert process.stderr is not None
        deadline, said = time.monotonic() + 60, ""
        while time.monotonic() < deadline:
            line = process.stderr.readline()
            said += line
            if "http://" in line:
                address = line[line.index("http://") :].split()[0].rstrip(".,")
                running.append(Running(process, address))
                return running[-1]
            if not line and process.poll() is not None:
                break
        raise AssertionError(f"it did not start: {said}")

    yield start
    for one in running:
        if one.process.poll() is None:
            one.process.kill()
        one.process.wait(30)
        assert one.process.stderr is not None
        one.process.stderr.close()


@pytest.fixture(scope="session")
def _scanned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve tagged pictures and their library, made once."""
    folder = tmp_path_factory.mktemp("scanned") / "collection"
    tagged.collection(folder, 12)
    with Library.create(folder, crops="fast", cache=None) as library:
        library.scan()
    return folder


@pytest.fixture
def collection(_scanned: Path, tmp_path: Path) -> Path:
    """A copy of them, with the library inside."""
    return shutil.copytree(_scanned, tmp_path / "collection")


@pytest.fixture
def library(collection: Path) -> Iterator[Library]:
    with Library(collection / "prototag.library", cache=None) as made:
        made.scan()
        yield made
