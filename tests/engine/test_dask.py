"""A real cluster of two processes: the same bits as threads, whatever dies."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from threadpoolctl import threadpool_info

import prototag
from engine_laws import ESTIMATORS
from prototag import recommended
from prototag.coding.rbf_kernel import rbf_kernel_with_constant
from prototag.engine import Threads, map_rows, tree_sum
from prototag.engine import dask as engine_dask
from prototag.engine.dask import Dask, Versions
from prototag.engine.task_names import batch_name, display_name
from prototag.errors import ClusterError
from prototag.research.datasets import planted
from prototag.storage.npy_rows import StoredRows


@pytest.fixture(scope="module")
def cluster():
    with Dask.local(2) as engine:
        yield engine


@pytest.fixture(scope="module")
def data():
    return planted(n=400, t=6, k=30, m=24, noise=0.4, random_state=0)


def pids(engine):
    return [*engine.client.run(os.getpid).values()]


@pytest.fixture(scope="module")
def perishable():
    with Dask.local(2) as engine:
        yield engine


@pytest.fixture
def doomed(perishable):
    """A cluster whose workers may be killed: another process takes the place of each."""
    perishable.client.wait_for_workers(2, timeout=120)
    return perishable


# -- the same bits ---------------------------------------------------------------------------------


@pytest.mark.bits
@pytest.mark.parametrize("name", ["MCDL", "recommended", "recommended, out-of-core"])
def test_a_cluster_gives_the_bits_of_threads(name, data, cluster):
    expected = ESTIMATORS[name]().fit(data.X, data.Y).decision_function(data.X)
    model = ESTIMATORS[name]().set_params(engine=cluster).fit(data.X, data.Y)
    assert_array_equal(model.decision_function(data.X), expected)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_cluster_gives_the_bits_of_threads_though_a_worker_is_killed(name, data, doomed):
    expected = ESTIMATORS[name]().fit(data.X, data.Y).decision_function(data.X)
    victims = Victims(doomed)
    model = ESTIMATORS[name]().set_params(engine=victims).fit(data.X, data.Y)
    assert_array_equal(model.decision_function(data.X), expected)
    assert victims.calls > 1


class Victims(Dask):
    """A cluster that loses a worker in the middle of its first call."""

    def __init__(self, engine):
        vars(self).update(vars(engine))
        self.calls = 0

    def stream(self, function, rows, shared=(), *, size):
        self.calls += 1
        found = super().stream(function, rows, shared, size=size)
        if self.calls == 1:
            yield next(found)
            os.kill(pids(self)[0], signal.SIGKILL)
        yield from found


def scaled(x, table):
    return x * table[:1]


def test_what_is_shared_survives_the_worker_that_had_it(doomed):
    """Both workers die; blocks are still to come."""
    rows, table = np.arange(40.0), np.full(100_000, 3.0)
    found = doomed.stream(scaled, [rows], [table], size=1)
    parts = [next(found)]
    for victim in pids(doomed):
        os.kill(victim, signal.SIGKILL)
    parts += found
    assert_array_equal(np.concatenate(parts), 3 * rows)


def concat(a, b):
    return f"({a}+{b})"


def first(rows):
    return rows[0]


def test_sums_are_taken_in_the_tree_of_threads(cluster):
    rows = [[str(number) for number in range(21)]]
    found = [tree_sum(engine, first, rows, add=concat, size=1) for engine in (Threads(), cluster)]
    assert found[0] == found[1]


def test_rows_in_files_are_read_by_workers(cluster, tmp_path):
    x = np.arange(60, dtype=np.float32).reshape(20, 3)
    np.save(tmp_path / "a.npy", x[:9])
    np.save(tmp_path / "b.npy", x[9:])
    stored = StoredRows.from_files([tmp_path / "a.npy", tmp_path / "b.npy"])
    assert_array_equal(map_rows(cluster, scaled, [stored], [np.float32([2])], size=6), 2 * x)


def test_results_can_be_written_to_as_those_of_threads(cluster):
    found = map_rows(cluster, scaled, [np.ones(4)], [np.ones(1)], size=4)
    found += 1
    assert found[0] == 2


def threads_of_blas(_):
    np.ones((2, 2)) @ np.ones((2, 2))
    return [lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"]


def test_blas_has_one_thread_on_workers(cluster):
    for numbers in cluster.map(threads_of_blas, [range(4)], size=1):
        assert numbers
        assert set(numbers) == {1}


def test_nothing_to_do_is_no_work(cluster):
    assert cluster.map(first, [[]], size=3) == []


# -- back-pressure ---------------------------------------------------------------------------------


def noted(rows, folder):
    Path(folder, str(rows[0])).touch()
    return rows[0]


def test_only_a_few_blocks_are_under_way(cluster, tmp_path):
    found = cluster.stream(noted, [range(60)], [str(tmp_path)], size=1)
    most = 0
    for seen, _ in enumerate(found, 1):
        time.sleep(0.002)
        most = max(most, len(os.listdir(tmp_path)) - seen)
    assert most <= 2 * engine_dask.BATCHES_PER_THREAD


def test_who_stops_looking_stops_the_work(cluster, tmp_path):
    found = cluster.stream(noted, [range(200)], [str(tmp_path)], size=1)
    next(found)
    found.close()
    assert cluster.map(first, [[1, 2]], size=1) == [1, 2]
    assert len(os.listdir(tmp_path)) <= 1 + 2 * engine_dask.BATCHES_PER_THREAD


def test_what_is_shared_again_is_not_sent_again(cluster):
    table = np.full(100_000, 2.0)
    for _ in range(2):
        cluster.map(scaled, [np.ones(2)], [table], size=1)
    assert len({future.key for future, _ in cluster._shared_futures.values()}) == len(
        cluster._shared_futures
    )
    before = len(cluster._shared_futures)
    cluster.map(scaled, [np.ones(2)], [table.copy()], size=1)
    assert len(cluster._shared_futures) == before
    table[0] = 5  # changed in place: other content
    assert cluster.map(scaled, [np.ones(2)], [table], size=1)[0] == 5


# -- what goes wrong -------------------------------------------------------------------------------


def fail(rows):
    raise ZeroDivisionError(f"block {rows[0]}")


def die(_):
    os.kill(os.getpid(), signal.SIGKILL)


def test_exceptions_of_blocks_arrive_as_themselves(cluster):
    with pytest.raises(ZeroDivisionError, match="block 0"):
        cluster.map(fail, [range(4)], size=1)


def test_a_block_that_kills_workers_is_given_up():
    with (
        Dask.local(4) as engine,
        pytest.raises(ClusterError, match=r'"Die-1/1" was given up: 4 workers died over it'),
    ):
        engine.map(die, [range(1)], size=1)


def test_a_block_is_refused_by_a_worker_of_another_version(cluster, monkeypatch):
    monkeypatch.setattr(prototag, "__version__", "9.9")
    with pytest.raises(
        ClusterError, match=r"the worker tcp://.* has prototag .*; this process has prototag 9\.9"
    ):
        cluster.map(first, [[1]], size=1)


def test_another_version_is_refused_on_connecting(cluster, monkeypatch):
    monkeypatch.setattr(engine_dask, "current_versions", lambda: Versions("9.9", "3.11", "2"))
    with pytest.raises(ClusterError, match=r"tcp://\S+ has prototag .* has prototag 9\.9"):
        Dask(cluster.client.scheduler.address)


def test_no_scheduler_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(engine_dask, "CONNECT_TIMEOUT_SECONDS", 0.5)
    with pytest.raises(ClusterError, match=r"no scheduler answers at tcp://127\.0\.0\.1:9"):
        Dask("tcp://127.0.0.1:9")
    with pytest.raises(ClusterError, match="neither the address of a scheduler"):
        Dask(tmp_path / "none.json")
    (tmp_path / "odd.json").write_text("{}")
    with pytest.raises(ClusterError, match="no scheduler answers"):
        Dask(tmp_path / "odd.json")


def test_a_cluster_without_workers_is_waited_for_and_given_up(monkeypatch):
    monkeypatch.setattr(engine_dask, "POLL_SECONDS", 0.05)
    with Dask.local(0) as engine:
        engine.worker_timeout = 0.2
        with pytest.raises(ClusterError, match=r"no worker for 0 seconds: start some"):
            engine.map(first, [[1]], size=1)


# -- manners ---------------------------------------------------------------------------------------


def test_estimators_share_the_engine_and_files_do_not_know_it(cluster, data, tmp_path):
    model = recommended(pilot=100, engine=cluster)
    assert clone(model).engine is cluster
    assert model.get_params()["engine"] is cluster
    model.fit(data.X[:80], data.Y[:80]).save(tmp_path / "a.prototag")
    assert b"Dask" not in (tmp_path / "a.prototag").read_bytes()
    assert prototag.load(tmp_path / "a.prototag").engine is None


def test_an_engine_that_travels_connects_again(cluster):
    with pickle.loads(pickle.dumps(cluster)) as again:
        assert again.map(first, [[3]], size=1) == [3]


def test_a_scheduler_file_is_as_good_as_an_address(cluster, tmp_path):
    address = cluster.client.scheduler.address
    (tmp_path / "scheduler.json").write_text(json.dumps({"address": address}))
    with Dask(tmp_path / "scheduler.json") as engine:
        assert engine.map(first, [[3]], size=1) == [3]


def test_names_are_words(cluster):
    assert display_name(first) == "First"
    assert display_name(np.add) == "Add"
    seen = []
    submit = cluster.client.submit

    def told(*arguments, **options):
        seen.append(options["key"])
        return submit(*arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cluster.client, "submit", told)
        cluster.map(rbf_kernel_with_constant, [np.ones((4, 2))], [np.ones((1, 2)), 1.0], size=2)
    assert [key.rpartition("-")[0] for key in seen] == [
        "Compare with landmarks-1/2",
        "Compare with landmarks-2/2",
    ]


@batch_name("Count co-occurrences: of tags")
def named_batch(x):
    """Docstrings are for readers of code."""


def test_a_batch_function_carries_its_display_name():
    assert (
        display_name(named_batch) == "Count co occurrences of tags"
    )  # Dask splits names at hyphens
    assert named_batch.__qualname__ == "named_batch"  # workers find the function by its name


def test_nobody_loads_dask_unasked():
    code = "import sys, prototag.engine, prototag.annotator.annotator; print('dask' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "False"
