"""Files from the few hosts that we may ask: this computer, and those that the start named."""

from __future__ import annotations

from collections.abc import Collection
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

from prototag.errors import ImageError
from prototag.service.security import is_loopback

SECONDS = 20.0


class _NoRedirects(HTTPRedirectHandler):
    """A redirect could lead anywhere, with our token."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


OPENER = build_opener(ProxyHandler({}), _NoRedirects)  # no proxy either


def may_ask(url: str, allowed: Collection[str]) -> bool:
    """Whether a host may be asked; its name is compared as text, whatever it resolves to."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        _ = parts.port
    except ValueError:
        return False
    if parts.scheme not in ("http", "https") or parts.username is not None:
        return False
    return bool(host) and (is_loopback(host) or host.lower() in allowed)


def fetch(url: str, allowed: Collection[str], headers: dict[str, str], most: int) -> bytes:
    """The bytes at an address, or an :class:`ImageError` that says why there are none."""
    if not may_ask(url, allowed):
        raise ImageError(
            "lies on a host that this service may not ask: start it with --fetch HOST to allow it"
        )
    try:
        with OPENER.open(Request(url, headers=headers), timeout=SECONDS) as answer:
            data: bytes = answer.read(most + 1)
    except HTTPError as error:
        error.close()
        raise ImageError(f"could not be fetched: its host answers {error.code}") from None
    except (URLError, HTTPException, OSError, ValueError):
        raise ImageError("could not be fetched: its host does not answer") from None
    if len(data) > most:
        raise ImageError(f"has more than {most:,} bytes, which is the limit")
    return data
