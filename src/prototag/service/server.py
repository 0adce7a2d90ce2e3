"""HTTP server: uvicorn with time limits and graceful shutdown."""

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
from prototag.service.problem_details import MEDIA_TYPE, bad_request
from prototag.service.security import is_loopback

MAX_HEAD_BYTES = 64 << 10  # of the request line and headers
HEAD_TIMEOUT_S = 10.0  # for the request line and headers
MAX_CONNECTIONS = 500  # further ones get HTTP 503
SHUTDOWN_TIMEOUT_S = 30  # for pending requests
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Protocol(H11Protocol):
    """HTTP/1.1 protocol that closes connections whose request does not arrive in time."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._timer = self.loop.call_later(HEAD_TIMEOUT_S, self._close_if_idle)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        idle = self.cycle is None or self.cycle.response_complete
        if not idle:
            self._cancel_timer()
        elif self._timer is None:  # the next request of this connection has begun
            self._timer = self.loop.call_later(HEAD_TIMEOUT_S, self._close_if_idle)

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_timer()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - the message of uvicorn
        """Answer invalid HTTP and too long headers with problem details."""
        problem = bad_request(
            f"the request is not valid HTTP, or its first line and headers have more than "
            f"{MAX_HEAD_BYTES:,} bytes: send long lists in the body."
        )
        body = json.dumps(problem.to_json()).encode()
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

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _close_if_idle(self) -> None:
        self._timer = None
        if (self.cycle is None or self.cycle.response_complete) and not self.transport.is_closing():
            self.transport.close()


class Server(uvicorn.Server):
    """uvicorn server that stops the service first and does not raise the signal again."""

    def __init__(self, app: Starlette, ready: Callable[[str], object] | None = None) -> None:
        config = uvicorn.Config(
            app,
            http=Protocol,
            h11_max_incomplete_event_size=MAX_HEAD_BYTES,
            ws="none",
            lifespan="on",
            loop="asyncio",
            log_config=None,
            log_level="critical",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=SHUTDOWN_TIMEOUT_S,
            limit_concurrency=MAX_CONNECTIONS,
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
        self._service.request_stop()
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._service.request_stop()
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
        """Serve until a signal arrives; port 0 selects a free port.

        If phones may connect, the service also listens on its address of the network.
        """
        sockets = [bind(host, port)]
        port = sockets[0].getsockname()[1]
        if (phones := self._service.phones) is not None:
            sockets.append(bind(phones.host, port))
            phones.port = port
        name = f"[{host}]" if ":" in host else host
        self._address = f"http://{name}:{port}/"
        self.run(sockets=sockets)


def bind(host: str, port: int) -> socket.socket:
    """Bind a socket to an address."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        # "localhost" must not resolve to an address that needs a token.
        if is_loopback(host) and not is_loopback(str(address[0])):
            raise InputError(f"{host!r} is not a loopback address here: listen on 127.0.0.1.")
        bound = socket.socket(family, kind, protocol)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind(address)
        except OSError:
            bound.close()
            raise
    except OSError as error:
        raise InputError(
            f"cannot listen on {host} port {port}: {error.strerror or error}. Give another --port; "
            "0 selects a free one."
        ) from None
    return bound
