"""Reading a file that a user names never drops the locks of a database that is open here."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from prototag import Library, metadata
from prototag.errors import LibraryError, OpenDatabaseError, PrototagError
from prototag.features.backbones.description import described
from prototag.features.cache import VectorCache
from prototag.images.decode import digest, open_image, read_bytes
from prototag.loading import load
from prototag.metadata import embed, embedded, listing, sidecar, sources
from prototag.storage import modelfile, open_databases
from prototag.storage.atomic import replacing
from prototag.storage.rows import StoredRows
from tests.library.conftest import plant

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has other locks")

# Another process asks for the bytes that SQLite locks: SHARED of the database, DMS of the -shm.
ASK = """
import fcntl, sys
for path, first, count in ((sys.argv[1], 0x40000002, 510), (sys.argv[1] + "-shm", 128, 1)):
    with open(path, "r+b") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, count, first)
        except OSError:
            print("locked", end=" ")
        else:
            print("free", end=" ")
"""


def locks(path):
    command = [sys.executable, "-c", ASK, str(path)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()


@pytest.fixture
def library(tmp_path):
    with Library(plant(tmp_path / "prototag.library", 6), cache=None) as made:
        made.accept([1], ["cat"])
        assert locks(made.path) == ["locked", "locked"]
        yield made


def names(path, tail):
    """A file of a library by its own name, as a hard link and as a symbolic link."""
    file = Path(f"{path}{tail}")
    hard, soft = path.with_name(f"hard{tail}.jpg"), path.with_name(f"soft{tail}.jpg")
    os.link(file, hard)
    soft.symlink_to(file)
    return [file, hard, soft]


def beside(path, suffix):
    """A file that is looked for beside a picture or a network, by another suffix."""
    wanted = path.with_name(f"beside{suffix}")
    wanted.unlink(missing_ok=True)
    wanted.symlink_to(path)
    return path.with_name("beside.jpg")


READERS = {
    "read_bytes": read_bytes,
    "digest": digest,
    "open_image": open_image,
    "keywords": embedded.read,
    "embed": lambda path: metadata.plan_embed(path, ["cat"]),
    "is_jpeg": None,
    "list": lambda path: [*listing.read(path)],
    "list of another encoding": lambda path: [*listing.read(path, encoding="latin-1")],
    "sidecar": lambda path: sidecar.content(path),
    "text": sources._text_tags,
    "model": modelfile.read,
    "header": modelfile.read_header,
    "load": load,
    "rows": lambda path: StoredRows.of([path]),
    "description of a network": lambda path: described(beside(path, ".json")),
    "import": lambda path: Library.restore(path, path.with_name("another.library")),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("tail", ["", "-wal", "-shm"])
def test_no_reader_drops_the_locks(library, reader, tail):
    for path in names(library.path, tail):
        if reader == "is_jpeg":
            assert not embed.is_jpeg(path)
        else:
            with pytest.raises((PrototagError, OSError), match="that is open"):
                READERS[reader](path)
        assert locks(library.path) == ["locked", "locked"]


def test_a_folder_that_holds_the_library(library):
    """Its files are named as pictures, sidecars, texts and lists are."""
    folder = library.path.parent / "photos"
    folder.mkdir()
    for place in names(library.path, "")[1:]:
        place.rename(folder / place.name)
    shutil.copy(Path(__file__).parents[1] / "tagged.py", folder / "a.jpg")
    for name in ("a.xmp", "a.txt", "metadata.jsonl"):
        (folder / name).symlink_to(library.path)
    found = metadata.collect(folder)
    assert any("belongs to a library" in problem for problem in found.problems)
    library.scan()
    assert locks(library.path) == ["locked", "locked"]


def test_a_library_by_a_symbolic_link(library, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "elsewhere" / "link.library"
    link.symlink_to(library.path)
    library.close()
    with Library(link, cache=None):
        for tail in ("", "-wal", "-shm"):
            with pytest.raises(PrototagError, match="open"):
                read_bytes(f"{library.path}{tail}")
        assert locks(library.path) == ["locked", "locked"]
    assert read_bytes(library.path).startswith(b"SQLite")


def test_a_library_that_was_renamed_while_it_is_open(library):
    moved = library.path.with_name("moved.library")
    for tail in ("", "-wal", "-shm"):
        os.rename(f"{library.path}{tail}", f"{moved}{tail}")
    for tail in ("", "-wal", "-shm"):
        with pytest.raises(PrototagError, match="open"):
            read_bytes(f"{moved}{tail}")
    assert locks(moved) == ["locked", "locked"]


def test_a_name_that_leads_to_the_library_after_the_check(library, monkeypatch):
    """What was opened in vain is not closed before the library is."""
    monkeypatch.setattr(open_databases, "refuse_open_database", lambda _: None)
    for tail in ("", "-shm"):
        with pytest.raises(PrototagError, match="open"):
            read_bytes(f"{library.path}{tail}")
    assert locks(library.path) == ["locked", "locked"]
    assert len(open_databases._parked) == 2
    library.close()
    assert not open_databases._parked


def test_a_library_that_is_opened_while_its_file_is_read(library):
    library.close()
    file = open_databases.open_for_reading(library.path)
    with Library(library.path, cache=None) as again:
        file.close()
        assert locks(again.path) == ["locked", "locked"]
    assert not open_databases._parked


def test_a_cache_is_guarded_too(tmp_path):
    with VectorCache(tmp_path / "cache.sqlite") as cache:
        with pytest.raises(PrototagError, match="open"):
            read_bytes(cache.path)
        assert locks(cache.path)[0] == "locked" or len(cache) == 0
    assert read_bytes(cache.path)


def test_an_open_library_is_not_overwritten(library, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(library.path)
    for target in (library.path, link):
        with pytest.raises(OpenDatabaseError, match="name another file"), replacing(target):
            pass
        with pytest.raises(LibraryError, match="belongs to a library"):
            library.export(target)
    assert library.check() == []


@pytest.mark.usefixtures("library")
def test_other_files_are_read_as_ever(tmp_path):
    (tmp_path / "a").write_bytes(b"abc")
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    for _ in range(20):
        with open_databases.open_for_reading(tmp_path / "a") as file:
            assert file.read() == b"abc"
    open_databases.open_for_reading(tmp_path / "a")  # closed when nobody holds it any more
    with pytest.raises(IsADirectoryError):
        open_databases.open_for_reading(tmp_path)
    with pytest.raises(FileNotFoundError):
        open_databases.open_for_reading(tmp_path / "b")
    if before:
        assert len(os.listdir("/proc/self/fd")) == before


def test_a_library_that_nobody_closed_does_not_keep_its_files(tmp_path):
    made = Library(plant(tmp_path / "a.library", 1), cache=None)
    with pytest.raises(PrototagError, match="open"):
        read_bytes(made.path)
    path = made.path
    del made
    assert read_bytes(path).startswith(b"SQLite")


def test_threads_that_read_while_libraries_open_and_close(tmp_path):
    path = plant(tmp_path / "a.library", 1)
    wrong, ended = [], threading.Event()

    def read():
        while not ended.is_set():
            try:
                read_bytes(path)
            except PrototagError:
                continue
            except Exception as error:
                wrong.append(error)

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(10):
            with Library(path, cache=None) as library:
                assert locks(library.path) == ["locked", "locked"]
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    assert not wrong
    assert not open_databases._parked


@pytest.mark.parametrize("tail", ["", "-wal"])
def test_nothing_is_acknowledged_that_others_do_not_find(library, tail):
    """A program that removes or replaces the files of a library that is open."""
    os.rename(f"{library.path}{tail}", f"{library.path}{tail}.away")
    with pytest.raises(LibraryError, match="was moved, replaced or removed"):
        library.accept([2], ["cat"])
    os.rename(f"{library.path}{tail}.away", f"{library.path}{tail}")
    assert library.accept([2], ["cat"]) == 1


def test_files_that_vanish_within_a_change(library):
    def change():
        with library.store.write() as base:
            base.execute("INSERT INTO meta VALUES ('a', 'b')")
            os.rename(f"{library.path}-wal", f"{library.path}.away")

    with pytest.raises(LibraryError, match="may be lost"):
        change()
