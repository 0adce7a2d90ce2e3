"""Whether a fit has room."""

from __future__ import annotations

import numpy as np
import pytest

from prototag import MCDL
from prototag.engine import memory

paper = {"n": 87_388, "m": 200, "t": 568, "k": 20_000, "nonzeros": 20}


def test_the_largest_collection_of_the_paper_fits_six_gigabytes():
    assert memory.needed(**paper) < 6 * 2**30


@pytest.mark.parametrize("name", paper)
def test_more_of_anything_needs_more(name):
    assert memory.needed(**{**paper, name: 2 * paper[name]}) > memory.needed(**paper)


def test_memory_is_asked_of_the_machine():
    have = memory.available()
    assert have is None or have > 2**28


def test_a_fit_without_room_is_refused_before_it_begins(monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: 1 << 20)
    X, Y = np.eye(6), np.eye(6, dtype=int)
    with pytest.raises(MemoryError, match=r"need about .* GB.*lower n_prototypes or fit fewer"):
        MCDL(n_prototypes=3).fit(X, Y)


def test_a_machine_that_does_not_say_is_trusted(monkeypatch):
    def refuse(_):
        raise ValueError("unrecognized configuration name")

    monkeypatch.setattr(memory.os, "sysconf", refuse)
    assert memory.available() is None
    memory.require(n=10**12, m=10**6, t=10**6, k=10**9, nonzeros=20)
