"""Lists of pictures with tags: CSV, TSV and JSON lines, as Hugging Face's imagefolder has them, and
plain lists of paths.

A row names a file (``file_name``, ``file``, ``filename``, ``path`` or ``image``) and has its tags
in a column ``tags``, ``keywords``, ``labels``, ``label`` or ``tag``: a list of strings, or one
string separated by ``;``, or by ``,`` where it has no ``;``. Several rows may speak of one file.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from prototag.errors import MetadataError

MAX_BYTES = 1 << 30
MAX_FIELD = 1 << 20  # characters of one CSV field
FILES = ("file_name", "file", "filename", "path", "image")
TAGS = ("tags", "keywords", "labels", "label", "tag")
STANDARD = ("metadata.jsonl", "metadata.csv")  # what a folder may carry
_LINES = (".jsonl", ".ndjson")
_TABLES = (".csv", ".tsv")


class Row(NamedTuple):
    file: str
    tags: list[str] | None  # None in a plain list of paths
    line: int


def read(path: str | os.PathLike[str], *, column: str | None = None) -> Iterator[Row]:
    """The rows of a list; its suffix tells its form, ``column`` names another column of tags.

    Raises
    ------
    MetadataError
        The file, the line and what is wrong there.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    with _opened(path) as file:
        try:
            if suffix in _LINES:
                yield from _json_lines(path, file, column)
            elif suffix in _TABLES:
                yield from _table(path, file, column)
            else:
                yield from _paths(file)
        except UnicodeDecodeError as error:
            raise MetadataError(
                f"{path} is not UTF-8 text ({error.reason}): save it as UTF-8."
            ) from None


def split(text: str) -> list[str]:
    """Tags in one string: separated by ``;``, or by ``,`` where there is no ``;``."""
    return [piece.strip() for piece in text.split(";" if ";" in text else ",") if piece.strip()]


def _opened(path: Path) -> io.TextIOWrapper:
    try:
        if not path.is_file():
            raise MetadataError(f"{path} is not a file: give a list of pictures or a folder.")
        if path.stat().st_size > MAX_BYTES:
            raise MetadataError(f"{path} is larger than {MAX_BYTES:,} bytes, the limit for a list.")
        with open(path, "rb") as file:
            head = file.read(4)
        is_16 = head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        # CSV fields may hold line breaks, so that the reader must see them unchanged.
        return open(path, encoding="utf-16" if is_16 else "utf-8-sig", newline="")
    except OSError as error:
        raise MetadataError(f"{path} cannot be read: {error.strerror or error}") from None


def _paths(file: io.TextIOWrapper) -> Iterator[Row]:
    for number, line in enumerate(file, 1):
        if name := line.strip("\r\n"):
            yield Row(name, None, number)


def _json_lines(path: Path, file: io.TextIOWrapper, column: str | None) -> Iterator[Row]:
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            reason = str(error) if isinstance(error, ValueError) else "nested too deeply"
            raise MetadataError(f"{where} is not JSON: {reason}") from None
        if not isinstance(record, dict):
            raise MetadataError(f"{where} holds {type(record).__name__}, not an object {{...}}.")
        name, tags = _columns(where, [*record], column)
        if not isinstance(record[name], str):
            raise MetadataError(f"{where}: {name!r} is {record[name]!r}, not the name of a file.")
        yield Row(record[name], _tags(where, tags, record[tags]), number)


def _tags(where: str, name: str, value: Any) -> list[str]:
    if value is None:
        return []
    if isinstance(value, str):
        return split(value)
    if isinstance(value, list) and all(isinstance(tag, str) for tag in value):
        return value
    raise MetadataError(
        f"{where}: {name!r} is {str(value)[:80]!r}; a list of strings is allowed, or one string "
        "separated by ';' or ','."
    )


def _table(path: Path, file: io.TextIOWrapper, column: str | None) -> Iterator[Row]:
    first = file.readline()
    file.seek(0)
    if path.suffix.lower() == ".tsv":
        delimiter = "\t"
    else:  # spreadsheets of half of Europe write semicolons
        header = re.sub(r'"[^"]*"', "", first)
        delimiter = max(",;\t", key=header.count)
    limit = csv.field_size_limit(MAX_FIELD)
    try:
        rows = csv.reader(file, delimiter=delimiter, strict=True)
        header_row = [name.strip() for name in next(rows, [])]
        if not header_row:
            raise MetadataError(f"{path} is empty: its first line names the columns.")
        name, tags = (header_row.index(c) for c in _columns(f"{path}", header_row, column))
        for row in rows:
            if not any(row):
                continue
            if len(row) <= max(name, tags):
                raise MetadataError(
                    f"{path}, line {rows.line_num} has {len(row)} columns, the first line "
                    f"{len(header_row)}."
                )
            yield Row(row[name], split(row[tags]), rows.line_num)
    except csv.Error as error:
        raise MetadataError(f"{path}, line {rows.line_num}: {error}") from None
    finally:
        csv.field_size_limit(limit)


def _columns(where: str, names: list[str], column: str | None) -> tuple[str, str]:
    """The column of files and the column of tags."""
    lower = {name.lower(): name for name in reversed(names)}
    shown = ", ".join(repr(name) for name in names[:10]) or "none"
    file = next((lower[name] for name in FILES if name in lower), None)
    if file is None:
        raise MetadataError(f"{where} names no file: 'file_name' is missing among {shown}.")
    tags = column if column in names else None
    if column is None:
        tags = next((lower[name] for name in TAGS if name in lower), None)
    if tags is None:
        wanted = repr(column) if column else "'tags'"
        raise MetadataError(f"{where} has no tags: {wanted} is missing among {shown}.")
    return file, tags
