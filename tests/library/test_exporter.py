"""JSON lines out and in: the same library again, and nothing believed."""

from __future__ import annotations

import json
import random
import shutil

import pytest

from history import undo_last
from prototag import Library
from prototag.errors import LibraryError
from prototag.library.types import VERDICTS


@pytest.fixture
def lived(library, photos):
    """With all that an export holds."""
    rng = random.Random(1)
    library.accept([1, 2, 3], ["animal|cat", "sofa"])
    for _ in range(20):
        library.decide([(rng.randint(1, 12), rng.choice(["sofa", "red"]), rng.choice(VERDICTS))])
    library.mark_complete([4])
    library.rename("sofa", "couch")
    library.hide("red")
    library.sync()
    undo_last(library, 3)
    (photos / "011.jpg").unlink()
    shutil.copy(photos / "000.jpg", photos / "copy.jpg")
    library.scan()
    return library


def test_out_and_in_is_the_same(lived, tmp_path, everything):
    assert lived.export(tmp_path / "out.jsonl") == 12
    with Library.restore(tmp_path / "out.jsonl", tmp_path / "again.library", cache=None) as again:
        assert everything(again) == everything(lived)
        assert again.tags() == lived.tags()
        assert again.history(1000) == lived.history(1000)
        for number in range(1, 13):
            assert again.picture(number) == lived.picture(number)
        again.export(tmp_path / "again.jsonl")
        assert (tmp_path / "again.jsonl").read_bytes() == (tmp_path / "out.jsonl").read_bytes()
        undo_last(lived, 2)
        undo_last(again, 2)
        assert everything(again) == everything(lived)


def test_pictures_meet_their_files_again(lived, photos, tmp_path, everything):
    lived.export(tmp_path / "out.jsonl")
    before = everything(lived)
    lived.close()
    moved = photos.rename(tmp_path / "elsewhere")
    with Library.restore(
        tmp_path / "out.jsonl", tmp_path / "new.library", root=moved, cache=None
    ) as again:
        scanned = again.scan()
        assert (scanned.new, scanned.moved, scanned.vanished) == (0, 12, 0)
        assert everything(again)["labels"] == before["labels"]
        assert again.status().unread == 1  # whose file is gone
        assert again.existing_file(1) == moved / "000.jpg"


def test_names_that_are_no_text_survive(planted, tmp_path):
    with planted.store.write() as conn:
        conn.execute("UPDATE files SET path = ? WHERE picture = 1", (b"/photos/\xff\xfe.jpg",))
    planted.export(tmp_path / "out.jsonl")
    with Library.restore(tmp_path / "out.jsonl", tmp_path / "new.library") as again:
        assert again.picture(1).files == planted.picture(1).files


HEAD = {"prototag": "library", "version": 2, "settings": {}, "roots": []}
ROOT = {"number": 1, "path": "/p", "kind": "auto", "column": None, "hierarchy": "path"}
PICTURE = {
    "picture": "00" * 20,
    "added_at": 0,
    "complete": False,
    "tags": [],
    "ruled_out": [],
    "accepted": [],
    "rejected": [],
    "files": [],
}
DECISION = {
    "decision": "accepted",
    "picture": "00" * 20,
    "tag": "cat",
    "decided_at": 0,
    "decided_by": "person",
    "batch": 1,
    "undone": False,
    "previous_value": None,
}
FILE = {"path": "/p/a.jpg", "root": 1, "present": True, "parsed_tags": None, "written_tags": []}


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([], "is empty"),
        ([b"\xff\x00"], "line 1 is not JSON"),
        ([b"[" * 100_000], "line 1 is not JSON"),
        ([[1]], "line 1 is no object"),
        ([PICTURE], "line 1 is not where it belongs"),
        ([HEAD, HEAD], "line 2 is not where it belongs"),
        ([HEAD | {"prototag": "model"}], "is of 'model'"),
        ([HEAD | {"version": 3}], "is of version 3, this program knows versions up to 2"),
        ([HEAD | {"version": 1}], "is of version 1, which this program does not read"),
        ([HEAD | {"roots": [ROOT | {"path": "p"}]}], "path that is not absolute"),
        ([HEAD | {"roots": [ROOT | {"path": "/\0"}]}], "path that is not absolute"),
        ([HEAD | {"roots": [ROOT | {"kind": "web"}]}], "kind 'web'"),
        ([HEAD, PICTURE | {"picture": "00"}], "names no picture"),
        ([HEAD, PICTURE, PICTURE], "line 3 repeats another line"),
        ([HEAD, PICTURE | {"added_at": float("nan")}], "no time 'added_at'"),
        ([HEAD, PICTURE | {"added_at": 10**400}], "no time 'added_at'"),
        ([HEAD, PICTURE | {"complete": 1}], "no 'complete'"),
        ([HEAD, PICTURE | {"tags": "cat"}], "'tags', or one that is no list of texts"),
        ([HEAD, PICTURE | {"tags": ["\0"]}], "a tag without characters"),
        ([HEAD, PICTURE | {"files": [FILE]}], "the root 1, which no line names"),
        (
            [HEAD | {"roots": [ROOT]}, PICTURE | {"files": [FILE | {"parsed_tags": {}}]}],
            "'parsed_tags' is not",
        ),
        (
            [HEAD | {"roots": [ROOT]}, PICTURE | {"files": [FILE, FILE]}],
            "repeats another line",
        ),
        ([HEAD, DECISION], "a picture that no line before it names"),
        ([HEAD, PICTURE, DECISION | {"decision": "maybe"}], "decides 'maybe'"),
        ([HEAD, PICTURE, DECISION | {"tag": None}], "decides 'accepted'"),
        ([HEAD, PICTURE, DECISION | {"batch": 1 << 70}], "'batch' out of bounds"),
        ([HEAD, PICTURE, DECISION | {"decided_by": "a\nb"}], "printable"),
        ([HEAD, PICTURE, DECISION | {"previous_value": 7}], "'previous_value'"),
    ],
)
def test_what_is_no_export_is_refused_and_leaves_nothing(tmp_path, lines, words):
    file = tmp_path / "in.jsonl"
    file.write_bytes(
        b"".join(
            (line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n"
            for line in lines
        )
    )
    with pytest.raises(LibraryError, match=words):
        Library.restore(file, tmp_path / "new.library")
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]


def test_a_cut_or_changed_export_makes_a_library_or_none(lived, tmp_path):
    lived.export(tmp_path / "out.jsonl")
    whole = (tmp_path / "out.jsonl").read_bytes()
    rng = random.Random(3)
    for round in range(60):
        data = bytearray(whole)
        if round % 2:
            for _ in range(3):
                data[rng.randrange(len(data))] = rng.randrange(256)
        else:
            del data[rng.randrange(len(data)) :]
        (tmp_path / "in.jsonl").write_bytes(data)
        try:
            with Library.restore(tmp_path / "in.jsonl", tmp_path / "new.library") as again:
                assert again.check() == []
                again.status(), again.tags(), again.history()
            (tmp_path / "new.library").unlink()
        except LibraryError:
            assert not (tmp_path / "new.library").exists()


def test_nothing_is_replaced(planted, tmp_path):
    planted.export(tmp_path / "out.jsonl")
    with pytest.raises(LibraryError, match="exists already"):
        Library.restore(tmp_path / "out.jsonl", planted.path)
    with pytest.raises(LibraryError, match="cannot be read: No such file"):
        Library.restore(tmp_path / "none.jsonl", tmp_path / "new.library")
    with pytest.raises(LibraryError, match="cannot be written"):
        planted.export(tmp_path / "none" / "out.jsonl")
