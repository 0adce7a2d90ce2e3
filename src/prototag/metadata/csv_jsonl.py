"""Reader of lists of pictures with tags: CSV, TSV, JSON lines and plain lists of paths.

CSV and JSON lines are those of Hugging Face's imagefolder. A file named ``.json`` is a data set of
COCO or FiftyOne (:mod:`prototag.metadata.dataset_json`).

A row names a file (``file_name``, ``file``, ``filename``, ``path`` or ``image``) and has its tags
in a column ``tags``, ``keywords``, ``labels``, ``label`` or ``tag``: a list of strings, also of
lists, the same list as JSON or as Python and NumPy print it in a string, or one string separated by
``;``, or by ``,`` if it has no ``;``. A column ``objects`` holds the ``categories`` of detected
objects. Without such a column every other column is a tag with values 0 or 1. A column ``split``
may name the part of a data set. Several rows may have the same file.
"""

from __future__ import annotations

import ast
import codecs
import csv
import io
import json
import os
import re
import reprlib
import unicodedata
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from prototag.errors import MetadataError
from prototag.metadata import dataset_json
from prototag.storage.sqlite_lock_guard import open_for_reading

MAX_BYTES = 1 << 30
FILE_COLUMNS = ("file_name", "file", "filename", "path", "image")
TAG_COLUMNS = ("tags", "keywords", "labels", "label", "tag", "objects")
OBJECT_LABELS = ("categories", "category", "labels", "label")  # members of ``objects``
MAX_NESTED_LISTS = 8
SPLIT_COLUMN = "split"
FOLDER_LISTS = ("metadata.jsonl", "metadata.csv")  # in a folder of pictures
JSON_LINES_SUFFIXES = (".jsonl", ".ndjson")
TABLE_SUFFIXES = (".csv", ".tsv")
DATASET_SUFFIX = ".json"  # COCO or FiftyOne
_PYTHON_TEXT = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""", re.DOTALL)
_BOOLEANS = {"": 0, "0": 0, "0.0": 0, "false": 0, "1": 1, "1.0": 1, "true": 1}

Record = dict[str, object]  # one line by the names of its columns


class Row(NamedTuple):
    """One line of a list: a file and its tags."""

    file: str  # as written, relative to the list
    tags: list[str]
    line: int
    split: str | None = None  # as written; None without such a column


class Columns(NamedTuple):
    """Names of the columns of a list."""

    file: str
    tags: str | None
    marks: list[str]  # columns that are tags, with values 0 or 1
    split: str | None


def read(
    path: str | os.PathLike[str], *, column: str | None = None, encoding: str = "utf-8"
) -> Iterator[Row]:
    """Read the rows of a list, by suffix: JSON lines, a table, or paths.

    Parameters
    ----------
    path : path-like
        At most ``MAX_BYTES`` long.
    column : str, optional
        Name of the tag column, if it is not a standard name.
    encoding : str
        Encoding of the file. UTF-16 is detected by its byte order mark.

    Raises
    ------
    MetadataError
        If the list is malformed; the message names file, line and reason.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    try:
        with _opened(path, encoding) as file:
            lines = _without_nul(path, file)
            if suffix == DATASET_SUFFIX:
                yield from (
                    Row(name, _tidy(tags), number)
                    for name, tags, number in dataset_json.read(path, "".join(lines))
                )
                return
            if suffix not in JSON_LINES_SUFFIXES + TABLE_SUFFIXES:
                yield from _paths(lines)
                return
            records = (
                _json(path, lines) if suffix in JSON_LINES_SUFFIXES else _table(path, lines, column)
            )
            yield from _rows(path, records, column)
    except UnicodeError as error:
        reason = getattr(error, "reason", error)
        name = encoding.upper()
        raise MetadataError(f"{path} is not {name} text ({reason}): save it as UTF-8.") from None
    except OSError as error:
        raise MetadataError(f"{path} cannot be read: {error.strerror or error}") from None


def split_tags(text: str) -> list[str]:
    """Split tags in one string: separated by ``;``, or by ``,`` without a ``;``."""
    return _tidy(text.split(";" if ";" in text else ","))


def _tidy(tags: list[str]) -> list[str]:
    return [unicodedata.normalize("NFC", tag.strip()) for tag in tags if tag.strip()]


def _opened(path: Path, encoding: str) -> io.TextIOWrapper:
    if not path.is_file():
        raise MetadataError(f"{path} is not a file: give a list of pictures or a folder.")
    if path.stat().st_size > MAX_BYTES:
        raise MetadataError(f"{path} is larger than {MAX_BYTES:,} bytes, the limit for a list.")
    if encoding.lower() in ("utf-8", "utf8"):
        with open_for_reading(path) as file:
            head = file.read(2)
        encoding = "utf-16" if head in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "utf-8-sig"
    try:
        # CSV fields may hold line breaks, so that the reader must see them unchanged.
        return io.TextIOWrapper(open_for_reading(path), encoding=encoding, newline="")
    except LookupError:
        raise MetadataError(
            f"encoding={encoding!r} is not known: utf-8, utf-16 or latin-1 are, for example."
        ) from None


def _without_nul(path: Path, file: io.TextIOWrapper) -> Iterator[str]:
    for number, line in enumerate(file, 1):
        if "\0" in line:
            raise MetadataError(
                f"{path}, line {number} has NUL bytes: it is UTF-16 without a byte order mark, or "
                "not text. Save it as UTF-8."
            )
        yield line


def _paths(lines: Iterator[str]) -> Iterator[Row]:
    for number, line in enumerate(lines, 1):
        if name := line.strip("\r\n"):
            yield Row(name, [], number)


def _json(path: Path, lines: Iterator[str]) -> Iterator[tuple[int, Record]]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise MetadataError(f"{where} is not JSON: {_reason(error)}") from None
        if not isinstance(record, dict):
            raise MetadataError(f"{where} holds {type(record).__name__}, not an object {{...}}.")
        yield number, record


def _table(path: Path, lines: Iterator[str], column: str | None) -> Iterator[tuple[int, Record]]:
    first = next(lines, "")
    if path.suffix.lower() == ".tsv":
        delimiter = "\t"
    else:  # spreadsheets write semicolons in locales with a decimal comma
        header = re.sub(r'"[^"]*"', "", first)
        delimiter = max(",;\t", key=header.count)
    cells = csv.reader(chain([first], lines), delimiter=delimiter, strict=True)
    try:
        names = [name.strip() for name in next(cells, [])]
        if not names:
            raise MetadataError(f"{path} is empty: its first line names the columns.")
        _check_unique(path, names, column)
        for row in cells:
            if not any(row):
                continue
            if len(row) < len(names) or any(row[len(names) :]):
                raise MetadataError(
                    f"{path}, line {cells.line_num} has {len(row)} columns, the first line "
                    f"{len(names)}: put quotes around tags that hold {delimiter!r}."
                )
            yield cells.line_num, dict(zip(names, row, strict=False))
    except csv.Error as error:
        raise MetadataError(f"{path}, line {cells.line_num}: {error}") from None


def _check_unique(path: Path, names: list[str], column: str | None) -> None:
    """Refuse duplicate names among the columns that are read."""
    columns = _columns(f"{path}", names, column)
    times = Counter(names)
    used = (columns.file, columns.tags, columns.split, *columns.marks)
    if wrong := [name for name in used if name is not None and times[name] > 1]:
        raise MetadataError(f"{path}: two columns are named {wrong[0]!r}: rename one.")


def _rows(path: Path, records: Iterator[tuple[int, Record]], column: str | None) -> Iterator[Row]:
    names: list[str] | None = None
    for number, record in records:
        where = f"{path}, line {number}"
        if names != [*record]:  # once for a table
            names = [*record]
            columns = _columns(where, names, column)
        file = record[columns.file]
        if not isinstance(file, str) or not file.strip():
            raise MetadataError(
                f"{where}: {columns.file!r} is {reprlib.repr(file)}, not the name of a file."
            )
        if columns.tags is None:
            tags = [name for name in columns.marks if _is_marked(where, record, name)]
        else:
            tags = _tags(where, columns.tags, record[columns.tags])
        split = None if columns.split is None else record[columns.split]
        yield Row(file, tags, number, _word(split))


def _columns(where: str, names: list[str], column: str | None) -> Columns:
    lower = {name.lower(): name for name in reversed(names)}
    file = next((lower[name] for name in FILE_COLUMNS if name in lower), None)
    if file is None:
        raise MetadataError(f"{where} names no file: 'file_name' is missing among {_shown(names)}.")
    tags = next((lower[name] for name in TAG_COLUMNS if name in lower), None)
    if column is not None:
        tags = column
        if column not in names:
            raise MetadataError(
                f"{where} has no tags: {column!r} is missing among {_shown(names)}."
            )
    split = lower.get(SPLIT_COLUMN)
    marks = [name for name in names if name and name not in (file, split)]
    return Columns(file, tags, [] if tags else marks, split)


def _tags(where: str, name: str, value: object) -> list[str]:
    if isinstance(value, str) and value.lstrip().startswith("["):
        value = _parse_list(where, name, value)
    if isinstance(value, dict):
        value = next((value[key] for key in OBJECT_LABELS if key in value), value)
    if value is None:
        return []
    if isinstance(value, str):
        return split_tags(value)
    if isinstance(value, list):
        tags = _flatten(value)
        if all(isinstance(tag, str) for tag in tags):
            return list(dict.fromkeys(_tidy(tags)))
    raise MetadataError(
        f"{where}: {name!r} is {reprlib.repr(value)}; a list of strings is allowed, or one string "
        "separated by ';' or ','."
    )


def _parse_list(where: str, name: str, text: str) -> object:
    """Parse a list in a string: JSON, or what pandas and NumPy print."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        inside = text.strip()[1:-1]
        literals = _PYTHON_TEXT.findall(inside)
        if text.rstrip().endswith("]") and not _PYTHON_TEXT.sub("", inside).strip(" ,\t\r\n"):
            with suppress(ValueError, SyntaxError):
                return [ast.literal_eval(literal) for literal in literals]
        raise MetadataError(
            f"{where}: {name!r} begins with '[' and is no list in JSON ({_reason(error)}) or "
            'Python: write ["sea", "sky"], or sea; sky.'
        ) from None


def _flatten(value: list[object]) -> list[Any]:
    """Return the members of nested lists, up to a depth."""
    for _ in range(MAX_NESTED_LISTS):
        if not any(isinstance(one, list) for one in value):
            break
        value = list(chain.from_iterable(o if isinstance(o, list) else [o] for o in value))
    return value


def _is_marked(where: str, record: Record, name: str) -> bool:
    value = record[name]
    plain = value if isinstance(value, str | int | float) else "" if value is None else "?"
    mark = _BOOLEANS.get(str(plain).strip().lower())
    if mark is None:
        raise MetadataError(
            f"{where} has no tags: 'tags' is missing among {_shown([*record])}, and {name!r} is "
            f"{reprlib.repr(value)}, where a column for each tag holds 0 or 1."
        )
    return bool(mark)


def _word(value: object) -> str | None:
    if value is None:
        return None
    return (value.strip() if isinstance(value, str) else reprlib.repr(value)) or None


def _shown(names: list[str]) -> str:
    return ", ".join(repr(name) for name in names[:10]) or "none"


def _reason(error: Exception) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)
