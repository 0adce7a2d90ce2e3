"""What every test starts from."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or writes the cache of the user who runs it."""
    monkeypatch.setenv("PROTOTAG_CACHE", str(tmp_path_factory.mktemp("cache") / "vectors.sqlite"))
