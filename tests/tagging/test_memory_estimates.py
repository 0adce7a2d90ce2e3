"""Estimates of memory against measured peaks."""

from __future__ import annotations

import subprocess
import sys

import pytest

from prototag.tagging.memory_estimates import FitSize, estimate_in_memory_fit

WIDTHS = {"nonzeros": 25, "width": 300}


def test_the_kernel_matrix_is_known():
    iaprtc12 = estimate_in_memory_fit(FitSize(17_665, 1280, 291, 17_665, 17_665), **WIDTHS)
    assert iaprtc12.largest_stage == "kernel"
    assert 1.4 * 2**30 < iaprtc12.peak < 2.2 * 2**30
    landmarks = estimate_in_memory_fit(FitSize(100_000, 1280, 291, 100_000, 6_000), **WIDTHS)
    assert landmarks.stages["kernel"] < 4 * 100_000**2


MEASURED = """
import sys
import numpy as np
from prototag import recommended
from prototag.engine import memory_forecast

def peak():  # of this program alone; ru_maxrss begins with that of the one which started it
    with open("/proc/self/status") as file:
        return int(next(line for line in file if line.startswith("VmHWM")).split()[1]) << 10

estimate = {}
real = memory_forecast.require_memory
def note(found, remedy):
    estimate.setdefault("peak", found.peak)
    real(found, remedy)

memory_forecast.require_memory = note
rng = np.random.default_rng(0)
n, m, t = (int(word) for word in sys.argv[1:])
X = rng.standard_normal((n, m)).astype(np.float32)
Y = rng.random((n, t)) < 0.05
recommended(pilot=50).fit(X[:60], Y[:60])  # what is loaded at first use
estimate.clear()
before = peak()
recommended(pilot=200).fit(X, Y)
print(estimate["peak"], peak() - before)
"""


@pytest.mark.parametrize("shape", [(3000, 64, 40), (2500, 600, 100)], ids=str)
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing tells the peak")
def test_the_estimate_is_near_what_a_fit_takes(shape):
    command = [sys.executable, "-c", MEASURED, *map(str, shape)]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    estimated, taken = (int(word) for word in answer.stdout.split())
    assert 0.8 * taken < estimated < 2.0 * taken
