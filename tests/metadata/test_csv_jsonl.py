"""Lists of pictures with tags."""

from __future__ import annotations

import csv
import json

import pytest

from prototag.errors import MetadataError
from prototag.metadata import csv_jsonl


def rows(path, **options):
    return [(row.file, row.tags) for row in csv_jsonl.read(path, **options)]


SEA_AND_SKY = [("a.jpg", ["sea", "sky"]), ("b.png", ["sky"]), ("c.jpg", [])]
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
    assert rows(path) == [("a b.jpg", []), ("Zoë.jpg", [])]


@pytest.mark.parametrize(
    "text",
    [
        'file_name,tags\na.jpg,"[""sea"", "" sky ""]"\nb.png,"[""sky""]"\nc.jpg,[]\n',
        "file_name;tags\na.jpg;sea,sky\nb.png;sky\nc.jpg;\n",
        "\ufefffile_name\tkeywords\r\na.jpg\tsea;sky\r\nb.png\tsky;\r\nc.jpg\t\r\n",
        "file_name,sea,sky\na.jpg,1,1\nb.png,0,1\nc.jpg,0,0\n",
        ",image,sea,split,sky\n0,a.jpg,1.0,test,1\n1,b.png,,,True\n2,c.jpg,0,,False\n",
        "file_name,tags,notes,notes\na.jpg,sea;sky,2,wet\nb.png,sky,,\nc.jpg,,,,,\n",
    ],
)
def test_tables_in_many_hands(tmp_path, text):
    path = tmp_path / "metadata.csv"
    path.write_text(text, encoding="utf-8", newline="")
    assert rows(path) == SEA_AND_SKY


def test_one_column_for_each_tag_in_json(tmp_path):
    path = tmp_path / "metadata.jsonl"
    records = [
        {"file_name": "a.jpg", "sea": 1, "sky": True, "split": "train"},
        {"file_name": "b.png", "sea": None, "sky": 1.0},
        {"file_name": "c.jpg"},
    ]
    path.write_text("\n".join(map(json.dumps, records)))
    assert rows(path) == SEA_AND_SKY


def test_splits_and_lines(tmp_path):
    path = tmp_path / "list.csv"
    path.write_text('file,Split,tags\na, Test ,"x\ny"\n\nb,,\n')
    assert list(csv_jsonl.read(path)) == [("a", ["x\ny"], 3, "Test"), ("b", [], 5, None)]


def test_tags_are_composed_and_files_left_as_they_are(tmp_path):
    path = tmp_path / "list.csv"
    path.write_text("file,tags\nZoe\u0308.jpg,cafe\u0301\n", encoding="utf-8")
    assert rows(path) == [("Zoe\u0308.jpg", ["caf\u00e9"])]


def test_encodings(tmp_path):
    path = tmp_path / "list.csv"
    path.write_bytes(b"file,tags\na,caf\xe9\n")
    assert rows(path, encoding="latin-1") == [("a", ["caf\u00e9"])]
    with pytest.raises(MetadataError, match="encoding='elvish' is not known: utf-8"):
        rows(path, encoding="elvish")
    with pytest.raises(MetadataError, match=r"is not UTF-16 text"):
        rows(path, encoding="utf-16")


def test_lists_that_are_far_too_large_are_not_read(tmp_path, monkeypatch):
    path = tmp_path / "list.csv"
    path.write_text("file,tags\na,b\n")
    monkeypatch.setattr(csv_jsonl, "MAX_BYTES", 4)
    with pytest.raises(MetadataError, match="larger than 4 bytes, the limit for a list"):
        rows(path)


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.jsonl", b'{"file_name": "x"', r"line 1 is not JSON"),
        ("a.jsonl", b"[" * 100_000, r"line 1 is not JSON"),
        ("a.jsonl", b'{"file_name": "x", "tags": []}\n[1]', r"line 2 holds list, not an object"),
        ("a.jsonl", b'{"tags": []}', r"line 1 names no file: 'file_name' is missing"),
        (
            "a.jsonl",
            b'{"file_name": "x", "text": "t"}',
            r"has no tags: 'tags' is missing among 'file_name', 'text', and 'text' is 't'",
        ),
        ("a.jsonl", b'{"file_name": "x", "sky": 2}', r"'sky' is 2, where a column for each tag"),
        ("a.jsonl", b'{"file_name": "x", "sky": [1]}', r"'sky' is \[1\], where a column"),
        ("a.jsonl", b'{"file_name": " ", "tags": []}', r"is ' ', not the name of a file"),
        ("a.jsonl", b'{"file_name": "x", "tags": {"y": 1}}', r"'tags' is {'y': 1}; a list of"),
        ("a.jsonl", b'{"file_name": "x", "tags": "[y"}', r"is no list in JSON .*: write \[\"sea"),
        ("a.jsonl", b'{"file_name": "x", "tags": "' + b"[" * 100_000 + b'"}', r"nested too deep"),
        ("a.jsonl", '{"file_name": "x"}'.encode("utf-16-le"), r"line 1 has NUL bytes"),
        ("a.jsonl", b'{"file_name": "x", "tags": [1]}', r"a list of strings is allowed"),
        ("a.jsonl", b'{"file_name": 3, "tags": []}', r"is 3, not the name of a file"),
        ("a.jsonl", b"\xff\xfe\xff", r"is not UTF-8 text"),
        ("a.csv", b"", r"is empty: its first line names the columns"),
        ("a.csv", b"name,tags\nx,y\n", r"'file_name' is missing among 'name', 'tags'"),
        ("a.csv", b"file_name,tags\nx", r"line 2 has 1 columns, the first line 2"),
        ("a.csv", b"file_name,tags\nx,a,b", r"line 2 has 3 columns, the first line 2: put quotes"),
        ("a.csv", b"file_name,x,x\na,0,1\n", r"two columns are named 'x': rename one"),
        ("a.csv", b"file_name,sea\na,wet\n", r"'sea' is 'wet', where a column for each tag"),
        ("a.csv", b"file_name,tags\nx\0,a\n", r"line 2 has NUL bytes"),
        ("a.csv", b'file_name,tags\nx,"a\n', r"line 2: unexpected end of data"),
        ("a.csv", b"file_name,tags\nx," + b"a" * 131_073, r"field larger than"),
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


@pytest.mark.parametrize(
    ("value", "tags"),
    [
        ([["sea", "sky"], ["sky"], "sun"], ["sea", "sky", "sun"]),
        ({"bbox": [[0, 0, 1, 1]] * 2, "categories": ["cat", "cat"]}, ["cat"]),
        ({"label": ["cat"]}, ["cat"]),
        ("['a' 'b|c']", ["a", "b|c"]),
        ("[\"it's\", 'b']", ["it's", "b"]),
        ("[]", []),
    ],
)
def test_lists_of_data_sets(tmp_path, value, tags):
    """Nested lists, objects of detection, and lists as NumPy and Python print them."""
    name = "objects" if isinstance(value, dict) else "tags"
    path = tmp_path / "metadata.jsonl"
    path.write_text(json.dumps({"file_name": "a.jpg", name: value}) + "\n")
    assert [row.tags for row in csv_jsonl.read(path)] == [tags]


@pytest.mark.parametrize(
    "value", ["['a' ... 'b']", "['a', b]", "['a'", {"categories": [0, 1]}, {"bbox": []}, [["a", 1]]]
)
def test_lists_without_names_are_refused(tmp_path, value):
    name = "objects" if isinstance(value, dict) else "tags"
    path = tmp_path / "metadata.jsonl"
    path.write_text(json.dumps({"file_name": "a.jpg", name: value}) + "\n")
    with pytest.raises(MetadataError, match=name):
        list(csv_jsonl.read(path))
