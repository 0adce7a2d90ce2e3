"""What every test starts from."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest

_NUMBER = count()


@pytest.fixture(scope="session")
def _caches(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("caches")


@pytest.fixture(autouse=True)
def _own_cache(_caches: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or writes the cache of the user who runs it."""
    # One folder for all, made once: a folder for each of thousands of tests takes seconds.
    monkeypatch.setenv("PROTOTAG_CACHE", str(_caches / f"{next(_NUMBER)}.sqlite"))
