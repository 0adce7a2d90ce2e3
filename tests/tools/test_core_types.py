"""Tests as on other processors: what cannot run here is skipped with a sentence."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools import core_types

OLD = {"kernels": "Haswell", "has": ["SSE3", "SSE42", "AVX2", "FMA3"], "dispatched": ["AVX2"]}


@pytest.fixture
def old(monkeypatch):
    """A processor without AVX-512."""

    def look(**settings):
        kernels = settings.get("OPENBLAS_CORETYPE", "Haswell")
        return OLD | {"kernels": "Haswell" if kernels == "Zen" else kernels}

    monkeypatch.setattr(core_types, "look", look)


@pytest.mark.usefixtures("old")
def test_a_core_type_that_the_processor_cannot_run_is_skipped_with_a_sentence(capsys):
    assert [settings for _, settings in core_types.variants()] == [
        {"OPENBLAS_CORETYPE": "Nehalem"},
        {"NPY_DISABLE_CPU_FEATURES": "AVX2"},
    ]
    assert capsys.readouterr().out.splitlines() == [
        "Skipped Haswell: the tests without a core type use its kernels (Haswell).",
        "Skipped Zen: the tests without a core type use its kernels (Haswell).",
        "Skipped SkylakeX: this processor has no AVX512_SKX.",
    ]


def test_without_openblas_every_core_type_is_skipped(monkeypatch):
    monkeypatch.setattr(core_types, "look", lambda **_: OLD | {"kernels": None})
    assert len(core_types.variants()) == 1
    assert core_types.unsupported("Nehalem") == "Nehalem: NumPy's BLAS is not OpenBLAS."
    assert core_types.unsupported("") is None


def test_each_run_has_the_settings_of_its_name():
    for name, settings in core_types.variants():
        here = core_types.look(**settings)
        if "OPENBLAS_CORETYPE" in settings:
            assert here["kernels"] != core_types.look()["kernels"], name
        else:
            assert here["dispatched"] == []


def test_a_failing_test_fails_the_command(tmp_path):
    test = tmp_path / "test_it.py"
    test.write_text("import os\n\ndef test_it():\n    assert 'OPENBLAS_CORETYPE' in os.environ\n")
    command = [sys.executable, "-m", "tools.core_types", "-p", "no:cacheprovider", str(test)]
    env = {name: value for name, value in os.environ.items() if name != "OPENBLAS_CORETYPE"}
    done = subprocess.run(
        command, capture_output=True, text=True, env=env, cwd=Path(__file__).parents[2]
    )
    if "Testing with NumPy without" in done.stdout:
        assert done.returncode == 1
        assert "Failed: NumPy without" in done.stderr
    assert "Failed: OpenBLAS" not in done.stderr
