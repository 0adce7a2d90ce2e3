"""Commands of the library, as a person uses them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tagged
from prototag import Library, metadata


@pytest.fixture(scope="session")
def _made(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The library of six pictures, which all tests can share."""
    folder = tmp_path_factory.mktemp("made")
    tagged.collection(folder, 6)
    with Library.create(folder, crops="fast", cache=None) as library:
        library.scan()
    return (folder / "prototag.library").read_bytes()


@pytest.fixture
def photos(tmp_path: Path, _made: bytes, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "photos"
    tagged.collection(folder, 6)
    (folder / "prototag.library").write_bytes(_made)
    monkeypatch.chdir(folder)
    with Library("prototag.library", cache=None) as library:
        library.scan()
        library.prune()
    return folder


def lines(result):
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_create_prints_counts_and_next_steps(run, tmp_path):
    tagged.collection(tmp_path / "photos", 4)
    result = run("library", "create", tmp_path / "photos", "-q")
    assert result.exit_code == 0
    assert result.stdout.startswith("4 pictures, 4 of them with tags (5 different tags).\n")
    assert "prototag library sync" in result.stdout
    assert len(result.stdout.splitlines()) < 12
    again = run("library", "create", tmp_path / "photos")
    assert again.exit_code == 1
    assert "exists already: `prototag open` opens it" in again.stderr
    named = run("library", "create", tmp_path / "photos", "-o", tmp_path / "b.library", "--json")
    assert lines(named)[0]["pictures"] == 4


def test_create_of_nothing_leaves_nothing(run, tmp_path):
    (tmp_path / "empty").mkdir()
    result = run("library", "create", tmp_path / "empty")
    assert result.exit_code == 1
    assert "contains no pictures" in result.stderr
    assert not list((tmp_path / "empty").iterdir())
    assert "does not exist" in run("library", "create", tmp_path / "none").stderr


def test_create_tells_of_what_cannot_be_read(run, tmp_path):
    tagged.collection(tmp_path, 2)
    (tmp_path / "broken.jpg").write_bytes(b"\xff\xd8\xff")
    result = run("library", "create", tmp_path)
    assert result.exit_code == 3
    assert "broken.jpg" in result.stderr
    assert "2 pictures, 2 of them with tags (4 different tags); 1 cannot be read." in result.stdout


@pytest.mark.parametrize("way", ["file", "folder", "here", "below", "environment"])
def test_which_library_is_meant(run, photos, tmp_path, monkeypatch, way):
    monkeypatch.chdir(tmp_path)
    options = {"file": ["-l", photos / "prototag.library"], "folder": ["-l", photos]}.get(way, [])
    if way == "here":
        monkeypatch.chdir(photos)
    elif way == "below":
        (photos / "a" / "b").mkdir(parents=True)
        monkeypatch.chdir(photos / "a" / "b")
    elif way == "environment":
        monkeypatch.setenv("PROTOTAG_LIBRARY", str(photos))
    found = lines(run("library", "status", "--json", *options))[0]
    assert (found["library"], found["pictures"]) == (str(photos / "prototag.library"), 6)


def test_no_library(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run("library", "status")
    assert result.exit_code == 1
    assert "there is no prototag.library in" in result.stderr
    assert "there is no library" in run("find", "-l", tmp_path / "none").stderr


def test_decide_show_and_undo(run, photos):
    result = run("accept", "evening,New York", "000.jpg", photos / "001.jpg")
    assert result.stdout == "evening, New York accepted for 2 pictures.\n"
    assert "`prototag library undo 1` undoes it" in result.stderr
    assert "1 decision unchanged" in run("accept", "evening", "000.jpg").stdout
    assert run("reject", "EVENING", "002.jpg", "-q").stdout == "EVENING rejected for 1 picture.\n"
    history = lines(run("library", "history", "--json"))
    assert [row["verdict"] for row in history] == ["rejected"] + ["accepted"] * 4
    assert history[0]["path"] == str(photos / "002.jpg")
    shown = run("library", "history", "-n", 1).stdout
    assert shown.startswith("2\t")
    assert "rejected\tevening\t002.jpg\tperson\n" in shown
    assert run("find", "evening").stdout == "000.jpg\n001.jpg\n"
    assert run("find", "evening", "--without", "red").stdout == "001.jpg\n"
    assert run("find", "--state", "decided", "name:002").stdout == "002.jpg\n"
    found = lines(run("find", "evening", "new york", "--json", "-n", 1))
    assert found[0]["accepted"] == ["evening", "New York"]
    result = run("library", "undo")
    assert result.exit_code == 1
    assert "the last is 2 (evening rejected, by person), so `prototag library undo 2`" in (
        " ".join(result.stderr.split())
    )
    assert "there is nothing to redo" in run("library", "redo").stderr
    assert "Batch 2: 1 decision undone" in run("library", "undo", 2).stderr
    assert "rejected (undone)" in run("library", "history", "-n", 1).stdout
    assert "Batch 2: 1 decision made again" in run("library", "redo", 2).stderr
    assert "batch 2 is not undone" in run("library", "redo", 2).stderr
    assert len(lines(run("library", "undo", 2, 1, "--json"))) == 5
    assert "there is nothing to undo" in run("library", "undo").stderr
    assert "there is no batch 7" in run("library", "undo", 7).stderr
    assert "No picture of the library matches" in run("find", "--state", "decided").stderr


def test_mistakes_are_reported_and_decide_nothing(run, photos):
    (photos / "new.jpg").write_bytes((photos / "000.jpg").read_bytes()[:-2])
    for arguments, words in (
        (["accept", "a", "000.jpg", "none.jpg"], "the library has no picture none.jpg."),
        (["accept", "a", "new.jpg"], "new.jpg: `prototag library sync` reads new pictures"),
        (["accept", " , ", "000.jpg"], "no tag was given"),
        (["reject", "rde", "000.jpg"], "no tag 'rde': did you mean 'red'?"),
        (["find", "rde"], "did you mean 'red'?"),
    ):
        result = run(*arguments)
        assert result.exit_code == 1
        assert words in result.stderr
    assert lines(run("library", "status", "--json"))[0]["decisions"] == 0


def test_complete_pictures(run, photos):
    run("accept", "evening", photos / "000.jpg", "--complete")
    assert run("find", "--state", "complete").stdout == "000.jpg\n"


def test_sync_plans_then_does_it_then_nothing(run, photos):
    run("accept", "evening", "000.jpg", "001.jpg")
    tagged.collection(photos, 1, start=50, listed=False)
    planned = run("library", "sync", "--dry-run", "-q")
    assert "evening\t+2\t\n2 sidecars would be written: 2 tags added.\n" in planned.stdout
    assert "7 pictures: 1 new." in planned.stdout
    assert "+" in run("library", "sync", "--diff", "-q").stdout
    assert not list(photos.glob("*.xmp"))
    done = run("library", "sync", "-q")
    assert done.stdout == "2 sidecars written: 2 tags added.\n"
    assert metadata.read_keywords(photos / "000.jpg").tags == ("evening",)
    assert (
        run("library", "sync", "-q").stdout == "Library and files agree: there is nothing to do.\n"
    )
    assert lines(run("library", "sync", "--json"))[0]["outgoing"] == []
    (photos / "000.jpg.xmp").write_text(
        (photos / "000.jpg.xmp").read_text().replace("<rdf:li>evening</rdf:li>", "")
    )
    said = run("library", "sync", "-q").stdout
    assert "1 tag removed in a photo program, now rejected: evening." in said
    run("reject", "red", "003.jpg")
    said = run("library", "sync", "-q").stdout
    assert "1 tag that you rejected here is in a file as your own and was left there: red" in said


def test_a_write_into_files_is_undone(run, photos):
    before = (photos / "000.jpg").read_bytes()
    assert run("library", "undo-write").stdout == "Nothing was written to files yet.\n"
    run("accept", "evening", "000.jpg", "001.jpg")
    done = run("library", "sync", "--jpeg", "file", "--iptc")
    assert "2 pictures written: 2 tags added.\n" in done.stdout
    assert "`prototag library undo-write 1` restores the files" in done.stderr
    assert not list(photos.glob("*.xmp"))
    assert metadata.read_keywords(photos / "000.jpg").tags[-1:] == ("evening",)
    assert lines(run("library", "undo-write", "--json"))[0]["files"] == 2
    (photos / "001.jpg").write_bytes((photos / "001.jpg").read_bytes() + b" ")
    undone = run("library", "undo-write", 1)
    assert undone.stdout == "1 file restored.\n"
    assert "has changed since" in undone.stderr
    assert undone.exit_code == 3
    assert (photos / "000.jpg").read_bytes() == before
    assert "no write 7" in run("library", "undo-write", 7).stderr


def test_status_and_prune(run, photos):
    run("accept", "evening", "000.jpg")
    (photos / "001.jpg").unlink()
    assert "1 missing" in run("library", "sync", "-q").stdout
    status = run("library", "status", "--check").stdout
    assert "Pictures    6, 6 with tags, 1 missing" in status
    assert "Damage      none" in status
    assert "1 picture would be removed" in run("library", "prune", "--dry-run").stdout
    assert lines(run("library", "prune", "--json")) == [{"pruned": 1, "dry_run": False}]
    assert "nothing to remove" in run("library", "prune").stdout


def test_out_and_in(run, photos, tmp_path):
    run("accept", "evening", "000.jpg")
    out = tmp_path / "out.jsonl"
    assert run("library", "export", out).stdout == f"6 pictures written to {out}.\n"
    assert run("library", "export", out).exit_code == 0  # an export may be replaced
    assert run("library", "export", photos / "000.jpg").exit_code == 2  # a picture may not
    result = run("library", "import", out, "-o", tmp_path / "new.library", "--root", photos)
    assert "6 pictures and 1 decision are in" in result.stdout
    again = run("find", "evening", "-l", tmp_path / "new.library", "--json")
    assert lines(again)[0]["accepted"] == ["evening"]
    assert run("library", "import", out, "-o", tmp_path / "new.library").exit_code == 1
    assert run("library", "import", photos / "000.jpg", "-o", tmp_path / "b").exit_code == 1
    assert not (tmp_path / "b").exists()


def test_learn_fails_where_no_tag_is_learnable(run, tmp_path):
    """It ended with exit code 0, so that scripts went on with the model."""
    photos = tmp_path / "photos"
    files = tagged.collection(photos, 24, listed=False)
    rows = [
        {"file_name": file.name, "tags": ["luck"] if number in (1, 2, 6, 11, 16, 21) else ["other"]}
        for number, file in enumerate(files)
    ]
    (photos / "metadata.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert run("library", "create", photos).exit_code == 0
    told = run("learn", "-l", photos / "prototag.library")
    assert "Not learnable yet, no better than chance: luck, other" in told.stdout
    assert told.exit_code == 1
    assert run("learn", "-l", photos / "prototag.library", "--full", "--json").exit_code == 1
