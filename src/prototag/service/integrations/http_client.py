"""HTTP client for the allowed hosts: this computer, and those of --fetch."""

from __future__ import annotations

from collections.abc import Collection
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

from prototag.errors import ImageError
from prototag.service.security import is_loopback

TIMEOUT_S = 20.0


class _NoRedirects(HTTPRedirectHandler):
    """Handler that refuses redirects, which could send the token to another host."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


OPENER = build_opener(ProxyHandler({}), _NoRedirects)  # a proxy would see the token, too


def is_allowed(url: str, allowed: Collection[str]) -> bool:
    """Return whether a URL names an allowed host, compared as text without resolving it."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        _ = parts.port
    except ValueError:
        return False
    if parts.scheme not in ("http", "https") or parts.username is not None:
        return False
    return bool(host) and (is_loopback(host) or host.lower() in allowed)


def fetch(url: str, allowed: Collection[str], headers: dict[str, str], max_bytes: int) -> bytes:
    """Fetch a file; raise an :class:`ImageError` with the reason if that fails."""
    if not is_allowed(url, allowed):
        raise ImageError(
            "is on a host that this service may not contact: start it with --fetch HOST to allow it"
        )
    try:
        with OPENER.open(Request(url, headers=headers), timeout=TIMEOUT_S) as response:
            data: bytes = response.read(max_bytes + 1)
    except HTTPError as error:
        error.close()
        raise ImageError(f"could not be fetched: its host returned HTTP {error.code}") from None
    except (URLError, HTTPException, OSError, ValueError):
        raise ImageError("could not be fetched: its host does not respond") from None
    if len(data) > max_bytes:
        raise ImageError(f"has more than {max_bytes:,} bytes, which is the limit")
    return data
