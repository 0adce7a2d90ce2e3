"""Blocks over threads: whoever runs them, the bits are the same; work ahead stays in order."""

from __future__ import annotations

import pickle
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse
from threadpoolctl import threadpool_info

from engine_laws import ESTIMATORS
from prototag import sparse_encode
from prototag.engine import (
    Engine,
    Threads,
    batch_slices,
    map_rows,
    single_threaded_blas,
    threads,
    tree_sum,
)
from prototag.engine.threads import count_rows, map_in_order, run_batch, slice_rows
from prototag.mcdl.kmeans import k_means
from prototag.research.datasets import planted


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


class Carried(Engine):
    """Carries every function, argument and result through bytes, as between processes."""

    def stream(self, function, rows, shared=(), *, size):
        for part in batch_slices(count_rows(rows), size):
            task = pickle.loads(pickle.dumps((function, slice_rows(rows, part), shared)))
            with single_threaded_blas():
                answer = run_batch(*task)
            yield pickle.loads(pickle.dumps(answer))


class Processes(Engine):
    """Blocks in other processes."""

    def __init__(self, pool):
        self.pool = pool

    def stream(self, function, rows, shared=(), *, size):
        parts = [slice_rows(rows, part) for part in batch_slices(count_rows(rows), size)]
        futures = [self.pool.submit(run_batch, function, part, shared) for part in parts]
        return (future.result() for future in futures)


@pytest.fixture
def carried(monkeypatch):
    """Every engine carries its blocks through bytes."""
    monkeypatch.setattr(Threads, "stream", Carried.stream)


@pytest.fixture(scope="module")
def data():
    return planted(n=700, t=10, k=40, m=24, noise=0.4, random_state=0)


@pytest.fixture(scope="module")
def by_threads(data):
    return {
        name: make().fit(data.X, data.Y).decision_function(data.X)
        for name, make in ESTIMATORS.items()
    }


@pytest.mark.bits
@pytest.mark.parametrize("name", ESTIMATORS)
def test_blocks_can_be_carried_elsewhere(name, data, by_threads, carried):  # noqa: ARG001
    """No closure, no shared memory: the same bits through bytes."""
    model = ESTIMATORS[name]().fit(data.X, data.Y)
    assert_array_equal(model.decision_function(data.X), by_threads[name])


@pytest.mark.bits
def test_codes_are_the_same_bits_however_they_are_carried(data):
    plain = sparse_encode(data.X, data.X[:300])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Threads, "map", Carried.map)
        assert_array_equal(sparse_encode(data.X, data.X[:300]).toarray(), plain.toarray())


@pytest.mark.bits
def test_other_processes_give_the_same_bits(data):
    expected = k_means(data.X, 30, np.random.default_rng(0))
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        found = k_means(data.X, 30, np.random.default_rng(0), max_iter=20, engine=Processes(pool))
    assert_array_equal(found, expected)


def double(x, y, factor):
    return factor * x + (0 if y is None else y)


def shapes(x, y):
    return len(x), y.shape


@pytest.mark.parametrize("engine", [Threads(), Threads(3), Carried()])
def test_rows_are_cut_together_and_none_stays(engine):
    x, y = np.arange(10.0), sparse.csr_array(np.eye(10))
    assert_array_equal(map_rows(engine, double, [x, None], [2.0], size=3), 2 * x)
    parts = engine.map(shapes, [x, y], size=4)
    assert parts == [(4, (4, 10)), (4, (4, 10)), (2, (2, 10))]


def test_rows_that_differ_are_refused():
    with pytest.raises(ValueError, match=r"arrays of \[3, 4\] rows: all arrays"):
        Threads().map(double, [np.ones(3), np.ones(4)], [1.0], size=2)


@pytest.mark.parametrize("n", [1, 2, 3, 7, 8, 40, 100])
def test_sums_are_taken_in_one_tree(n):
    """Written down as brackets: the same for any engine, and balanced."""
    rows = [[str(number) for number in range(n)]]
    engines = [Threads(), Threads(2)]
    found = {
        tree_sum(engine, first, rows, add=lambda a, b: f"({a}+{b})", size=1) for engine in engines
    }
    assert len(found) == 1
    (text,) = found
    depth = max(text[:place].count("(") - text[:place].count(")") for place in range(len(text) + 1))
    assert depth <= np.ceil(np.log2(n)) + 1
    assert [int(word) for word in text.replace("(", "").replace(")", "").split("+")] == [*range(n)]


def first(rows):
    return rows[0]


@pytest.mark.parametrize("workers", [0, 1, 4])
def test_results_come_in_order(workers: int) -> None:
    def slow(number: int) -> int:
        time.sleep(0.002 * (number % 3))
        return number * number

    assert list(map_in_order(slow, range(30), workers=workers, window=7)) == [
        n * n for n in range(30)
    ]


def test_no_more_than_the_window_is_under_way() -> None:
    taken = 0

    def items():
        nonlocal taken
        for number in range(100):
            taken = number + 1
            yield number

    for count, _ in enumerate(map_in_order(lambda number: number, items(), workers=2, window=5), 1):
        assert taken - count <= 5


def test_a_reader_that_stops_stops_the_work() -> None:
    started = []
    stream = map_in_order(
        lambda n: started.append(n) or time.sleep(0.01), range(1000), workers=2, window=10
    )
    next(stream)
    stream.close()
    assert len(started) < 20
    assert not [t for t in threading.enumerate() if t.name.startswith("prototag-ahead")]


def test_errors_reach_the_reader() -> None:
    with pytest.raises(ZeroDivisionError):
        list(map_in_order(lambda number: 1 // number, [1, 0, 2], workers=2, window=2))
