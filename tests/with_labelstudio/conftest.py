"""Label Studio itself, on loopback; ``make test-labelstudio`` installs it and says where it is."""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, Request, build_opener

import pytest

PROGRAM = os.environ.get("PROTOTAG_LABEL_STUDIO", "")
START = 300  # seconds that its first start may take: it makes its database
_OPENER = build_opener(ProxyHandler({}))  # loopback is asked, and nobody else

if not PROGRAM:
    collect_ignore_glob = ["test_*.py"]


class Studio:
    """What we ask of it, as its page would."""

    def __init__(self, address: str, token: str) -> None:
        self.address, self._token = address, token

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        given = {"Authorization": f"Token {self._token}", "Content-Type": "application/json"}
        request = Request(self.address + path, data, given | headers, method=method)
        try:
            with _OPENER.open(request, timeout=60) as answer:
                text = answer.read()
        except HTTPError as error:
            raise AssertionError(f"{method} {path}: {error.code} {error.read()[:500]!r}") from None
        return json.loads(text) if text else None

    def upload(self, project: int, paths: list[Path]) -> None:
        edge = secrets.token_hex(16)
        parts = [
            f'--{edge}\r\nContent-Disposition: form-data; name="{path.name}"; '
            f'filename="{path.name}"\r\nContent-Type: image/jpeg\r\n\r\n'.encode()
            + path.read_bytes()
            + b"\r\n"
            for path in paths
        ]
        body = b"".join([*parts, f"--{edge}--\r\n".encode()])
        kind = {"Content-Type": f"multipart/form-data; boundary={edge}"}
        self.ask("POST", f"/api/projects/{project}/import", body, **kind)


def _free_port() -> int:
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        return int(opened.getsockname()[1])


@pytest.fixture(scope="session")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    """A Label Studio with one user and nothing in it."""
    folder, port, token = tmp_path_factory.mktemp("studio"), _free_port(), secrets.token_hex(20)
    command = [
        PROGRAM, "start", "--no-browser", "--data-dir", folder, "--internal-host", "127.0.0.1",
        "--port", port, "--username", "someone@example.org", "--password", secrets.token_hex(8),
        "--user-token", token, "--enable-legacy-api-token",
    ]  # fmt: skip
    settings = {
        "USE_DEFAULT_BANNED_SUBNETS": "false",  # else a model on its own computer is refused
        "LATEST_VERSION_CHECK": "False",
        "COLLECT_ANALYTICS": "False",
        "HOME": str(folder),
    }
    log = folder / "log.txt"
    with log.open("wb") as written:
        process = subprocess.Popen(
            [str(part) for part in command],
            stdout=written,
            stderr=subprocess.STDOUT,
            env=os.environ | settings,
            cwd=folder,
            start_new_session=True,
        )
    address, deadline = f"http://127.0.0.1:{port}", time.monotonic() + START
    try:
        while True:
            assert process.poll() is None, log.read_text()[-2000:]
            assert time.monotonic() < deadline, log.read_text()[-2000:]
            try:
                with _OPENER.open(f"{address}/health", timeout=5) as answer:
                    if answer.status == 200:
                        break
            except (URLError, OSError):
                time.sleep(1)
        yield Studio(address, token)
    finally:
        os.killpg(process.pid, signal.SIGTERM)  # it starts a child
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(30)
