"""Whether a fit has room: forecasts against measured peaks, and refusals before the work begins."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from prototag import MCDL, ExemplarMCDL, recommended
from prototag.engine import memory

PAPER = {"n": 87_388, "m": 200, "t": 568, "k": 20_000, "nonzeros": 20}


def test_the_largest_collection_of_the_paper_fits_six_gigabytes():
    assert memory.mcdl(**PAPER).peak < 6 * 2**30


@pytest.mark.parametrize("name", PAPER)
def test_more_of_anything_needs_more(name):
    assert memory.mcdl(**{**PAPER, name: 2 * PAPER[name]}).peak > memory.mcdl(**PAPER).peak


def test_the_kernel_matrix_is_known():
    iaprtc12 = memory.tagger(17_665, 1280, 291, 17_665, 17_665, 25, 200, 300)
    assert iaprtc12.largest == "kernel"
    assert 1.4 * 2**30 < iaprtc12.peak < 2.2 * 2**30
    landmarks = memory.tagger(100_000, 1280, 291, 100_000, 6_000, 25, 200, 300)
    assert landmarks.stages["kernel"] < 4 * 100_000**2


MEASURED = """
import sys
import numpy as np
from prototag import recommended
from prototag.engine import memory

def peak():  # of this program alone; ru_maxrss begins with that of the one which started it
    with open("/proc/self/status") as file:
        return int(next(line for line in file if line.startswith("VmHWM")).split()[1]) << 10

forecast = {}
real = memory.require
memory.require = lambda found: forecast.setdefault("peak", found.peak) and real(found)
rng = np.random.default_rng(0)
n, m, t = (int(word) for word in sys.argv[1:])
X = rng.standard_normal((n, m)).astype(np.float32)
Y = rng.random((n, t)) < 0.05
recommended(pilot=50).fit(X[:60], Y[:60])  # what is loaded at first use
forecast.clear()
before = peak()
recommended(pilot=200).fit(X, Y)
print(forecast["peak"], peak() - before)
"""


@pytest.mark.parametrize("shape", [(3000, 64, 40), (2500, 600, 100)], ids=str)
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing tells the peak")
def test_the_forecast_is_near_what_a_fit_takes(shape):
    command = [sys.executable, "-c", MEASURED, *map(str, shape)]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    foretold, taken = (int(word) for word in answer.stdout.split())
    assert 0.8 * taken < foretold < 2.0 * taken


def test_memory_is_asked_of_the_machine():
    have = memory.available()
    assert have is None or have > 2**28


@pytest.mark.parametrize("estimator", [MCDL(3), ExemplarMCDL(), recommended()], ids=str)
def test_a_fit_without_room_is_refused_before_it_begins(monkeypatch, estimator):
    monkeypatch.setattr(memory, "available", lambda: 1 << 20)
    X, Y = np.eye(6), np.eye(6, dtype=int)
    with pytest.raises(MemoryError, match=r"need about .* GB.*are free: learn from fewer images"):
        estimator.fit(X, Y)
    assert not hasattr(estimator, "threshold_")


def test_a_machine_that_does_not_say_is_trusted(monkeypatch):
    def refuse(_):
        raise ValueError("unrecognized configuration name")

    monkeypatch.setattr(memory, "_meminfo", list)
    monkeypatch.setattr(memory, "_cgroup", list)
    monkeypatch.setattr(memory.os, "sysconf", refuse)
    assert memory.available() is None
    memory.require(memory.mcdl(10**12, 10**6, 10**6, 10**9, 20))
