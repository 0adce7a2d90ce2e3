"""The Lua script in darktable itself, on a virtual screen."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from prototag.metadata import read_keywords
from with_programs.conftest import program

HERE = Path(__file__).parent
SCRIPT = HERE.parents[1] / "integrations" / "darktable" / "prototag.lua"
MAX_SECONDS = 180


def run_darktable(home: Path, luarc: str, output: Path) -> str:
    """Run darktable until the driver has written its last line."""
    command = [program("xvfb-run"), "--auto-servernum", program("darktable"), "--disable-opencl"]
    lua = home / "config" / "lua"
    lua.mkdir(parents=True)
    shutil.copy(SCRIPT, lua)
    (home / "config" / "luarc").write_text(luarc, encoding="utf-8")
    command += ["--library", ":memory:", "--configdir", home / "config"]
    command += ["--cachedir", home / "cache", "--tmpdir", home, "-d", "lua"]
    process = subprocess.Popen(
        [str(part) for part in command],
        env={**os.environ, "HOME": str(home), "LC_ALL": "C.UTF-8", "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    deadline = time.monotonic() + MAX_SECONDS
    told = ""
    while time.monotonic() < deadline and process.poll() is None and "\nend\t" not in told:
        time.sleep(0.5)
        told = output.read_text(encoding="utf-8") if output.exists() else ""
    os.killpg(process.pid, signal.SIGTERM)
    printed, _ = process.communicate(timeout=30)
    assert "\nend\t" in told, printed.decode(errors="replace")
    return told


def test_the_selection_is_tagged_corrected_and_untagged(photos, model, expected, tmp_path):
    output = tmp_path / "told.tsv"
    luarc = (HERE / "darktable_driver.lua").read_text(encoding="utf-8")
    command = tmp_path / "prototag it"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m prototag "$@"\n')
    command.chmod(0o755)
    places = {"COMMAND": command, "MODEL": model, "OUTPUT": output, "PHOTOS": photos}
    for word, path in places.items():
        luarc = luarc.replace(word, str(path))
    *lines, last = run_darktable(tmp_path / "home", luarc, output).splitlines()
    assert last.split("\t")[1] == "true", last
    tags: dict[str, list[str]] = {}
    sidecars: dict[str, list[str]] = {}
    for line in lines:
        step, _, names, text = line.split("\t")
        tags.setdefault(step, []).append(names)
        sidecars.setdefault(step, []).append(text)
    # In the order of names: 101, 102, it's one.
    assert tags["imported"] == ["mine|own", "", ""]
    assert expected[0] == ["dotted", "striped"]
    others = [";".join(names) for names in expected[1:]]
    tagged = ["dotted;mine|own;striped", *others]
    assert tags["tagged"] == tags["again"] == tagged
    assert sidecars["tagged"] == sidecars["again"]
    # darktable keeps the record of ProtoTag in the sidecars that it writes.
    assert all("<prototag:added>" in text for text in sidecars["tagged"])
    corrected = ["dotted;mine|own", *others]
    assert tags["corrected"] == corrected, "a detached tag came back"
    assert tags["untagged"] == ["mine|own", "", ""]
    assert read_keywords(photos / "101.jpg").tags == ("mine|own",)
    assert read_keywords(photos / "102.jpg").added == ()
