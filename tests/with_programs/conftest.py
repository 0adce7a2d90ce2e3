"""Photo programs of Debian, if they are installed: ``make test-programs`` installs them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import tagged
from prototag import Annotator


def program(name: str) -> str:
    """Return the path of a program, or skip the test."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed: make test-programs installs it")
    return found


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """A folder with three pictures, whose names need quotes in a shell."""
    folder = tmp_path / "my photos"
    made = tagged.collection(folder, 3, start=100, listed=False)
    made[0].rename(folder / "it's one.jpg")
    return folder


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return tagged.model(tmp_path)


@pytest.fixture
def expected(photos: Path, model: Path) -> list[list[str]]:
    """The two best tags of each picture, in the order of the names of the files."""
    files = sorted(photos.iterdir(), key=lambda file: file.name)
    annotations = Annotator.load(model, cache=None).annotate(files, top=2)
    return [sorted(annotation.names) for annotation in annotations]
