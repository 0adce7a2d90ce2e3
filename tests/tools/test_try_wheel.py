"""The parts of the trial of a wheel; the whole of it is `make test-wheel`."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from tools import try_wheel


def lines(**tags: list[str]) -> str:
    found = [
        {"path": f"new/{name}.jpg", "tags": [{"tag": tag} for tag in given]}
        for name, given in tags.items()
    ]
    return "\n".join(json.dumps(one) for one in found)


RIGHT = {f"{tag}{number}": [tag] for tag in ("red", "blue") for number in (20, 21, 22)}


def test_right_tags_are_taken():
    try_wheel.check_tags(lines(**RIGHT))


@pytest.mark.parametrize("wrong", [{"red20": ["blue"]}, {"red20": []}, {"red23": ["red"]}])
def test_wrong_missing_and_surplus_tags_are_refused(wrong):
    with pytest.raises(SystemExit, match="annotate gave"):
        try_wheel.check_tags(lines(**{**RIGHT, **wrong}))


def test_there_is_no_compiler_and_nothing_of_the_project(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "src")
    monkeypatch.setenv("PROTOTAG_MODEL", "mine.prototag")
    env = try_wheel.poor(Path(sys.executable), tmp_path)
    assert not {"PYTHONPATH", "PROTOTAG_MODEL"} & set(env)
    assert env["PROTOTAG_CACHE"].startswith(str(tmp_path))
    for name in ("cc", "c++", "gcc", "g++", "clang", "clang++"):
        assert shutil.which(name, path=env["PATH"]) is None


LISTENS = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(int(sys.argv[1])))
print("http://127.0.0.1:1/", file=sys.stderr, flush=True)
time.sleep(60)
"""


@pytest.mark.skipif(try_wheel.WINDOWS, reason="to terminate is to kill there")
def test_a_service_must_end_well(tmp_path):
    with try_wheel.answering([sys.executable, "-c", LISTENS, "0"], tmp_path, {}) as address:
        assert address == "http://127.0.0.1:1/"
    with (
        pytest.raises(SystemExit, match="ended with 4"),
        try_wheel.answering([sys.executable, "-c", LISTENS, "4"], tmp_path, {}),
    ):
        pass


def test_a_command_that_does_not_listen_is_reported(tmp_path):
    command = [sys.executable, "-c", "import sys; sys.exit('no port')"]
    with (
        pytest.raises(SystemExit, match=r"does not listen:\nno port"),
        try_wheel.answering(command, tmp_path, {}),
    ):
        pass
