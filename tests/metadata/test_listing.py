"""Lists of pictures with tags."""

from __future__ import annotations

import csv
import json

import pytest

from prototag.errors import MetadataError
from prototag.metadata import listing


def rows(path, **options):
    return [(row.file, row.tags) for row in listing.read(path, **options)]


EXPECTED = [("a.jpg", ["cat", "New York, NY"]), ("b/c.png", []), ("a.jpg", ["dog"])]


def test_json_lines(tmp_path):
    path = tmp_path / "metadata.jsonl"
    records = [
        {"file_name": "a.jpg", "tags": ["cat", "New York, NY"], "other": {"x": 1}},
        {"file_name": "b/c.png", "tags": None},
        {"file_name": "a.jpg", "tags": "dog"},
    ]
    path.write_text("\n\n".join(json.dumps(r) for r in records))
    assert rows(path) == EXPECTED


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_tables(tmp_path, delimiter, encoding):
    path = tmp_path / "list.csv"
    with open(path, "w", newline="", encoding=encoding) as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(["id, or so", "File_Name", "Keywords"])
        writer.writerows([[1, "a.jpg", "cat; New York, NY;"], [2, "b/c.png", ""], []])
        writer.writerow([3, "a.jpg", "dog"])
    assert rows(path) == EXPECTED


def test_columns(tmp_path):
    path = tmp_path / "list.csv"
    path.write_text('path,label,mine\nx.jpg,"a","b, c"\n')
    assert rows(path) == [("x.jpg", ["a"])]
    assert rows(path, column="mine") == [("x.jpg", ["b", "c"])]
    with pytest.raises(MetadataError, match="'his' is missing among 'path', 'label', 'mine'"):
        rows(path, column="his")


def test_plain_paths(tmp_path):
    path = tmp_path / "list.txt"
    path.write_bytes("a b.jpg\r\n\nZoë.jpg".encode())
    assert rows(path) == [("a b.jpg", None), ("Zoë.jpg", None)]


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.jsonl", b'{"file_name": "x"', r"line 1 is not JSON"),
        ("a.jsonl", b"[" * 100_000, r"line 1 is not JSON"),
        ("a.jsonl", b'{"file_name": "x", "tags": []}\n[1]', r"line 2 holds list, not an object"),
        ("a.jsonl", b'{"tags": []}', r"line 1 names no file: 'file_name' is missing"),
        ("a.jsonl", b'{"file_name": "x", "text": "t"}', r"has no tags: 'tags' is missing"),
        ("a.jsonl", b'{"file_name": "x", "tags": [1]}', r"a list of strings is allowed"),
        ("a.jsonl", b'{"file_name": 3, "tags": []}', r"is 3, not the name of a file"),
        ("a.jsonl", b"\xff\xfe\xff", r"is not UTF-8 text"),
        ("a.csv", b"", r"is empty: its first line names the columns"),
        ("a.csv", b"file_name,tags\nx", r"line 2 has 1 columns, the first line 2"),
        ("a.csv", b'file_name,tags\nx,"a\n', r"line 2: unexpected end of data"),
        ("a.csv", b"file_name,tags\nx," + b"a" * (listing.MAX_FIELD + 1), r"field larger than"),
        ("a.csv", b"\xe9,tags\n", r"is not UTF-8 text"),
    ],
)
def test_malformed(tmp_path, name, data, message):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(MetadataError, match=message):
        rows(tmp_path / name)


def test_no_file(tmp_path):
    with pytest.raises(MetadataError, match="is not a file: give a list of pictures or a folder"):
        rows(tmp_path)
