"""Vocabularies and journals that cannot be read."""

from __future__ import annotations

import pytest

from prototag.cli.results import Journal, vocabulary
from prototag.errors import InputError


def test_a_damaged_part_is_not_continued(tmp_path):
    target = tmp_path / "tags.json"
    Journal(target, "json", {"top": 1}, resume=False).close()
    part = tmp_path / "tags.json.part"
    for line in ("{half", "[]", "{}"):
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
