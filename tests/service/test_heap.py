"""Freed memory goes back to the system."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
from pathlib import Path
from prototag.service import heap

def anonymous():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))

assert heap.limit_heaps()
held = [bytes(60_000) for _ in range(2_000)]  # 120 MB in pieces too small for pages of their own
last = bytes(60_000)  # above them, so that the heap cannot shrink by itself
del held
full = anonymous()
heap.release()
print(full - anonymous())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a function of glibc")
def test_free_pages_are_returned():
    freed = subprocess.check_output([sys.executable, "-c", PROGRAM], text=True)
    assert int(freed) > 80_000  # kB


def test_it_does_nothing_elsewhere(monkeypatch):
    from prototag.service import heap

    heap._glibc.cache_clear()
    monkeypatch.setattr(sys, "platform", "win32")
    assert not heap.limit_heaps()
    assert not heap.release()
    heap._glibc.cache_clear()
