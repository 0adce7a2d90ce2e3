"""What is remembered of Label Studio: where its projects live, and what its annotations were of.

With a library it is kept there, so that it outlives this process: Label Studio says where it lives
when a model is added or asked, not when an annotation is made.
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

HOMES = "label-studio homes"  # in the table of settings
OF = "label-studio annotation"
MAX_PROJECTS = 1000


class Home(NamedTuple):
    """Where a project lives."""

    hostname: str
    token: str


class Memory:
    """Of one service.

    Parameters
    ----------
    library : Library, optional
        Keeps it; what is said is forgotten with the process where there is none.
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
        """A project lives there from now on."""
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
        """By the name that it was set up with (``1.1794798044``), or by its number."""
        with self._lock:
            found = self._homes.get(project)
            if found is None and "." not in project:
                every = reversed(self._homes.items())
                found = next((h for name, h in every if name.partition(".")[0] == project), None)
        return found

    def keep_picture(self, project: str, annotation: int, picture: int) -> None:
        """Which picture an annotation is of: when it is deleted, its number alone is told."""
        self._set(f"{OF} {project} {annotation}", str(picture))

    def picture(self, project: str, annotation: int) -> int | None:
        found = self._library.setting(f"{OF} {project} {annotation}", "") if self._library else ""
        return int(found) if found.isdigit() else None

    def _set(self, name: str, text: str) -> None:
        if self._library is not None:
            with suppress(LibraryError):  # one that can only be read
                self._library.set_setting(name, text)


def name_of(project: Any) -> str:
    """How Label Studio calls a project that a webhook describes, where it asks for predictions."""
    number = project.get("id")
    created = project.get("created_at")
    with suppress(TypeError, ValueError):
        return f"{number}.{int(datetime.fromisoformat(created).timestamp())}"
    return str(number)
