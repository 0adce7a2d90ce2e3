"""The file: made, migrated, refused; what a disk does to it is said in words."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
import sys
import threading
from contextlib import suppress

import pytest

from prototag import Library
from prototag.errors import LibraryError
from prototag.library import schema
from prototag.library.database import Store
from tests.library.conftest import plant


def columns(conn):
    tables = conn.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    ).fetchall()
    return {
        table: [row[1] for row in conn.execute(f"PRAGMA table_info({table})")]
        for (table,) in tables
    }


def test_a_new_file_has_all_tables_and_the_application_id(tmp_path):
    schema.create(tmp_path / "a.library")
    conn = sqlite3.connect(tmp_path / "a.library")
    assert conn.execute("PRAGMA application_id").fetchone()[0] == int.from_bytes(b"PTli", "big")
    assert conn.execute("PRAGMA user_version").fetchone()[0] == len(schema.MIGRATIONS)
    assert conn.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
    assert {"pictures", "files", "vectors", "tags", "labels", "decisions"} < {*columns(conn)}
    conn.close()


def test_a_file_that_is_there_is_not_replaced(tmp_path):
    (tmp_path / "a.library").write_text("mine")
    with pytest.raises(LibraryError, match="exists already"):
        schema.create(tmp_path / "a.library")
    assert (tmp_path / "a.library").read_text() == "mine"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is not a library"),
        (b"\xff\xd8\xff a picture", "is not a library"),
        (b"SQLite format 3\0" + b"\7" * 5000, "is not a library|damaged"),
    ],
)
def test_what_is_no_library_is_refused_and_left(tmp_path, content, words):
    path = tmp_path / "a.library"
    path.write_bytes(content)
    with pytest.raises(LibraryError, match=words):
        Store(path)
    assert path.read_bytes() == content
    assert [one.name for one in tmp_path.iterdir()] == ["a.library"]


def test_a_database_of_another_program_is_refused(tmp_path):
    conn = sqlite3.connect(tmp_path / "a.library")
    conn.execute("CREATE TABLE theirs (a)")
    conn.commit()
    conn.close()
    before = (tmp_path / "a.library").read_bytes()
    with pytest.raises(LibraryError, match="database of another program"):
        Store(tmp_path / "a.library")
    assert (tmp_path / "a.library").read_bytes() == before


def test_nothing_is_there(tmp_path):
    with pytest.raises(LibraryError, match=r"no library .*none: make one with `prototag library"):
        Library(tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_a_newer_version_is_refused_and_left(tmp_path):
    path = plant(tmp_path / "a.library", 2)
    conn = sqlite3.connect(path)
    conn.execute("PRAGMA user_version = 99")
    conn.close()
    before = path.read_bytes()
    known = len(schema.MIGRATIONS)
    words = f"of version 99, this program knows versions up to {known}: upgrade prototag"
    with pytest.raises(LibraryError, match=words):
        Library(path)
    assert path.read_bytes() == before


def test_migrations_are_made_in_order_each_whole_or_not_at_all(tmp_path):
    path = plant(tmp_path / "a.library", 2)
    more = (*schema.MIGRATIONS, ("ALTER TABLE tags ADD COLUMN colour TEXT",))
    broken = (*more, ("CREATE TABLE fine (a)", "CREATE TABLE tags (a)"))
    with pytest.raises(LibraryError, match="tags already exists"):
        schema.connect(path, migrations=broken)
    conn = schema.connect(path, migrations=more)  # the first of the two was made
    assert conn.execute("PRAGMA user_version").fetchone()[0] == len(more)
    assert "colour" in columns(conn)["tags"]
    assert "fine" not in columns(conn)
    assert conn.execute("SELECT count(*) FROM pictures").fetchone()[0] == 2
    conn.close()
    with pytest.raises(LibraryError, match="upgrade prototag"):
        Store(path)


def test_many_processes_may_make_the_same_migrations(tmp_path):
    path = plant(tmp_path / "a.library", 2)
    more = (*schema.MIGRATIONS, ("ALTER TABLE tags ADD COLUMN colour TEXT",))
    errors = []

    def open_it():
        try:
            schema.connect(path, migrations=more).close()
        except LibraryError as error:
            errors.append(error)

    threads = [threading.Thread(target=open_it) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_damage_is_found_at_opening_or_by_a_full_check(tmp_path):
    path = plant(tmp_path / "a.library", 500)
    data = bytearray(path.read_bytes())
    for page in range(4, len(data) // 8192, 3):
        data[page * 8192 : page * 8192 + 2000] = os.urandom(2000)
    path.write_bytes(data)
    with pytest.raises(LibraryError, match=r"is damaged .*restore a copy of it, or an export"):
        Library(path)
    assert path.read_bytes() == bytes(data)


def test_a_vector_that_is_not_as_it_was_stored_is_not_known(planted):
    with planted.store.write() as conn:
        conn.execute("UPDATE vectors SET vector = zeroblob(16) WHERE picture = 3")
    ids, X = planted.store.vectors(b"planted recipe..")
    assert ids.tolist() == [1, 2, 4, 5, 6]
    assert X.shape == (5, 4)
    assert planted.check() == ["the vector of picture 3 is not as it was stored: scan again"]


def test_of_a_large_file_only_small_tables_are_looked_at(planted, monkeypatch):
    asked = []
    with planted.store.read() as conn:
        conn.set_trace_callback(asked.append)
        assert schema.find_damage(conn) == []
        assert any("quick_check(20)" in query for query in asked)
        asked.clear()
        monkeypatch.setattr(schema, "MAX_QUICK_CHECK_BYTES", 0)
        assert schema.find_damage(conn) == []
        assert not any("quick_check(20)" in query for query in asked)
        assert sum("quick_check" in query for query in asked) == len(schema.SMALL_TABLES)
        conn.set_trace_callback(None)


def test_without_shared_memory_a_rollback_journal_is_used(tmp_path):
    """A network drive has none; SQLite's dot-file locks behave so on any disk."""
    path = tmp_path / "a.library"
    path.touch()
    conn = schema.connect(path, new=True, vfs="unix-dotfile")
    assert conn.execute("PRAGMA journal_mode").fetchone()[0] == "delete"
    conn.execute("INSERT INTO settings VALUES ('a', 'b')")
    conn.close()


def test_another_process_that_writes_is_waited_for(planted):
    code = (
        "import sys, time, sqlite3\n"
        "base = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "base.execute('BEGIN IMMEDIATE')\n"
        "print('held', flush=True)\n"
        "time.sleep(float(sys.argv[2]))\n"
        "base.execute('COMMIT')\n"
    )
    command = [sys.executable, "-c", code, str(planted.path)]
    with subprocess.Popen([*command, "0.5"], stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        assert planted.accept([1], ["cat"]).changed == 1
    with subprocess.Popen([*command, "3"], stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        assert planted.picture(1).tags == ["cat"]  # reading goes on
        planted.store._writer.execute("PRAGMA busy_timeout = 100")
        with pytest.raises(LibraryError, match="in use by another process"):
            planted.accept([2], ["cat"])
        other.kill()
    planted.accept([2], ["cat"])


@pytest.fixture
def disk(tmp_path):
    """A small disk of its own, where that is allowed."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=900k", "tmpfs", str(place)]
    if (
        os.getuid()
        or not shutil.which("mount")
        or subprocess.run(mount, capture_output=True).returncode
    ):
        pytest.skip("only root can mount a small disk")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def fill(path):
    with suppress(OSError), path.open("wb", buffering=0) as filler:
        while True:
            filler.write(bytes(4096))


def decide_on(library):
    for number in range(10_000):
        assert library.accept([2], [f"tag {number}"]).changed == 1
        assert len(library.picture(2).tags) == number + 1


def test_a_full_disk_loses_nothing_that_was_decided(disk):
    with Library(plant(disk / "a.library", 6)) as library:
        library.accept([1], ["cat"])
        fill(disk / "filler")
        with pytest.raises(LibraryError, match=r"disk is full\. What was decided before is kept"):
            decide_on(library)
        decided = len(library.picture(2).tags)
        assert decided < 10_000
        (disk / "filler").unlink()
        assert library.accept([3], ["dog"]).changed == 1
        assert library.check() == []
        assert library.status().decisions == decided + 2


def test_on_a_disk_that_can_only_be_read_a_library_can_be_read(disk):
    with Library(plant(disk / "a.library", 6)) as library:
        library.accept([1], ["cat"])
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    with Library(disk / "a.library") as library:
        assert library.picture(1).tags == ["cat"]
        assert library.status().problems
        with pytest.raises(LibraryError, match=r"is read-only\. Allow writing, or copy"):
            library.accept([2], ["cat"])
    with pytest.raises(
        LibraryError, match=r"cannot be created: Read-only file system\. Name a file"
    ):
        Library.create(disk)


def test_the_page_names_all_tables(planted):
    from pathlib import Path

    page = (Path(__file__).parents[2] / "docs" / "reference" / "library-file.md").read_text()
    with planted.store.read() as conn:
        found = columns(conn)
    told = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", page, re.M))
    assert {*told} == {*found}
    for table, names in found.items():
        assert re.findall(r"`(\w+)`", told[table]) == names, table


def test_a_library_with_the_old_names_keeps_its_content(tmp_path):
    """The fourth migration renames tables, columns and values, and retires models."""
    path = tmp_path / "old.library"
    path.touch()
    conn = schema.connect(path, new=True, migrations=schema.MIGRATIONS[:3])
    for statement in (
        "INSERT INTO meta VALUES ('crops', 'fast'), ('suggested', 'x')",
        "INSERT INTO roots VALUES (1, 'photos', 'auto', NULL, 'path')",
        "INSERT INTO pictures (id, digest, added) VALUES (1, x'01', 5), (2, x'02', 6)",
        "INSERT INTO places (path, folder, name, picture, root, said, synced) "
        "VALUES (CAST('/p/1.jpg' AS BLOB), x'2f70', '1.jpg', 1, 1, '[[\"cat\"],null,[]]', x'aa')",
        "INSERT INTO tags (id, name, key) VALUES (1, 'cat', 'cat'), (2, 'dog', 'dog')",
        "INSERT INTO labels VALUES (1, 1, 1, 'found', 1), (1, 2, 0, 'decided', 1)",
        "INSERT INTO labels VALUES (2, 1, 1, 'decided', NULL)",
        "INSERT INTO decisions (picture, tag, verdict, at, by, batch, before) "
        "VALUES (1, 2, 'rejected', 7, 'me', 1, NULL), "
        "(2, 1, 'accepted', 8, 'me', 2, '[null,0.5,1]')",
        "INSERT INTO suggestions VALUES (2, 2, 0.9, 1, -1)",
        "INSERT INTO models VALUES (1, 9, 2, 2, 0.5, 2, 1, NULL)",
        "INSERT INTO model_parts VALUES (1, 'kept', 0, x'00')",
        "INSERT INTO curves VALUES (1, 2, 0.8, 0.6, 1, 9)",
        "INSERT INTO written VALUES (CAST('/p/1.jpg' AS BLOB), 'cat', 0, 1)",
    ):
        conn.execute(statement)
    conn.close()
    with Library(path, cache=None) as library:
        assert library.check() == []
        assert library.setting("crops", "") == "fast"
        view = library.picture(1)
        assert (view.tags, view.rejected, view.missing) == (["cat"], ["dog"], False)
        assert library.picture(2).accepted == ["cat"]
        assert [one.by for one in library.history()] == ["me", "me"]
        cat, dog = library.tags()
        assert (cat.pictures, cat.accepted, cat.suggestions) == (2, 1, 0)
        assert (dog.pictures, dog.rejected, dog.suggestions) == (0, 1, 1)
        assert library.learning_curves("cat")["cat"][0].examples == 2
        assert library.models() == []
        assert library.status().model is None
        library.undo(1)  # the label from the file counts again
        assert library.picture(1).tags == ["cat", "dog"]
        library.accept([2], ["dog"])
        cat, dog = library.tags()
        assert (dog.pictures, dog.accepted, dog.suggestions) == (2, 1, 0)
        assert library.status().unwritten == 1
        with library.store.read() as conn:
            row = conn.execute("SELECT n_tags, n_decided, n_files FROM pictures").fetchall()
            assert row == [(2, 0, 1), (2, 2, 0)]
            rows = conn.execute("SELECT * FROM written_tags").fetchall()
            assert rows == [(b"/p/1.jpg", "cat", 0, 1, "sidecar")]


def test_an_older_library_that_cannot_be_written_is_refused(tmp_path):
    path = tmp_path / "old.library"
    path.touch()
    schema.connect(path, new=True, migrations=schema.MIGRATIONS[:3]).close()
    with pytest.raises(LibraryError, match="is of version 3 and must be upgraded to version 7"):
        schema.connect_reading(path)
    schema.connect(path).close()
    schema.connect_reading(path).close()
