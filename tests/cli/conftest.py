"""What the tests of commands start from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import tagged
from prototag.cli import program


@pytest.fixture
def run() -> Callable[..., Any]:
    """Run a command as a person would; the result has exit_code, stdout and stderr."""

    def invoke(*arguments: object, input: str | None = None) -> Any:
        result = CliRunner().invoke(program(), [str(a) for a in arguments], input=input)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return invoke


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return tagged.model(tmp_path)


@pytest.fixture
def new(tmp_path: Path) -> list[Path]:
    """Four new pictures without tags."""
    return tagged.collection(tmp_path / "new", 4, start=100, listed=False)
