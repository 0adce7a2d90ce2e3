"""Photo programs of Debian, if they are installed: ``make test-programs`` installs them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import tagged


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
