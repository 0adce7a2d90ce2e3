"""Endpoints of the preferences that are stored in the library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prototag.knowledge.words import LANGUAGES
from prototag.library.library import Library
from prototag.library.preferences import FILE_TYPES
from prototag.metadata.collect_tags import KINDS
from prototag.service.routes.operation import Call, Operation


async def settings(call: Call) -> Any:
    return await call.in_thread(_settings, call.service.library)


def _settings(library: Library) -> dict[str, Any]:
    return {
        **library.preferences()._asdict(),
        "all_file_types": list(FILE_TYPES),
        "all_sources": list(KINDS),
        "all_languages": list(LANGUAGES),
        "write_places": library.write_places._asdict(),
    }


async def change(call: Call) -> Any:
    return await call.in_thread(_change, call.service.library, call.body)


def _change(library: Library, body: dict[str, Any]) -> dict[str, Any]:
    setters: dict[str, Callable[[Any], object]] = {
        "file_types": library.set_file_types,
        "sources": library.set_sources,
        "precision": library.set_precision,
        "language": library.set_language,
        "write_places": lambda places: library.set_write_places(**places),
    }
    for name, value in body.items():
        setters[name](value or None if name in ("precision", "language") else value)
    return _settings(library)


OPERATIONS = (
    Operation(
        "GET",
        "/settings",
        "settings",
        "Return the settings of the library, and what they may be.",
        settings,
        "Settings",
    ),
    Operation(
        "POST",
        "/settings",
        "changeSettings",
        "Change settings of the library. File types and sources apply from the next scan on.",
        change,
        "Settings",
        "SettingsRequest",
    ),
)
