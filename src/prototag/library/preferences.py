"""Preferences of the people who use a library: file types, sources of tags, precision, language.

They are stored in the library, and scans, review batches and suggestions follow them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import NamedTuple

from prototag.errors import InputError
from prototag.knowledge.words import check_language
from prototag.library.database import Store
from prototag.metadata.collect_tags import KINDS, parse_kinds
from prototag.metadata.find_files import PICTURES, RAW

AUTO = "auto"  # sources of tags: those that the first scan with tags found
SKIPPED_TYPES = "skipped_file_types"  # names of the settings in the library
PRECISION = "precision"
LANGUAGE = "language"
MIN_PRECISION = 0.5
MAX_PRECISION = 0.99
_NAMED_TYPES = {
    "JPEG": {".jpg", ".jpeg", ".jpe", ".jfif"},
    "HEIF": {".heic", ".heif", ".hif", ".avif"},
    "PNG": {".png"},
    "TIFF": {".tif", ".tiff"},
    "WebP": {".webp"},
    "GIF and BMP": {".gif", ".bmp"},
}
FILE_TYPES = {**_NAMED_TYPES, "camera raw": set(PICTURES & RAW)}  # suffixes by name


class Preferences(NamedTuple):
    """Preferences of one library."""

    file_types: list[str]  # that are scanned, from FILE_TYPES
    sources: list[str]  # of tags that are read, from KINDS; empty for those that are found
    precision: float | None  # wanted of preselected pictures; None for the default
    language: str | None  # of general words; None for that of browser or system


def read(store: Store) -> Preferences:
    """Return the preferences of a library."""
    skipped = _skipped_types(store)
    with store.read() as conn:
        kinds = [row[0] for row in conn.execute("SELECT kind FROM roots ORDER BY id")]
    used = {kind for one in kinds if one != AUTO for kind in one.split(",")}
    return Preferences(
        [name for name in FILE_TYPES if name not in skipped],
        [] if AUTO in kinds else [kind for kind in KINDS if kind in used],
        precision(store),
        store.setting(LANGUAGE, "") or None,
    )


def precision(store: Store) -> float | None:
    """Return the precision that is wanted of preselected pictures; None for the default."""
    text = store.setting(PRECISION, "")
    return float(text) if text else None


def set_precision(store: Store, value: float | None) -> None:
    """Set the precision that is wanted of preselected pictures; None is the default."""
    if value is not None and not MIN_PRECISION <= value <= MAX_PRECISION:
        raise InputError(
            f"precision={value}: give a number from {MIN_PRECISION} to {MAX_PRECISION}, or none "
            "for the default."
        )
    store.set_setting(PRECISION, "" if value is None else repr(value))


def set_language(store: Store, language: str | None) -> None:
    """Set the language of general words; None is that of browser or system."""
    if language is not None:
        check_language(language)
    store.set_setting(LANGUAGE, language or "")


def set_file_types(store: Store, names: Iterable[str]) -> None:
    """Set the kinds of files that scans look for.

    Pictures of other kinds count as missing at the next scan; their labels and decisions stay.
    """
    wanted = list(names)
    unknown = [name for name in wanted if name not in FILE_TYPES]
    if unknown or not wanted:
        raise InputError(f"file_types={wanted}: give some of {', '.join(FILE_TYPES)}.")
    skipped = [name for name in FILE_TYPES if name not in wanted]
    store.set_setting(SKIPPED_TYPES, ",".join(skipped))


def set_sources(store: Store, kinds: Iterable[str]) -> None:
    """Set the kinds of files that tags are read from; none is what the next scan finds."""
    wanted = list(kinds)
    stored = AUTO
    if wanted:
        parse_kinds(wanted)
        stored = ",".join(sorted(wanted))
    with store.write() as conn:
        conn.execute("UPDATE roots SET kind = ?", (stored,))
        conn.execute("UPDATE files SET tags_stamp = NULL")  # the next scan reads all tags again


def is_scanned(path: os.PathLike[str], skipped: frozenset[str]) -> bool:
    """Return whether a file is of a kind that is scanned."""
    return os.path.splitext(path)[1].lower() not in skipped


def skipped_suffixes(store: Store) -> frozenset[str]:
    """Return the suffixes of files that scans ignore."""
    return frozenset(suffix for name in _skipped_types(store) for suffix in FILE_TYPES[name])


def _skipped_types(store: Store) -> set[str]:
    """Return the stored kinds of files; later versions may know others."""
    return set(store.setting(SKIPPED_TYPES, "").split(",")) & FILE_TYPES.keys()
