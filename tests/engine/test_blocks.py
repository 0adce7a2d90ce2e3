"""The contract of an engine: whoever runs the blocks, the bits are the same."""

from __future__ import annotations

import pickle
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from prototag import MCDL, ExemplarMCDL, recommended, sparse_encode
from prototag.engine import Threads, blocks, one_thread, run, total
from prototag.engine.blocks import cut, height
from prototag.mcdl.kmeans import k_means
from prototag.research.datasets import planted


class Carried:
    """Carries every function, argument and result through bytes, as between processes."""

    def map(self, function, rows, shared=(), *, size):
        answer = []
        for part in blocks(height(rows), size):
            task = pickle.dumps((function, cut(rows, part), shared))
            given, mine, others = pickle.loads(task)
            with one_thread():
                answer.append(pickle.loads(pickle.dumps(given(*mine, *others))))
        return answer


class Processes:
    """Blocks in other processes."""

    def __init__(self, pool):
        self.pool = pool

    def map(self, function, rows, shared=(), *, size):
        parts = [cut(rows, part) for part in blocks(height(rows), size)]
        futures = [self.pool.submit(function, *part, *shared) for part in parts]
        return [future.result() for future in futures]


@pytest.fixture
def carried(monkeypatch):
    """Every engine carries its blocks through bytes."""
    monkeypatch.setattr(Threads, "map", Carried.map)


@pytest.fixture(scope="module")
def data():
    return planted(n=700, t=10, k=40, m=24, noise=0.4, random_state=0)


ESTIMATORS = {
    "MCDL": lambda: MCDL(230, init_iter=1, max_iter=1, random_state=0),
    "MCDL, published": lambda: MCDL.published(60, init_iter=1, max_iter=1, random_state=0),
    "ExemplarMCDL": lambda: ExemplarMCDL(random_state=0),
    "ExemplarMCDL, fewer": lambda: ExemplarMCDL(80, random_state=0),
    "recommended": lambda: recommended(pilot=200),
    "recommended, fewer": lambda: recommended(n_prototypes=80, pilot=200),
}


@pytest.fixture(scope="module")
def by_threads(data):
    return {
        name: make().fit(data.X, data.Y).decision_function(data.X)
        for name, make in ESTIMATORS.items()
    }


@pytest.mark.parametrize("name", ESTIMATORS)
def test_blocks_can_be_carried_elsewhere(name, data, by_threads, carried):  # noqa: ARG001
    """No closure, no shared memory: the same bits through bytes."""
    model = ESTIMATORS[name]().fit(data.X, data.Y)
    assert_array_equal(model.decision_function(data.X), by_threads[name])


def test_codes_are_the_same_bits_however_they_are_carried(data):
    plain = sparse_encode(data.X, data.X[:300])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Threads, "map", Carried.map)
        assert_array_equal(sparse_encode(data.X, data.X[:300]).toarray(), plain.toarray())


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
    assert_array_equal(run(engine, double, [x, None], [2.0], size=3), 2 * x)
    parts = engine.map(shapes, [x, y], size=4)
    assert parts == [(4, (4, 10)), (4, (4, 10)), (2, (2, 10))]


def test_rows_that_differ_are_refused():
    with pytest.raises(ValueError, match=r"arrays of \[3, 4\] rows cannot be cut"):
        Threads().map(double, [np.ones(3), np.ones(4)], [1.0], size=2)


@pytest.mark.parametrize("n", [1, 2, 3, 7, 8, 40, 100])
def test_sums_are_taken_in_one_tree(n):
    """Written down as brackets: the same for any engine, and balanced."""
    rows = [[str(number) for number in range(n)]]
    engines = [Threads(), Threads(2)]
    found = {
        total(engine, first, rows, add=lambda a, b: f"({a}+{b})", size=1) for engine in engines
    }
    assert len(found) == 1
    (text,) = found
    depth = max(text[:place].count("(") - text[:place].count(")") for place in range(len(text) + 1))
    assert depth <= np.ceil(np.log2(n)) + 1
    assert [int(word) for word in text.replace("(", "").replace(")", "").split("+")] == [*range(n)]


def first(rows):
    return rows[0]
