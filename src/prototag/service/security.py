"""Who may ask: the host that is named, where a request comes from, the token, and the headers.

Loopback is open to whoever uses this computer; any other address needs a token. A page of another
site may neither change nor read anything: its requests name another origin, or, where it gave its
own name our address (DNS rebinding), another host.
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
from prototag.service.problem_details import Problem, of

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
WILDCARDS = frozenset({"0.0.0.0", "::", ""})
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})  # methods that change nothing
COOKIE = "prototag_token"
MIN_TOKEN = 16  # characters
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


def is_loopback(host: str) -> bool:
    """Whether a name or an address can only mean this computer."""
    if host.lower() in LOOPBACK:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def read_token(text: str) -> str:
    """A token as a file holds it, checked."""
    token = text.strip()
    if len(token) < MIN_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise InputError(
            f"a token of {len(token)} characters was given: give {MIN_TOKEN} or more letters, "
            "digits and signs without spaces, such as `openssl rand -hex 32` prints."
        )
    return token


@dataclass(frozen=True)
class Rules:
    """Who may ask.

    Parameters
    ----------
    host : str
        The address that is listened on.
    token : str or None
        What every request must know.
    names : iterable of str
        Further names that the service is reached by.
    """

    host: str = "127.0.0.1"
    token: str | None = field(default=None, repr=False)
    names: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if self.token is not None:
            read_token(self.token)
        elif not is_loopback(self.host):
            raise InputError(
                f"the address {self.host!r} can be reached from other computers, and no token was "
                "given: give one (--token-file), or listen on 127.0.0.1."
            )

    @classmethod
    def of(cls, host: str, token: str | None, names: Iterable[str] = ()) -> Rules:
        return cls(host, token, frozenset(name.lower().rstrip(".") for name in names))

    def knows(self, host: str) -> bool:
        """Whether a Host header names us; no stranger can make a browser send one that does."""
        name = _name(host)
        if name is None:
            return False
        if name in LOOPBACK or name in self.names or name == self.host.lower():
            return True
        # Any address may be ours where all are listened on. Names are not: they can be rebound.
        return self.host in WILDCARDS and _is_address(name)

    @property
    def cookie(self) -> str:
        """What a browser keeps: proof of the token, not the token."""
        return hmac.new((self.token or "").encode(), b"cookie", hashlib.sha256).hexdigest()

    def accepts(self, headers: Headers) -> bool:
        """Whether a request knows the token, if there is one."""
        if self.token is None:
            return True
        kind, _, given = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return _same(given.strip(), self.token)
        if kind.lower() == "basic":  # Label Studio knows no other way
            return _same(_password(given.strip()), self.token)
        return _same(_cookie(headers.get("cookie", "")), self.cookie)


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), expected.encode())


def _password(given: str) -> str:
    try:
        return base64.b64decode(given, validate=True).decode().partition(":")[2]
    except (binascii.Error, ValueError):
        return ""


def _cookie(given: str) -> str:
    try:
        found = SimpleCookie(given).get(COOKIE)
    except CookieError:
        return ""
    return found.value if found else ""


def _name(host: str) -> str | None:
    """The name in a Host header, without its port; None where it is none."""
    if not host or any(c in host for c in "/\\@?# \t,") or len(host) > 255:
        return None
    try:
        parts = urlsplit(f"//{host}")
        _ = parts.port  # a ValueError where it is no number
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
    """Answers for the application what it should not see, and adds the headers to every answer."""

    def __init__(self, app: ASGIApp, rules: Rules) -> None:
        self.app = app
        self.rules = rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # there are no websockets here
            await send({"type": "websocket.close", "code": 1008})
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                if "cache-control" not in headers:
                    headers["Cache-Control"] = "no-store"
            await send(message)

        try:
            self.check(scope)
            entered = self.enter(scope)
        except Problem as problem:
            await problem.answer()(scope, receive, guarded)
            return
        except Exception as error:  # whatever odd bytes in headers make a parser raise
            await of(error).answer()(scope, receive, guarded)
            return
        await (entered or self.app)(scope, receive, guarded)

    def check(self, scope: Scope) -> None:
        """Refuse a request by its headers alone."""
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self.rules.knows(hosts[0]):
            raise Problem(
                421,
                "wrong-host",
                "this service is not known by the name in the Host header: ask for it by the "
                "address that it printed when it started, or start it with --name NAME.",
            )
        _check_origin(scope["method"], headers, hosts[0], scope["scheme"])
        if not self.rules.accepts(headers) and not _is_entry(scope):
            raise Problem(
                401,
                "no-token",
                "a token is needed: send it as `Authorization: Bearer TOKEN`, or open "
                "/?token=TOKEN once in a browser.",
                headers={"WWW-Authenticate": 'Bearer realm="prototag"'},
            )

    def enter(self, scope: Scope) -> Response | None:
        """Let a browser in that opens ``/?token=...``: it keeps a cookie, and forgets the token."""
        if self.rules.token is None or not _is_entry(scope):
            return None
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if not _same(given, self.rules.token):
            raise Problem(401, "wrong-token", "the token is not the one of this service.")
        answer = RedirectResponse("/", 303)
        answer.set_cookie(COOKIE, self.rules.cookie, httponly=True, samesite="strict", path="/")
        return answer


def _is_entry(scope: Scope) -> bool:
    return scope["method"] == "GET" and scope["path"] == "/" and b"token=" in scope["query_string"]


def _check_origin(method: str, headers: Headers, host: str, scheme: str) -> None:
    """No page of another site may change anything, nor load what it could look at."""
    site = headers.get("sec-fetch-site", "none").lower()
    if method in SAFE:
        # A link from elsewhere may open a page here; it may not fetch or embed what is here.
        if site in ("none", "same-origin") or headers.get("sec-fetch-mode") == "navigate":
            return
    elif site in ("none", "same-origin"):
        origin = headers.get("origin")
        if origin is None or origin.lower() == f"{scheme}://{host}".lower():
            return
    raise Problem(
        403,
        "other-site",
        "the request comes from a page of another site, which may not use this service.",
    )
