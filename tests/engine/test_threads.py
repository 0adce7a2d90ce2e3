"""Blocks over threads."""

from __future__ import annotations

import threading

import pytest
from threadpoolctl import threadpool_info

from prototag.engine import Threads, threads


@pytest.mark.parametrize("n_jobs", [None, 1, 2, 7, -1])
@pytest.mark.parametrize(("n", "size"), [(0, 3), (1, 3), (3, 3), (10, 3)])
def test_blocks_cover_everything_once_in_order(n, size, n_jobs):
    parts = Threads(n_jobs).map(list, [range(n)], size=size)
    assert [row for part in parts for row in part] == list(range(n))
    assert all(1 <= len(part) <= size for part in parts)


def test_counts_of_threads(monkeypatch):
    monkeypatch.setattr(threads, "_cores", lambda: 8)
    assert [threads.count_threads(n) for n in (None, 1, 3, -1, -2, -8, -20)] == [
        1,
        1,
        3,
        8,
        7,
        1,
        1,
    ]
    with pytest.raises(ValueError, match=r"n_jobs=0 has no meaning.*-1 for all cores"):
        threads.count_threads(0)


def test_n_jobs_is_honoured():
    """Two blocks that wait for each other end only if two threads run them."""
    meeting = threading.Barrier(2, timeout=60)
    names = Threads(2).map(
        lambda _: (meeting.wait(), threading.current_thread().name)[1], [range(2)], size=1
    )
    assert all(name.startswith("prototag") for name in names)
    assert len(set(names)) == 2
    alone = Threads().map(lambda _: threading.current_thread(), [range(3)], size=1)
    assert set(alone) == {threading.current_thread()}


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_blas_has_one_thread_inside_and_its_own_number_after(n_jobs):
    def count(_=None):
        return [lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"]

    before = count()
    inside = Threads(n_jobs).map(count, [range(2)], size=1)
    assert before
    assert all(number == 1 for numbers in inside for number in numbers)
    assert count() == before


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_the_first_error_comes_out(n_jobs):
    def fail(part):
        if part.start >= 2:
            raise ZeroDivisionError(part.start)
        return part.start

    with pytest.raises(ZeroDivisionError, match="2"):
        Threads(n_jobs).map(fail, [range(6)], size=2)
