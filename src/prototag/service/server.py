"""The server: uvicorn in this process; it ends cleanly and waits for nobody for ever."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import Any

import h11
import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

from prototag.errors import InputError
from prototag.service.problem_details import MEDIA_TYPE, bad
from prototag.service.security import is_loopback

PORT = 8765
HEAD_BYTES = 64 << 10  # that they may have
HEAD_SECONDS = 10.0  # that a request's first line and headers may take
CONNECTIONS = 500  # at a time; those beyond are answered with 503
GRACE = 30  # seconds in which what was asked is still answered
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Protocol(H11Protocol):
    """Closes connections that do not say what they want."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._timer = self.loop.call_later(HEAD_SECONDS, self._give_up)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        idle = self.cycle is None or self.cycle.response_complete
        if not idle:
            self._forget()
        elif self._timer is None:  # the headers of one more request have begun
            self._timer = self.loop.call_later(HEAD_SECONDS, self._give_up)

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002  (uvicorn's words)
        """Answer what is no HTTP, or has too long a head, as any other mistake is answered."""
        problem = bad(
            f"the request is not valid HTTP, or its first line and headers have more than "
            f"{HEAD_BYTES:,} bytes: send long lists in the body."
        )
        body = json.dumps(problem.members()).encode()
        headers = [
            (b"content-type", MEDIA_TYPE.encode()),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
        ]
        reason = HTTPStatus(400).phrase.encode()
        for event in (
            h11.Response(status_code=400, headers=headers, reason=reason),
            h11.Data(data=body),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event))
        self.transport.close()

    def _forget(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        self._timer = None
        if (self.cycle is None or self.cycle.response_complete) and not self.transport.is_closing():
            self.transport.close()


class Server(uvicorn.Server):
    """Tells the service to stop as soon as it is to stop, and raises no signal again afterwards."""

    def __init__(self, app: Starlette, ready: Callable[[str], object] | None = None) -> None:
        config = uvicorn.Config(
            app,
            http=Protocol,
            h11_max_incomplete_event_size=HEAD_BYTES,
            ws="none",
            lifespan="on",
            loop="asyncio",
            log_config=None,
            log_level="critical",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=GRACE,
            limit_concurrency=CONNECTIONS,
            backlog=256,
        )
        super().__init__(config)
        self._service = app.state.service
        self._ready = ready
        self._address = ""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started and self._ready is not None:
            self._ready(self._address)

    def handle_exit(self, sig: int, frame: Any) -> None:
        self._service.begin_to_stop()
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._service.begin_to_stop()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def listen(self, host: str, port: int) -> None:
        """Answer until a signal ends it; port 0 takes any that is free."""
        opened = bound(host, port)
        name = f"[{host}]" if ":" in host else host
        self._address = f"http://{name}:{opened.getsockname()[1]}/"
        self.run(sockets=[opened])


def bound(host: str, port: int) -> socket.socket:
    """A socket that listens there."""
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        # A name must not turn out to be another address than the rules were made for.
        if is_loopback(host) and not is_loopback(str(place[0])):
            raise InputError(f"{host!r} is not this computer alone here: listen on 127.0.0.1.")
        opened = socket.socket(family, kind, protocol)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            opened.bind(place)
        except OSError:
            opened.close()
            raise
    except OSError as error:
        raise InputError(
            f"the address {host} with port {port} cannot be listened on: "
            f"{error.strerror or error}. Give another --port; 0 takes any that is free."
        ) from None
    return opened
