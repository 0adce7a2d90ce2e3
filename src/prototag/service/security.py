"""Security middleware: Host header, origin, token, and security headers of responses.

On a loopback address no token is needed; any other address needs one, or the session of a phone
(:mod:`prototag.service.phone`). Pages of other sites can
neither change nor read anything: cross-origin requests are refused by their origin, and DNS
rebinding by the Host header.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from prototag.errors import InputError
from prototag.service.phone import CONNECT_API, CONNECT_PAGE, PHONE_API, PhoneAccess
from prototag.service.problem_details import Problem, from_error

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
WILDCARDS = frozenset({"0.0.0.0", "::", ""})
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})  # RFC 9110, section 9.2.1
COOKIE = "prototag_token"
MIN_TOKEN = 16  # characters
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


def is_loopback(host: str) -> bool:
    """Return whether a host name or address is a loopback one."""
    if host.lower() in LOOPBACK:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def read_token(text: str) -> str:
    """Check the token in the text of a file."""
    token = text.strip()
    if len(token) < MIN_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise InputError(
            f"the token has {len(token)} characters or contains others than ASCII letters, digits "
            f"and punctuation: give {MIN_TOKEN} or more, such as `openssl rand -hex 32` prints."
        )
    return token


@dataclass(frozen=True)
class Rules:
    """Access rules: which hosts and tokens requests must have.

    Parameters
    ----------
    host : str
        Address that the server listens on.
    token : str or None
        Token that every request must send.
    names : iterable of str
        Further host names of the service.
    """

    host: str = "127.0.0.1"
    token: str | None = field(default=None, repr=False)
    names: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if self.token is not None:
            read_token(self.token)
        elif not is_loopback(self.host):
            raise InputError(
                f"other computers can reach the address {self.host!r}, and no token was given: "
                "give one (--token-file), or listen on 127.0.0.1."
            )

    @classmethod
    def create(cls, host: str, token: str | None, names: Iterable[str] = ()) -> Rules:
        return cls(host, token, frozenset(name.lower().rstrip(".") for name in names))

    def is_known_host(self, host: str) -> bool:
        """Return whether a Host header names this service, against DNS rebinding."""
        name = _name(host)
        if name is None:
            return False
        if name in LOOPBACK or name in self.names or name == self.host.lower():
            return True
        # On a wildcard address any IP address may be ours. Unknown names may be rebound to it.
        return self.host in WILDCARDS and _is_address(name)

    @property
    def cookie(self) -> str:
        """Value of the session cookie: an HMAC that proves the token without containing it."""
        return hmac.new((self.token or "").encode(), b"cookie", hashlib.sha256).hexdigest()

    def has_token(self, headers: Headers) -> bool:
        """Return whether a request has the token, if one is required."""
        if self.token is None:
            return True
        kind, _, given = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return _equal(given.strip(), self.token)
        if kind.lower() == "basic":  # the only kind that Label Studio supports
            return _equal(_password(given.strip()), self.token)
        return _equal(_cookie(headers.get("cookie", "")), self.cookie)


def _equal(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), expected.encode())


def _password(given: str) -> str:
    try:
        return base64.b64decode(given, validate=True).decode().partition(":")[2]
    except (binascii.Error, ValueError):
        return ""


def _cookie(given: str) -> str:
    try:
        cookie = SimpleCookie(given).get(COOKIE)
    except CookieError:
        return ""
    return cookie.value if cookie else ""


def _name(host: str) -> str | None:
    """Return the host name of a Host header without the port; None if it is invalid."""
    if not host or any(c in host for c in "/\\@?# \t,") or len(host) > 255:
        return None
    try:
        parts = urlsplit(f"//{host}")
        _ = parts.port  # raises a ValueError if it is not a number
    except ValueError:
        return None
    return (parts.hostname or "").rstrip(".") or None


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


class Guard:
    """ASGI middleware that refuses requests by the rules and adds security headers."""

    def __init__(self, app: ASGIApp, rules: Rules, phones: PhoneAccess | None = None) -> None:
        self.app = app
        self.rules = rules
        self.phones = phones

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # the service has no WebSockets
            await send({"type": "websocket.close", "code": 1008})
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                if "cache-control" not in headers:
                    headers["Cache-Control"] = "no-store"
            await send(message)

        try:
            self.check(scope)
            login_response = self.log_in(scope)
        except Problem as problem:
            await problem.response()(scope, receive, send_with_headers)
            return
        except Exception as error:  # invalid bytes in headers can raise in a parser
            await from_error(error).response()(scope, receive, send_with_headers)
            return
        await (login_response or self.app)(scope, receive, send_with_headers)

    def check(self, scope: Scope) -> None:
        """Refuse a request by its headers, before its body is read."""
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self.rules.is_known_host(hosts[0]):
            raise Problem(
                421,
                "wrong-host",
                "the Host header does not name this service: use the address that it printed when "
                "it started, or start it with --name NAME.",
            )
        _check_origin(scope["method"], headers, hosts[0], scope["scheme"])
        if self.phones is not None and not _is_local(scope):
            _check_phone(scope, headers, self.phones)
        if not self.rules.has_token(headers) and not _is_login(scope):
            raise Problem(
                401,
                "missing-token",
                "the request has no valid token: send it as `Authorization: Bearer TOKEN`, or open "
                "/?token=TOKEN once in a browser.",
                headers={"WWW-Authenticate": 'Bearer realm="prototag"'},
            )

    def log_in(self, scope: Scope) -> Response | None:
        """Exchange the token in ``/?token=...`` for a cookie, so that it leaves the address."""
        if self.rules.token is None or not _is_login(scope):
            return None
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if not _equal(given, self.rules.token):
            raise Problem(401, "wrong-token", "the token is not the one of this service.")
        response = RedirectResponse("/", 303)
        response.set_cookie(COOKIE, self.rules.cookie, httponly=True, samesite="strict", path="/")
        return response


def _is_local(scope: Scope) -> bool:
    """Return whether a request arrived at a loopback address, which only this computer reaches."""
    server = scope.get("server")
    return server is not None and is_loopback(str(server[0]))


def _check_phone(scope: Scope, headers: Headers, phones: PhoneAccess) -> None:
    """Refuse a request from the network without a session, except those that connect a phone."""
    path = scope["path"]
    method = scope["method"]
    if path == CONNECT_API and method == "POST":
        return
    if path == PHONE_API or path.startswith(f"{PHONE_API}/"):
        raise Problem(
            403, "this-computer-only", "only the computer that runs prototag may ask for this."
        )
    is_public = path == CONNECT_PAGE or path.startswith("/static/")
    if (is_public and method in ("GET", "HEAD")) or phones.is_connected(headers):
        return
    raise Problem(
        401,
        "phone-not-connected",
        "this phone is not connected: scan the QR code that prototag shows on the computer.",
        headers={"WWW-Authenticate": 'Bearer realm="prototag"'},
    )


def _is_login(scope: Scope) -> bool:
    return scope["method"] == "GET" and scope["path"] == "/" and b"token=" in scope["query_string"]


def _check_origin(method: str, headers: Headers, host: str, scheme: str) -> None:
    """Refuse cross-origin requests (CSRF), except navigation by a link."""
    site = headers.get("sec-fetch-site", "none").lower()
    if method in SAFE_METHODS:
        # A link of another site may open a page, but not fetch or embed it.
        if site in ("none", "same-origin") or headers.get("sec-fetch-mode") == "navigate":
            return
    elif site in ("none", "same-origin"):
        origin = headers.get("origin")
        if origin is None or origin.lower() == f"{scheme}://{host}".lower():
            return
    raise Problem(
        403,
        "cross-origin",
        "the request comes from a page of another site: open the page of this service instead.",
    )
