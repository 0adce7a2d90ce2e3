"""The real server on loopback: slow, large, many, hostile, and how it ends."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

import tagged
from prototag import Library
from prototag.errors import InputError
from prototag.service import server as server_module
from prototag.service.app import create_app
from prototag.service.request_body import Limits
from prototag.service.server import Server, bind


class Own:
    """A server in a thread of this process, with settings of its own."""

    def __init__(self, **settings):
        self.app = create_app(annotator=tagged.annotator(), **settings)
        self.ready, self.address = threading.Event(), ""
        self.server = Server(self.app, self._told)
        self.thread = threading.Thread(target=self.server.listen, args=("127.0.0.1", 0))
        self.thread.start()
        assert self.ready.wait(20)
        self.port = int(self.address.rstrip("/").rpartition(":")[2])

    def _told(self, address):
        self.address = address
        self.ready.set()

    def ask(self, method="GET", path="/api/v1/health", body=None, headers=None, timeout=20):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()

    def raw(self, data: bytes, timeout=20) -> bytes:
        with socket.create_connection(("127.0.0.1", self.port), timeout) as plug:
            plug.sendall(data)
            return received(plug)

    def close(self):
        self.server.should_exit = True
        self.thread.join(30)
        assert not self.thread.is_alive()


def received(plug: socket.socket) -> bytes:
    found = b""
    try:
        while piece := plug.recv(65536):
            found += piece
    except (TimeoutError, ConnectionResetError):
        pass
    return found


@pytest.fixture
def own():
    made = []

    def make(**settings):
        made.append(Own(**settings))
        return made[-1]

    yield make
    for one in made:
        one.close()


HEAD = b"POST /api/v1/annotate HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: image/jpeg\r\n"


def test_a_slow_body_is_given_up(own):
    server = own(limits=Limits(seconds=1.0, pause=0.4))
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", server.port), 10) as plug:
        plug.sendall(HEAD + b"Content-Length: 1000\r\n\r\nabc")
        answer = received(plug)
    assert b"408" in answer.split(b"\r\n")[0]
    assert b"too slowly" in answer
    assert time.monotonic() - began < 5
    # a byte now and then does not help
    with socket.create_connection(("127.0.0.1", server.port), 10) as plug:
        plug.sendall(HEAD + b"Content-Length: 1000\r\n\r\n")
        try:
            for _ in range(30):
                plug.sendall(b"x")
                time.sleep(0.1)
        except OSError:
            pass
        assert time.monotonic() - began < 12
    assert server.ask()[0] == 200
    assert server.app.state.service.body_reader.held == 0


def test_slow_headers_are_given_up(own, monkeypatch):
    monkeypatch.setattr(server_module, "HEAD_TIMEOUT_S", 0.5)
    server = own()
    for start in (b"", b"GET /api/v1/health HTTP/1.1\r\nHost: 127"):
        began = time.monotonic()
        assert server.raw(start) == b""
        assert time.monotonic() - began < 5
    # nor those of a second request
    with socket.create_connection(("127.0.0.1", server.port), 10) as plug:
        plug.sendall(b"GET /api/v1/health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        time.sleep(0.3)
        plug.sendall(b"GET /api/v1/health HT")
        began = time.monotonic()
        assert b"200 OK" in received(plug)
        assert time.monotonic() - began < 5


def test_large_bodies_are_refused_before_and_while_they_come(own):
    server = own(limits=Limits(picture=1000, json=1000))
    answer = server.raw(HEAD + b"Content-Length: 1001\r\n\r\n")
    assert b" 413 " in answer.split(b"\r\n")[0]
    chunk = b"100\r\n" + b"x" * 256 + b"\r\n"
    answer = server.raw(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 8 + b"0\r\n\r\n")
    assert b" 413 " in answer.split(b"\r\n")[0]
    answer = server.raw(HEAD + b"Content-Length: -5\r\n\r\n")
    assert b" 400 " in answer.split(b"\r\n")[0]
    assert server.ask()[0] == 200


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /api/v1/health?" + b"x" * 100_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"nonsense\r\n\r\n",
    ],
    ids=["long", "nonsense"],
)
def test_what_is_no_http_gets_problem_details(own, sent):
    head, _, body = own().raw(sent).partition(b"\r\n\r\n")
    assert b" 400 " in head.split(b"\r\n")[0]
    assert b"content-type: application/problem+json" in head.lower()
    assert json.loads(body)["status"] == 400


def test_all_bodies_together_are_limited(own):
    server = own(limits=Limits(held=2000, seconds=3, pause=1))
    plugs = [socket.create_connection(("127.0.0.1", server.port), 10) for _ in range(4)]
    for plug in plugs:
        plug.sendall(HEAD + b"Content-Length: 900\r\n\r\n" + b"x" * 899)
        time.sleep(0.1)
    answers = [received(plug) for plug in plugs]
    for plug in plugs:
        plug.close()
    assert sum(b" 429 " in answer.split(b"\r\n")[0] for answer in answers) == 2
    assert server.ask()[0] == 200
    assert server.app.state.service.body_reader.held == 0


def test_overload_answers_429_and_recovers(own, photos):
    server = own(threads=1, queue=2)
    data = (photos / "100.jpg").read_bytes()
    statuses, lock = [], threading.Lock()

    def ask():
        for _ in range(5):
            status, headers, _ = server.ask(
                "POST", "/api/v1/annotate", data, {"Content-Type": "image/jpeg"}
            )
            with lock:
                statuses.append(status)
            if status == 429:
                assert int(headers["retry-after"]) >= 1

    threads = [threading.Thread(target=ask) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {*statuses} == {200, 429}
    assert len(statuses) == 80
    status, _, body = server.ask("POST", "/api/v1/annotate", data, {"Content-Type": "image/jpeg"})
    assert status == 200
    assert json.loads(body)["tags"]


@pytest.mark.parametrize(
    "data",
    [
        b"\x00\xff\xfe garbage\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"a" * 2_000_000 + b"\r\n\r\n",
        HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcde",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET /%00%ff%2e%2e/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET /static/..%2f..%2fapp.py HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET /chat HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n\r\n",
    ],
)
def test_hostile_bytes(own, data):
    server = own(limits=Limits(seconds=1, pause=0.5))
    answer = server.raw(data, timeout=2)
    assert not answer.startswith(b"HTTP/1.1 2")
    assert b"Traceback" not in answer
    assert server.ask()[0] == 200


def test_a_port_in_use_is_reported():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match="--port"):
            bind("127.0.0.1", port)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_and_nothing_is_lost(serve, photos, number):
    running = serve("--jobs", "1")
    data = (photos / "100.jpg").read_bytes()
    answers = []

    def ask():
        connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=30)
        connection.request("POST", "/api/v1/annotate", data, {"Content-Type": "image/jpeg"})
        answers.append(connection.getresponse().status)
        connection.close()

    threads = [threading.Thread(target=ask) for _ in range(12)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 20
    while not answers and time.monotonic() < deadline:
        time.sleep(0.001)
    time.sleep(0.05)  # all have been sent, few have been answered
    code = running.stop(number)
    for thread in threads:
        thread.join()
    assert code == 0
    assert answers == [200] * 12
    said = running.process.stderr.read()
    assert "Stopped" in said
    assert "Traceback" not in said


def ask(running, path: str, body: object = None):
    data = None if body is None else json.dumps(body)
    connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=30)
    method = "GET" if data is None else "POST"
    connection.request(method, path, data, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    found = json.loads(answer.read())
    connection.close()
    return found


def test_open_makes_a_library_and_reads_it(serve, tmp_path):
    folder = tmp_path / "mine"
    tagged.collection(folder, 5)
    running = serve("--no-browser", command=["open", folder])
    deadline = time.monotonic() + 60
    while (job := ask(running, "/api/v1/jobs")["jobs"][0])["state"] == "running":
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert (job["kind"], job["state"]) == ("scan", "done"), job
    assert ask(running, "/api/v1/library")["pictures"] == 5
    decision = {"picture": 1, "tag": "mine", "verdict": "accepted"}
    assert ask(running, "/api/v1/decisions", {"decisions": [decision]})["changed"] == 1
    assert running.stop() == 0
    # and opens it again, and so does serve
    for command in (["open", folder, "--no-browser"], ["serve", folder / "prototag.library"]):
        running = serve(command=command)
        assert ask(running, "/api/v1/history")["decisions"][0]["tag"] == "mine"
        assert running.stop() == 0


def test_a_signal_ends_a_scan_and_keeps_what_it_has_done(serve, tmp_path):
    folder = tmp_path / "many"
    tagged.collection(folder, 400)
    running = serve("--no-browser", "--jobs", "1", command=["open", folder])
    deadline = time.monotonic() + 60
    while not ask(running, "/api/v1/library")["pictures"] and time.monotonic() < deadline:
        time.sleep(0.01)
    assert running.stop() == 0
    with Library(folder / "prototag.library", cache=None) as library:
        assert library.check() == []
        assert 0 < library.status().pictures <= 400


def test_listening_elsewhere_needs_a_token(tmp_path):
    model = tagged.model(tmp_path)
    command = [sys.executable, "-m", "prototag", "serve", str(model), "--host", "0.0.0.0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "--token-file" in done.stderr
    assert "Traceback" not in done.stderr
