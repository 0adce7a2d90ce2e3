"""A fit without room is refused before it begins."""

from __future__ import annotations

import numpy as np
import pytest

from prototag import MCDL, ExemplarMCDL, recommended
from prototag.engine import memory_forecast


def test_memory_is_asked_of_the_machine():
    have = memory_forecast.available_bytes()
    assert have is None or have > 2**28


@pytest.mark.parametrize("estimator", [MCDL(3), ExemplarMCDL(), recommended()], ids=str)
def test_a_fit_without_room_is_refused_before_it_begins(monkeypatch, estimator):
    monkeypatch.setattr(memory_forecast, "available_bytes", lambda: 1 << 20)
    X, Y = np.eye(6), np.eye(6, dtype=int)
    with pytest.raises(MemoryError, match=r"need about .* GB.*are free: learn from fewer images"):
        estimator.fit(X, Y)
    assert not hasattr(estimator, "threshold_")


def test_a_machine_with_unknown_memory_is_not_limited(monkeypatch):
    def refuse(_):
        raise ValueError("unrecognized configuration name")

    monkeypatch.setattr(memory_forecast, "_meminfo", list)
    monkeypatch.setattr(memory_forecast, "_cgroup", list)
    monkeypatch.setattr(memory_forecast.os, "sysconf", refuse)
    assert memory_forecast.available_bytes() is None
    memory_forecast.require_memory(
        memory_forecast.MemoryEstimate("everything", 10**18, {"all": 0}), "wait"
    )
