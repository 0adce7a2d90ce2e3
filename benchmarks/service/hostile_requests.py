"""Hostile requests, which must not change any file or row."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import socket
import sqlite3
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

CLIENTS = 8
JSON = "application/json"
PICTURES = ("path", "bomb", "bomb in JSON")
OUTSIDE = (
    "../../../../etc/passwd",
    "/etc/passwd",
    "/proc/self/environ",
    "..%2f..%2fetc/passwd",
    "link.jpg",
    "a/../../outside.jpg",
    "\\\\server\\share",
    "/dev/zero",
    "C:\\windows\\win.ini",
    "x" * 5000,
)
DECISION = {"decisions": [{"picture": 1, "tag": "hacked", "verdict": "accepted"}]}


def _bomb() -> bytes:
    stream = io.BytesIO()
    Image.new("1", (40_000, 40_000)).save(stream, "PNG")
    return stream.getvalue()


def _request(method: str, path: str, body: bytes, kind: str, **headers: str) -> bytes:
    lines = {"Host": "127.0.0.1", "Content-Type": kind, "Content-Length": str(len(body))}
    lines |= {name.replace("_", "-"): value for name, value in headers.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"{method} {path} HTTP/1.1\r\n{head}Connection: close\r\n\r\n".encode() + body


def requests(count: int, seed: int) -> list[tuple[str, bytes]]:
    """Yield ``count`` requests, cycling over all kinds."""
    rng = np.random.default_rng(seed)
    bomb, decision = _bomb(), json.dumps(DECISION).encode()
    url = "data:image/png;base64," + base64.b64encode(bomb).decode()
    chosen: list[tuple[str, bytes]] = []
    for number in range(count):
        path = OUTSIDE[number // 10 % len(OUTSIDE)]
        noise = rng.bytes(int(rng.integers(1, 2000)))
        kinds: dict[str, bytes] = {
            "path": _request("POST", "/api/v1/annotate", json.dumps({"path": path}).encode(), JSON),
            "static": _request("GET", f"/static/{path[:200].replace(' ', '')}", b"", JSON),
            "bomb": _request("POST", "/api/v1/annotate", bomb, "image/png"),
            "bomb in JSON": _request(
                "POST", "/api/v1/vision/labels", json.dumps({"images": [url]}).encode(), JSON
            ),
            "wrong host": _request(
                "POST", "/api/v1/decisions", decision, JSON, Host="evil.example"
            ),
            "other site": _request(
                "POST", "/api/v1/decisions", decision, JSON, Origin="https://evil.example"
            ),
            "form": _request(
                "POST", "/api/v1/decisions", decision, "text/plain", Sec_Fetch_Site="cross-site"
            ),
            "by GET": _request("GET", "/api/v1/undo?batch=9", b"", JSON),
            "noise": noise + b"\r\n\r\n",
            "broken JSON": _request("POST", "/api/v1/decisions", b'{"decisions": [' + noise, JSON),
        }
        name = list(kinds)[number % len(kinds)]
        chosen.append((name, kinds[name]))
    return chosen


def _send(port: int, data: bytes) -> str:
    try:
        with socket.create_connection(("127.0.0.1", port), 30) as plug:
            plug.sendall(data)
            answer = plug.recv(64)
    except OSError:
        return "closed"
    return answer[9:12].decode("latin-1") if answer.startswith(b"HTTP/1.1 ") else "closed"


def _slow(port: int, seconds: float) -> str:
    """Send a body one byte at a time."""
    head = b"POST /api/v1/annotate HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: image/png\r\n"
    began, answer = time.monotonic(), b""
    try:
        with socket.create_connection(("127.0.0.1", port), seconds + 60) as plug:
            plug.sendall(head + b"Content-Length: 100000\r\n\r\n")
            plug.settimeout(1.0)
            while time.monotonic() - began < seconds and not answer:
                plug.sendall(b"x")
                try:
                    answer = plug.recv(64)
                except TimeoutError:
                    continue
    except OSError:
        return "closed"
    return answer[9:12].decode("latin-1") or "still open"


def state(folder: Path, library: Path) -> str:
    """Return a digest of all files of a folder and all rows of a library."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.name.startswith(library.name):
            digest.update(str(path).encode() + path.read_bytes())
    with sqlite3.connect(f"file:{library}?mode=ro", uri=True) as base:
        names = [
            row[0] for row in base.execute("SELECT name FROM sqlite_master WHERE type='table'")
        ]
        for name in sorted(names):
            for row in base.execute(f"SELECT * FROM {name}"):
                digest.update(repr(row).encode())
    base.close()
    return digest.hexdigest()


def attack(
    ports: dict[str, int], count: int, slow: int, seconds: float, seed: int
) -> dict[str, Any]:
    """Send them by several clients, slow ones beside them.

    What is about decisions goes to the service with a library, pictures to the one with a model.
    """
    waiting = iter(requests(count, seed))
    lock, answers = threading.Lock(), Counter[str]()
    by_kind: dict[str, Counter[str]] = {}
    slowly: Counter[str] = Counter()

    def work() -> None:
        while True:
            with lock:
                one = next(waiting, None)
            if one is None:
                return
            status = _send(ports["model" if one[0] in PICTURES else "library"], one[1])
            with lock:
                answers[status] += 1
                by_kind.setdefault(one[0], Counter())[status] += 1

    def crawl() -> None:
        status = _slow(ports["model"], seconds)
        with lock:
            slowly[status] += 1

    threads = [threading.Thread(target=work) for _ in range(CLIENTS)]
    threads += [threading.Thread(target=crawl) for _ in range(slow)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {
        "requests": count,
        "slow_bodies": dict(slowly),
        "seconds": round(time.perf_counter() - began, 1),
        "answers": dict(sorted(answers.items())),
        "by_kind": {
            name: dict(sorted(outcomes_of_kind.items()))
            for name, outcomes_of_kind in by_kind.items()
        },
    }
