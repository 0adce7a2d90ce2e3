"""One file, many threads: what is read is of one moment, what is written is whole."""

from __future__ import annotations

import subprocess
import sys
import threading
from contextlib import suppress

import numpy as np
import pytest

from history import undo_last
from prototag import Library
from prototag.errors import LibraryError
from tests.library.conftest import RECIPE, plant


def test_many_threads_decide_and_read(planted):
    names = [f"tag {number}" for number in range(8)]
    errors = []

    def work(name):
        try:
            for _ in range(10):
                planted.accept([1, 2, 3], [name])
                assert len({planted.picture(n).tags.count(name) for n in (1, 2, 3)}) == 1
                planted.clear([1, 2, 3], [name])
                planted.tags(), planted.history(5), planted.status()
            planted.accept([4], [name])
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert planted.picture(4).tags == names
    assert planted.picture(1).tags == []
    assert len(planted.history(10_000)) == 8 * (10 * 6 + 1)
    assert planted.check() == []


def test_connections_of_threads_that_ended_are_closed(planted):
    for _ in range(20):
        thread = threading.Thread(target=planted.status)
        thread.start()
        thread.join()
    assert len(planted.store._readers) < 4


def test_what_is_read_is_of_one_moment(planted):
    with planted.store.read() as conn:
        assert conn.execute("SELECT count(*) FROM decisions").fetchone()[0] == 0
        thread = threading.Thread(target=planted.accept, args=([1], ["cat"]))
        thread.start()
        thread.join()
        assert conn.execute("SELECT count(*) FROM decisions").fetchone()[0] == 0
    assert planted.store.last_decision() == 1


def test_what_fails_is_not_written(planted):
    with suppress(KeyError), planted.store.write() as conn:
        conn.execute("INSERT INTO settings VALUES ('a', 'b')")
        raise KeyError
    assert planted.store.setting("a", "none") == "none"
    with planted.store.write() as conn, planted.store.write() as inner:
        inner.execute("INSERT INTO settings VALUES ('a', 'b')")
        assert planted.store.setting("a", "none") == "b"  # one sees what one writes
    assert planted.store.setting("a", "none") == "b"
    assert conn is inner


def test_vectors_and_labels_as_arrays(planted):
    ids, X = planted.store.vectors(RECIPE)
    assert ids.tolist() == [1, 2, 3, 4, 5, 6]
    assert X.dtype == np.float32
    assert np.array_equal(X, planted.store.vectors()[1])  # the commonest recipe
    assert planted.store.vectors(b"another")[1].shape == (0, 0)
    planted.accept([2], ["cat"])
    planted.reject([1], ["cat"])
    labels = planted.store.labels()
    assert [column.tolist() for column in labels] == [[1, 2], [1, 1], [0, 1], [True, True]]


def test_counts_are_what_counting_gives(planted):
    rng = np.random.default_rng(0)
    for _ in range(100):
        picture, tag = int(rng.integers(1, 7)), f"tag {rng.integers(3)}"
        planted.decide([(picture, tag, "accepted")])
        planted.decide([(picture, tag, str(rng.choice(["accepted", "rejected", "cleared"])))])
    planted.rename("tag 1", "tag 2")
    with planted.store.write() as conn:
        for probability in (0.1, 0.2):
            conn.execute(
                "INSERT OR REPLACE INTO suggestions SELECT t.id, p.id, ?, 1, -1 "
                "FROM tags t CROSS JOIN pictures p",
                (probability,),
            )
        conn.execute("DELETE FROM suggestions WHERE picture = 3")
    undo_last(planted, 3)
    with planted.store.write() as conn:
        conn.execute("UPDATE files SET present = 0 WHERE picture = 2")
    planted.prune()
    with planted.store.read() as conn:
        assert not conn.execute(
            "SELECT * FROM pictures p WHERE n_tags != (SELECT count(*) FROM labels WHERE picture = "
            "p.id AND value = 1) OR n_decided != (SELECT count(*) FROM labels WHERE picture = p.id "
            "AND source = 'decision') OR n_files != (SELECT count(*) FROM files WHERE picture = "
            "p.id AND present = 1) OR n_suggestions != (SELECT count(*) FROM suggestions "
            "WHERE picture = p.id) OR n_unwritten != (SELECT count(*) FROM labels "
            "WHERE picture = p.id AND value = 1 AND source = 'decision' AND file_value IS NOT 1)"
        ).fetchall()
        assert not conn.execute(
            "SELECT * FROM tags t WHERE n_pictures != (SELECT count(*) FROM labels "
            "WHERE tag = t.id AND value = 1) OR n_rejected != (SELECT count(*) FROM labels "
            "WHERE tag = t.id AND value = 0) OR n_accepted != n_pictures "
            "OR n_suggestions != (SELECT count(*) FROM suggestions WHERE tag = t.id)"
        ).fetchall()
        stand = conn.execute("SELECT count(*) FROM decisions WHERE undone = 0").fetchone()[0]
    assert planted.status().decisions == stand


def test_a_closed_library_is_reported(tmp_path):
    library = Library(plant(tmp_path / "a.library", 1))
    library.close()
    library.close()
    for call in (library.status, lambda: library.accept([1], ["cat"])):
        with pytest.raises(LibraryError, match="was closed"):
            call()


def test_two_processes_decide_at_once(planted):
    code = (
        "import sys\n"
        "from prototag import Library\n"
        "with Library(sys.argv[1]) as library:\n"
        "    for number in range(60):\n"
        "        library.accept([1 + number % 6], [f'{sys.argv[2]} {number}'])\n"
    )
    command = [sys.executable, "-c", code, str(planted.path)]
    processes = [subprocess.Popen([*command, name]) for name in ("a", "b")]
    assert [process.wait() for process in processes] == [0, 0]
    assert planted.status().decisions == 120
    assert len({decision.batch for decision in planted.history(1000)}) == 120
    assert planted.check() == []
