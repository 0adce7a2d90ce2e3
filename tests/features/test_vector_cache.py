"""The cache: content decides, kills and neighbours do no harm, the size is bounded."""

import importlib
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from prototag.errors import CacheError
from prototag.features.vector_cache import APPLICATION_ID, VectorCache, default_path, stamp_of
from prototag.images.decode import digest

RECIPE = b"r" * 16


def key(number: int) -> bytes:
    return digest(str(number).encode())


def vectors(n: int, width: int = 8) -> np.ndarray:
    return np.random.default_rng(n).random((n, width), np.float32)


@pytest.fixture
def cache(tmp_path: Path):
    with VectorCache(tmp_path / "deep" / "folder" / "vectors.sqlite") as cache:
        yield cache


def test_what_is_stored_comes_back_bit_for_bit(cache: VectorCache) -> None:
    X = vectors(1200)
    cache.store(RECIPE, [key(i) for i in range(1200)], X)
    found = cache.vectors((key(i) for i in range(1300)), RECIPE)
    assert len(found) == len(cache) == 1200
    assert all(np.array_equal(found[key(i)], X[i]) for i in range(1200))
    assert cache.vectors([key(0)], b"another recipe..") == {}


def test_stamps_lead_to_contents(cache: VectorCache) -> None:
    cache.store(RECIPE, [key(1)], vectors(1), [(b"stamp", key(1))])
    assert cache.contents([b"stamp", b"other"]) == {b"stamp": key(1)}


def test_a_stamp_changes_with_the_file_and_waits_until_it_is_cool(tmp_path: Path) -> None:
    file = tmp_path / "picture"
    file.write_bytes(b"one")
    assert stamp_of(file) is None  # written this very moment
    assert stamp_of(tmp_path / "missing") is None
    time.sleep(2.1)
    first = stamp_of(file)
    assert first is not None
    assert stamp_of(file) == first
    os.utime(file, ns=(0, 0))  # also changes the time of change, which nobody can set
    assert stamp_of(file) is None


def test_the_size_is_bounded_and_the_unused_go_first(tmp_path: Path) -> None:
    path = tmp_path / "vectors.sqlite"
    with VectorCache(path, max_bytes=1 << 20) as cache:
        cache._today -= 10
        cache.store(RECIPE, [key(i) for i in range(100)], vectors(100, 1000))
        cache._today += 10
        assert len(cache.vectors([key(i) for i in range(50)], RECIPE)) == 50  # used today
        cache.store(RECIPE, [key(i) for i in range(100, 240)], vectors(140, 1000))
        assert cache.size_in_use() <= 1 << 20
        everything = {key(i) for i in range(240)}
        lost = everything - set(cache.vectors(everything, RECIPE))
        assert lost
        assert lost <= {key(i) for i in range(50, 100)}
        for start in range(240, 4000, 100):
            cache.store(RECIPE, [key(i) for i in range(start, start + 100)], vectors(100, 1000))
    assert path.stat().st_size < 2 << 20


@pytest.mark.parametrize("head", [b"SQLite format 3\0", bytes(16)], ids=["torn", "zeroed"])
def test_a_damaged_file_is_set_aside_with_a_warning(tmp_path: Path, head: bytes) -> None:
    path = tmp_path / "vectors.sqlite"
    path.write_bytes(head + b"no page of a database" * 100)
    with pytest.warns(UserWarning, match="was damaged"):
        cache = VectorCache(path)
    cache.store(RECIPE, [key(0)], vectors(1))
    assert len(cache) == 1
    cache.close()
    assert len(list(tmp_path.glob("vectors.sqlite.damaged-*"))) == 1


@pytest.mark.parametrize("version", [0, 1, 2, 99])
def test_files_of_other_programs_are_left_alone(tmp_path: Path, version: int) -> None:
    path = tmp_path / "letter.txt"
    path.write_bytes(b"Dear reader, " * 1000)
    with pytest.raises(CacheError, match="it is not a cache, and was not changed"):
        VectorCache(path)
    other = tmp_path / "albums.sqlite"
    with sqlite3.connect(other) as base:
        base.execute("CREATE TABLE albums (name)")
        base.execute(f"PRAGMA user_version = {version}")
    base.close()
    before = other.read_bytes()
    with pytest.raises(CacheError, match="database of another program"):
        VectorCache(other)
    assert other.read_bytes() == before
    assert path.read_bytes() == b"Dear reader, " * 1000
    assert sorted(tmp_path.iterdir()) == [other, path]


@pytest.mark.parametrize("what", ["bit", "short", "other row", "not finite"])
def test_what_is_not_as_it_was_stored_is_not_known(cache: VectorCache, what: str) -> None:
    X = vectors(3)
    cache.store(RECIPE, [key(i) for i in range(3)], X)
    found = [bytearray(cache.vectors([key(i)], RECIPE)[key(i)].tobytes()) for i in range(2)]
    found[0][5] ^= 1
    values = {"bit": found[0], "short": b"\0\0\0\0", "other row": found[1], "not finite": None}
    if what == "not finite":
        cache.store(RECIPE, [key(0)], np.full((1, 8), np.nan, np.float32))
    else:
        changed = "UPDATE vectors SET vector = ? WHERE content = ?"
        cache._conn.execute(changed, [bytes(values[what]), key(0)])
    assert set(cache.vectors([key(i) for i in range(3)], RECIPE)) == {key(1), key(2)}
    cache.store(RECIPE, [key(0)], X[:1])
    assert np.array_equal(cache.vectors([key(0)], RECIPE)[key(0)], X[0])


def test_a_damaged_page_is_set_aside_when_it_is_met(tmp_path: Path) -> None:
    path = tmp_path / "vectors.sqlite"
    with VectorCache(path) as cache:
        cache.store(RECIPE, [key(i) for i in range(200)], vectors(200, 1000))
    data = bytearray(path.read_bytes())
    for page in range(1, len(data) >> 14):  # the first is read when the file is opened
        data[page << 14 : (page << 14) + 200] = b"\xff" * 200
    path.write_bytes(data)
    with VectorCache(path) as cache:
        with pytest.warns(UserWarning, match="was damaged"):
            assert cache.vectors([key(i) for i in range(200)], RECIPE) == {}
        cache.store(RECIPE, [key(0)], vectors(1))
        assert list(cache.vectors([key(0)], RECIPE)) == [key(0)]
    with VectorCache(path) as cache:
        assert len(cache) == 1
    assert len(list(tmp_path.glob("vectors.sqlite.damaged-*"))) == 1


@pytest.mark.parametrize("folder_mode", [0o777, 0o755])
def test_what_can_be_read_and_not_written_is_read(folder_mode: int) -> None:
    import tempfile

    folder = Path(tempfile.mkdtemp())
    path = folder / "vectors.sqlite"
    with VectorCache(path) as cache:
        cache._today -= 1  # so that the use of today would be noted
        cache.store(RECIPE, [key(0)], vectors(1))
    path.chmod(0o444)
    folder.chmod(folder_mode)
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        with VectorCache(path) as cache:
            assert list(cache.vectors([key(0)], RECIPE)) == [key(0)]
            with pytest.raises(CacheError, match="cannot be written"):
                cache.store(RECIPE, [key(1)], vectors(1))
            assert list(cache.vectors([key(0)], RECIPE)) == [key(0)]
    finally:
        if root:
            os.seteuid(0)
        folder.chmod(0o755)


def test_what_cannot_be_opened_reports_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(CacheError, match=r"cannot be opened.*another path or cache=None"):
        VectorCache(tmp_path / "file" / "vectors.sqlite")
    path = tmp_path / "new.sqlite"
    with sqlite3.connect(path) as base:
        base.execute("PRAGMA user_version = 99")
        base.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    base.close()
    with pytest.raises(CacheError, match="version 99, this program needs 2"):
        VectorCache(path)
    with pytest.raises(ValueError, match="at least"):
        VectorCache(tmp_path / "small.sqlite", max_bytes=10)


def test_clear_forgets_all(cache: VectorCache) -> None:
    cache.store(RECIPE, [key(1)], vectors(1), [(b"stamp", key(1))])
    cache.clear()
    assert len(cache) == 0
    assert cache.contents([b"stamp"]) == {}


def test_the_users_own_place_wins(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PROTOTAG_CACHE", str(tmp_path / "mine"))
    assert default_path() == tmp_path / "mine"


@pytest.mark.parametrize(
    ("system", "place"),
    [
        ("unix.Unix", ".cache/prototag"),
        ("macos.MacOS", "Library/Caches/prototag"),
        ("windows.Windows", "AppData/Local/prototag/Cache"),
    ],
)
def test_each_system_has_its_place_for_caches(monkeypatch, tmp_path: Path, system, place) -> None:
    module, name = system.split(".")
    monkeypatch.delenv("PROTOTAG_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "AppData" / "Local"))
    chosen = getattr(importlib.import_module(f"platformdirs.{module}"), name)
    monkeypatch.setattr("platformdirs.PlatformDirs", chosen)
    if module == "windows":
        windows = importlib.import_module("platformdirs.windows")
        monkeypatch.setattr(windows, "get_win_folder", windows.get_win_folder_from_env_vars)
    assert default_path() == tmp_path / place / "vectors.sqlite"


WRITER = """
import sys
import numpy as np
from prototag.features.vector_cache import VectorCache
from prototag.images.decode import digest
first, path = int(sys.argv[1]), sys.argv[2]
cache = VectorCache(path)
for batch in range(int(sys.argv[3])):
    numbers = range(first + 10 * batch, first + 10 * batch + 10)
    keys = [digest(str(number).encode()) for number in numbers]
    cache.store(b"r" * 16, keys, np.float32([[number] * 500 for number in numbers]))
    print(batch, flush=True)
"""


def writer(first: int, path: Path, batches: int) -> subprocess.Popen:
    command = [sys.executable, "-c", WRITER, str(first), str(path), str(batches)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_two_processes_write_at_once(tmp_path: Path) -> None:
    path = tmp_path / "vectors.sqlite"
    both = [writer(first, path, 30) for first in (0, 150)]  # the second half is written by both
    for process in both:
        process.communicate(timeout=60)
        assert process.returncode == 0
    with VectorCache(path) as cache:
        found = cache.vectors([key(i) for i in range(450)], RECIPE)
    assert len(found) == 450
    assert all((found[key(i)] == i).all() for i in range(450))


def test_a_kill_loses_no_stored_batch(tmp_path: Path) -> None:
    path = tmp_path / "vectors.sqlite"
    for _ in range(3):
        process = writer(0, path, 10_000)
        stored = [int(process.stdout.readline()) for _ in range(20)]
        process.send_signal(signal.SIGKILL)
        stored += [int(line) for line in process.stdout.read().split()]
        process.wait()
        process.stdout.close()
        with VectorCache(path) as cache:
            assert cache._conn.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            numbers = range(10 * (max(stored) + 1))
            found = cache.vectors([key(i) for i in numbers], RECIPE)
        assert all((found[key(i)] == i).all() for i in numbers)
