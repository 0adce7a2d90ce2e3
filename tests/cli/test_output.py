"""Vocabularies and journals that cannot be read."""

from __future__ import annotations

import pytest

from prototag.cli.output import Journal, vocabulary
from prototag.errors import InputError


def test_a_damaged_part_is_not_continued(tmp_path):
    target = tmp_path / "tags.json"
    Journal(target, "json", {"top": 1}, resume=False).close()
    part = tmp_path / "tags.json.part"
    wrong = (
        *(
            "{half",
            "[]",
            "{}",
            "[" * 100_000,
            '{"path": ["x"]}',
            '{"path": "x"}',
            "\0",
            '{"path": 1}',
        ),
        *('{"path": "x", "tags": [{"tag": "y"}]}', '{"path": "x", "tags": 3}', "null", "\x1b[0m"),
        *('{"path": "x", "tags": [{"tag": 1, "probability": 1, "score": 2}]}', "Infinity"),
        *('{"path": "x", "tags": ["y"]}', '{"path": "x", "error": 1}', '{"path": null}'),
    )
    for line in wrong:
        whole = part.read_text().splitlines()[0]
        part.write_text(f"{whole}\n{line}\n")
        with pytest.raises(InputError, match="is damaged: delete it"):
            Journal(target, "json", {"top": 1}, resume=True)


def test_a_vocabulary_that_is_not_text(tmp_path):
    path = tmp_path / "words.txt"
    path.write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(InputError, match="is not text"):
        vocabulary(str(path), ["red"])
    assert vocabulary("Red, blue", ["red", "green", "blue"]) == ["red", "blue"]


def test_a_part_that_is_no_file_is_not_waited_for(tmp_path):
    import os

    for number, make in enumerate(
        (os.mkdir, os.mkfifo, lambda path: os.symlink("/dev/zero", path))
    ):
        target = tmp_path / f"{number}.json"
        make(f"{target}.part")
        with pytest.raises(InputError, match="is not a regular file: move it away"):
            Journal(target, "json", {}, resume=True)
