"""Commands on a real cluster say and write what they do without one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

import tagged
from prototag.engine.dask import Dask


@pytest.fixture(scope="module")
def address():
    with Dask.local(2) as engine:
        yield engine.client.scheduler.address


@pytest.fixture
def photos(tmp_path):
    folder = tmp_path / "photos"
    tagged.collection(folder, 40)
    (folder / "011.jpg").write_bytes(b"no picture")
    return folder


@pytest.mark.bits
def test_the_whole_way_on_a_cluster(run, photos, address, tmp_path):
    """features, train, evaluate, annotate: each the same with --cluster as without."""
    said = {}
    for name, more in (("here", []), ("there", ["--cluster", address])):
        place = tmp_path / name
        place.mkdir()
        vectors, model = place / "vectors", place / "model.prototag"
        made = run(
            "features", photos, "-o", vectors, "--crops", "fast", "--rows", 16, "--json", *more
        )
        assert made.exit_code == 3  # one cannot be read
        assert "011.jpg" in made.stderr
        figures = json.loads(made.stdout)
        assert (figures["pictures"], figures["tags"]) == (39, len(tagged.TAGS))
        assert [one["path"] for one in figures["skipped"]] == ["011.jpg"]
        trained = run("train", vectors, "-m", model, *more)
        assert trained.exit_code == 0, trained.stderr
        judged = run("evaluate", vectors, "-m", model, "--json", *more)
        assert judged.exit_code == 0
        given = run("annotate", photos, "-m", model, "--json", "--write-xmp", *more)
        assert given.exit_code == 3
        sidecars = sorted(photos.glob("*.xmp"))
        assert len(sidecars) == 39
        said[name] = [trained.stdout, json.loads(judged.stdout)["figures"], given.stdout]
        for sidecar in sidecars:
            sidecar.unlink()
    assert said["there"] == said["here"]


def test_without_an_address_that_answers_nothing_is_begun(run, photos, tmp_path):
    ended = run("features", photos, "-o", tmp_path / "v", "--cluster", tmp_path / "none.json")
    assert ended.exit_code == 1
    assert "neither the address of a scheduler" in ended.stderr
    assert not (tmp_path / "v").exists()


def test_a_killed_command_resumes(photos, run, tmp_path):
    vectors = tmp_path / "vectors"
    command = ["features", str(photos), "-o", str(vectors), "--crops", "fast", "--rows", "4"]
    process = subprocess.Popen([sys.executable, "-m", "prototag", *command], stderr=subprocess.PIPE)
    while process.poll() is None and not (vectors / "piece-00002.json").exists():
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert not (vectors / "manifest.json").exists()
    again = run(*command)
    assert again.exit_code == 3
    assert "found from an earlier run" in again.stderr
    assert not [name for name in os.listdir(vectors) if name.endswith(".tmp") and name[0] != "."]


def test_a_command_without_a_cluster_loads_no_dask(photos, tmp_path):
    model = tagged.model(tmp_path)
    code = (
        "import sys; from prototag.cli import main\n"
        f"sys.argv = ['prototag', 'annotate', {str(photos / '000.jpg')!r}, '-m', {str(model)!r}]\n"
        "try: main()\n"
        "finally: print([n for n in sys.modules if n.partition('.')[0] in ('dask', 'distributed')])"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert told.stdout.splitlines()[-1] == "[]"
