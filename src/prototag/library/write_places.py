"""Where a library writes accepted tags, by kind of file: a setting of the library."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from prototag.errors import InputError
from prototag.library.database import Store
from prototag.metadata.find_files import RAW
from prototag.metadata.jpeg_writer import is_jpeg

SETTING = "write_places"
Place = Literal["sidecar", "file", "nowhere"]
PLACES: tuple[str, ...] = get_args(Place)


class WritePlaces(NamedTuple):
    """Where accepted tags are written."""

    jpeg: str = "sidecar"  # one of PLACES
    raw: str = "sidecar"  # or "nowhere": tags are written into JPEG files only
    other: str = "sidecar"
    iptc: bool = False  # write IPTC keywords also into JPEG files that have none

    def of(self, image: Path) -> str:
        """Return the place for the tags of a picture."""
        if image.suffix.lower() in RAW:
            return self.raw
        return self.jpeg if is_jpeg(image) else self.other


def write_places(store: Store) -> WritePlaces:
    """Return the setting of a library."""
    stored = json.loads(store.setting(SETTING, "{}"))
    return WritePlaces(**{name: stored[name] for name in WritePlaces._fields if name in stored})


def set_write_places(store: Store, **changes: str | bool | None) -> WritePlaces:
    """Change the setting; None leaves a value as it is."""
    known = write_places(store)._asdict()
    for name, value in changes.items():
        if value is None:
            continue
        allowed = PLACES if name == "jpeg" else ("sidecar", "nowhere")
        if name != "iptc" and value not in allowed:
            raise InputError(f"{name}={value!r}: give {', '.join(allowed)}.")
        known[name] = value
    places = WritePlaces(**known)
    store.set_setting(SETTING, json.dumps(places._asdict()))
    return places
