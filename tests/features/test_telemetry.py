"""Nothing is told to anyone: no picture, no network, not even that the program ran."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "src"
# onnxruntime keeps silent where it thinks that it is being tested. Here it must not think so.
KEPT = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "PROTOTAG_CACHE")

VECTOR = """
import numpy as np
from prototag.features.extractor import Extractor
Extractor(crops="whole", cache=None).transform([np.zeros((40, 30, 3), np.uint8)])
"""

ORDER = """
import os, sys

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "onnxruntime":
            print("imported with", os.environ.get("ORT_DISABLE_TELEMETRY"))

sys.meta_path.insert(0, Watch())
from prototag.features.backbones import EmbeddedBackbone
EmbeddedBackbone()
"""

HOST = """
import onnxruntime
calls = []
real = onnxruntime.disable_telemetry_events
onnxruntime.disable_telemetry_events = lambda: (calls.append(1), real())
from prototag.features.backbones import EmbeddedBackbone
EmbeddedBackbone()
print("asked to stop", len(calls))
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def run(code: str, home: Path, *before: str) -> str:
    """What a program prints on a machine that is no test machine, with a home of its own."""
    home.mkdir()
    own = {name: os.environ[name] for name in KEPT if name in os.environ}
    done = subprocess.run(
        [*before, sys.executable, "-c", code],
        env={**own, "HOME": str(home)},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return done.stdout.strip()


def test_telemetry_is_off_before_the_runtime_is_loaded(home: Path) -> None:
    assert run(ORDER, home) == "imported with 1"


def test_a_runtime_that_a_host_program_loaded_is_asked_to_stop(home: Path) -> None:
    # Where it is off from the start, so that no test ever sends anything.
    code = "import os; os.environ['ORT_DISABLE_TELEMETRY'] = '1'\n" + HOST
    assert run(code, home) == "asked to stop 1"


def test_a_vector_leaves_no_trace_in_the_home_of_the_user(home: Path) -> None:
    run(VECTOR, home)
    assert [path for path in home.rglob("*") if path.is_file()] == []  # such as a device id


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
def test_a_vector_is_computed_without_any_connection(home: Path, tmp_path: Path) -> None:
    log = tmp_path / "calls"
    tracer = ("strace", "-f", "-qq", "-e", "trace=network", "-o", str(log))
    try:
        run("pass", tmp_path / "trial", *tracer)
    except subprocess.CalledProcessError:
        pytest.skip("strace may not trace here")
    run(VECTOR, home, *tracer)
    assert foreign(log.read_text()) == []


LOCAL = re.compile(r'AF_UNIX|AF_NETLINK|inet_addr\("127\.|inet_pton\(AF_INET6, "::1"')


def foreign(calls: str) -> list[str]:
    """Calls that name an address outside of this machine."""
    return [line for line in calls.splitlines() if "sa_family=" in line and not LOCAL.search(line)]


def test_a_foreign_address_is_seen() -> None:
    near = 'connect(3, {sa_family=AF_UNIX, sun_path="/run/x"}, 110) = 0'
    own = 'connect(3, {sa_family=AF_INET, sin_port=htons(1), sin_addr=inet_addr("127.0.0.1")}, 16)'
    far = 'sendto(3, "", 0, 0, {sa_family=AF_INET, sin_addr=inet_addr("192.0.2.1")}, 16) = 0'
    assert foreign(f"{near}\n{own}\n{far}") == [far]


def test_only_one_place_loads_the_runtime() -> None:
    found = [
        path.relative_to(SOURCES).as_posix()
        for path in SOURCES.rglob("*.py")
        if re.search(r"^\s*(import|from) onnxruntime|import_module\(.onnx", path.read_text(), re.M)
    ]
    assert found == ["prototag/features/backbones/onnx.py"]
