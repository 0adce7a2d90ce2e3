"""Access for phones on the same network: a one-time code, then a session in a cookie.

Only `prototag open --phone` creates it, and listens on an address of the network besides loopback.
A request that arrives there needs a session, except for the page that takes the code. The code has
128 bits, works once, and expires; the connection is not encrypted, so that it is for networks whose
members are trusted.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import socket
import threading
import time
from collections.abc import Callable
from http.cookies import CookieError, SimpleCookie
from typing import NamedTuple

from starlette.datastructures import Headers

from prototag.errors import InputError

COOKIE = "prototag_phone"
CODE_BYTES = 16
CODE_LIFETIME_S = 600.0
SESSION_LIFETIME_S = 12 * 3600.0
MAX_PHONES = 8  # sessions at a time; the oldest ends
MAX_WRONG_CODES = 20  # until the code is withdrawn
CONNECT_PAGE = "/connect"
PHONE_API = "/api/v1/phone"
CONNECT_API = f"{PHONE_API}/connect"
_ANY_ADDRESS = "192.0.2.1"  # of a network for documentation (RFC 5737); nothing is sent to it


class PhoneState(NamedTuple):
    """What the page of this computer shows."""

    address: str  # of the service on the network, such as http://192.168.1.7:8765
    link: str  # with the code; empty if the code was used, withdrawn or has expired
    expires_in: float  # seconds
    phones: int  # that are connected


class PhoneAccess:
    """The one-time code and the sessions of phones; threads may share it.

    Parameters
    ----------
    host : str
        Address of this computer on the network.
    clock : callable
        Returns seconds, rising.
    """

    def __init__(self, host: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.host = host
        self.port = 0  # known once the service listens
        self._clock = clock
        self._lock = threading.Lock()
        self._code = ""
        self._code_ends = 0.0
        self._wrong_codes = 0
        self._sessions: dict[bytes, float] = {}  # digest of the session: its end

    @property
    def address(self) -> str:
        """Address of the service on the network."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{name}:{self.port}"

    def new_code(self) -> str:
        """Create a code, which replaces the one before; return the link that has it."""
        with self._lock:
            self._code = secrets.token_urlsafe(CODE_BYTES)
            self._code_ends = self._clock() + CODE_LIFETIME_S
            self._wrong_codes = 0
        return self.state().link

    def state(self) -> PhoneState:
        """Return the link while the code is valid, and the number of phones."""
        with self._lock:
            self._forget_ended()
            left = max(0.0, self._code_ends - self._clock()) if self._code else 0.0
            link = f"{self.address}{CONNECT_PAGE}?code={self._code}" if left else ""
            return PhoneState(self.address, link, left, len(self._sessions))

    def connect(self, code: str) -> str | None:
        """Exchange the code for a session; None if it is wrong, used or has expired."""
        with self._lock:
            is_valid = bool(self._code) and self._clock() < self._code_ends
            is_same = hmac.compare_digest(code.encode("utf-8", "replace"), self._code.encode())
            if not is_valid or not is_same:
                self._wrong_codes += 1
                if self._wrong_codes >= MAX_WRONG_CODES:
                    self._code = ""
                return None
            self._code = ""
            self._forget_ended()
            while len(self._sessions) >= MAX_PHONES:
                del self._sessions[next(iter(self._sessions))]
            session = secrets.token_urlsafe(32)
            self._sessions[_digest(session)] = self._clock() + SESSION_LIFETIME_S
            return session

    def is_connected(self, headers: Headers) -> bool:
        """Return whether a request has the cookie of a session."""
        session = _cookie(headers.get("cookie", ""))
        with self._lock:
            self._forget_ended()
            return bool(session) and _digest(session) in self._sessions

    def disconnect(self) -> None:
        """End all sessions, and withdraw the code."""
        with self._lock:
            self._sessions.clear()
            self._code = ""

    def _forget_ended(self) -> None:
        now = self._clock()
        self._sessions = {one: end for one, end in self._sessions.items() if end > now}


def _digest(session: str) -> bytes:
    return hashlib.blake2b(session.encode("utf-8", "replace"), digest_size=32).digest()


def _cookie(given: str) -> str:
    try:
        cookie = SimpleCookie(given).get(COOKIE)
    except CookieError:
        return ""
    return cookie.value if cookie else ""


def network_address() -> str:
    """Return the address of this computer on its network.

    Raises
    ------
    InputError
        The computer has no network.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((_ANY_ADDRESS, 9))  # selects a route; a datagram socket sends nothing
            address = str(probe.getsockname()[0])
        except OSError:
            address = ""
    if not address or address.startswith(("127.", "0.")):
        raise InputError(
            "this computer is in no network that a phone could share: connect it to one, or open "
            "the folder without --phone."
        )
    return address


def qr_svg(text: str) -> bytes:
    """Return a QR code as an SVG picture."""
    import io

    import segno

    stream = io.BytesIO()
    code = segno.make(text, error="m", micro=False)
    code.save(stream, kind="svg", border=4, scale=6, light="#fff", xmldecl=False)
    return stream.getvalue()


def qr_text(text: str) -> str:
    """Return a QR code in half blocks, for terminals."""
    import io

    import segno

    stream = io.StringIO()
    segno.make(text, error="m", micro=False).terminal(stream, compact=True, border=2)
    return stream.getvalue()
