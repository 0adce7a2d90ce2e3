"""State of the Label Studio backend: addresses of projects, and pictures of annotations.

A library stores the state, so that it survives a restart: Label Studio sends its address with
``setup``, but not with the webhook of an annotation.
"""

from __future__ import annotations

import json
import threading
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from prototag.errors import LibraryError

if TYPE_CHECKING:
    from prototag.library.library import Library

HOMES = "label-studio homes"  # keys in the table of settings
ANNOTATION = "label-studio annotation"
MAX_PROJECTS = 1000


class Home(NamedTuple):
    """Address and token of the Label Studio that holds a project."""

    hostname: str
    token: str


class Memory:
    """Addresses of projects and pictures of annotations.

    Parameters
    ----------
    library : Library, optional
        Stores the state; without a library it is lost with the process.
    """

    def __init__(self, library: Library | None = None) -> None:
        self._library = library
        self._lock = threading.Lock()
        self._homes: dict[str, Home] = {}
        if library is not None:
            with suppress(ValueError, TypeError, AttributeError):  # written by another version
                kept = json.loads(library.setting(HOMES, "{}"))
                self._homes = {str(name): Home(*map(str, home)) for name, home in kept.items()}

    def keep_home(self, project: str, home: Home) -> None:
        """Store the address of a project."""
        with self._lock:
            if self._homes.get(project) == home:
                return
            self._homes.pop(project, None)
            self._homes[project] = home
            while len(self._homes) > MAX_PROJECTS:
                del self._homes[next(iter(self._homes))]
            text = json.dumps(self._homes)
        self._set(HOMES, text)

    def home(self, project: str) -> Home | None:
        """Return the address of a project, by its name (``1.1794798044``) or its number."""
        with self._lock:
            home = self._homes.get(project)
            if home is None and "." not in project:
                latest_first = reversed(self._homes.items())
                home = next(
                    (one for name, one in latest_first if name.partition(".")[0] == project), None
                )
        return home

    def keep_picture(self, project: str, annotation: int, picture: int) -> None:
        """Store the picture of an annotation, because a deletion names only the annotation."""
        self._set(f"{ANNOTATION} {project} {annotation}", str(picture))

    def picture(self, project: str, annotation: int) -> int | None:
        """Return the picture of an annotation, if it is known."""
        if self._library is None:
            return None
        number = self._library.setting(f"{ANNOTATION} {project} {annotation}", "")
        return int(number) if number.isdigit() else None

    def _set(self, name: str, text: str) -> None:
        if self._library is not None:
            with suppress(LibraryError):  # the library is read-only
                self._library.set_setting(name, text)


def name_of(project: Any) -> str:
    """Return the project name of a webhook as Label Studio writes it in prediction requests."""
    number = project.get("id")
    created = project.get("created_at")
    with suppress(TypeError, ValueError):
        return f"{number}.{int(datetime.fromisoformat(created).timestamp())}"
    return str(number)
