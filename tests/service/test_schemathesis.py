"""Schemathesis sends valid and invalid requests to every operation, and judges the answers."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import tagged
from prototag import Library
from prototag.service.app import OPERATIONS

pytest.importorskip("schemathesis")
SETTINGS = Path(__file__).with_name("schemathesis.toml")
STREAMS = [one for one in OPERATIONS if one.media == "text/event-stream"]


def judge(address: str, folder: Path) -> str:
    """Run schemathesis and return what it printed."""
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", SETTINGS, "run"]
    command += [f"{address.rstrip('/')}/api/v1/openapi.json", "--phases", "coverage,fuzzing"]
    ran = subprocess.run(
        [str(part) for part in command], cwd=folder, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.mark.parametrize("kind", ["library", "model"])
def test_answers_are_as_described(serve, tmp_path, kind):
    folder = tmp_path / "collection"
    tagged.collection(folder, 24)
    if kind == "library":
        with Library.create(folder, crops="fast", cache=None) as library:
            library.scan()
            library.learn()
        running = serve(command=["serve", folder / "prototag.library"])
    else:
        running = serve(command=["serve", tagged.model(tmp_path), "--allow", folder])
    printed = judge(running.address, tmp_path)
    tested = re.search(r"Tested: (\d+)", printed)
    assert tested is not None, printed
    assert int(tested[1]) == len(OPERATIONS) - len(STREAMS)
