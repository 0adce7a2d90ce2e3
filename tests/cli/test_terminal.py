"""Arguments that name pictures."""

from __future__ import annotations

import io
import sys
from pathlib import Path

from prototag.cli.terminal import count_pictures, expand


def expanded(*arguments: Path | str) -> tuple[list[str], list[str]]:
    problems: list[str] = []
    return list(expand([Path(a) for a in arguments], problems.append)), problems


def test_files_are_taken_by_name_and_folders_by_the_rule_of_the_walk(tmp_path):
    for name in ("a.jpg", "sub/b.jpg", "sub/@eaDir/b.jpg", "sub/notes.txt", ".hidden.jpg"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "linked").symlink_to(tmp_path / "sub")
    found = [str(tmp_path / name) for name in ("a.jpg", "linked/b.jpg")]
    assert expanded(tmp_path) == (found, [])
    assert count_pictures([tmp_path]) == 2
    named = [str(tmp_path / name) for name in ("sub/notes.txt", ".hidden.jpg", "gone.jpg")]
    assert expanded(*named) == (named, [])


def test_standard_input_may_hold_names_that_are_no_text(monkeypatch):
    lines = "Zoë.jpg\r\n\n".encode() + b"Zo\xeb.jpg\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines), encoding="utf-8"))
    assert expanded("-") == (["Zoë.jpg", "Zo\udceb.jpg"], [])
    assert count_pictures([Path("-")]) is None


def test_unreadable_folders_are_reported(tmp_path, monkeypatch):
    (tmp_path / "sub").mkdir()
    (tmp_path / "z.jpg").touch()

    def gone(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("os.scandir", gone)
    found, problems = expanded(tmp_path / "sub", tmp_path / "z.jpg")
    assert found == [str(tmp_path / "z.jpg")]
    assert problems == [f"{tmp_path / 'sub'} cannot be read: Input/output error"]
