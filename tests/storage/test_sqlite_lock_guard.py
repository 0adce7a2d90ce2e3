"""Reading a file that a user names never drops the locks of a database that is open here."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from prototag import Library, metadata
from prototag.cli.output import Journal
from prototag.errors import (
    BackboneError,
    InputError,
    LibraryError,
    OpenDatabaseError,
    PrototagError,
)
from prototag.features.backbones.onnx import OnnxBackbone
from prototag.features.backbones.onnx_settings import read_settings
from prototag.features.vector_cache import VectorCache
from prototag.images.decode import digest, open_image, read_bytes
from prototag.loading import load
from prototag.metadata import collect_tags, csv_jsonl, embedded_reader, jpeg_writer, sidecar
from prototag.storage import modelfile, sqlite_lock_guard
from prototag.storage.atomic_write import replacing
from prototag.storage.npy_rows import StoredRows, open_binary
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
    "keywords": embedded_reader.read,
    "embed": lambda path: metadata.plan_embed(path, ["cat"]),
    "is_jpeg": None,
    "list": lambda path: [*csv_jsonl.read(path)],
    "list of another encoding": lambda path: [*csv_jsonl.read(path, encoding="latin-1")],
    "sidecar": lambda path: sidecar.read_if_exists(path),
    "text": collect_tags._text_tags,
    "model": modelfile.read,
    "header": modelfile.read_header,
    "load": load,
    "rows": lambda path: StoredRows.from_files([path]),
    "description of a network": lambda path: read_settings(beside(path, ".json")),
    "import": lambda path: Library.restore(path, path.with_name("another.library")),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("tail", ["", "-wal", "-shm"])
def test_no_reader_drops_the_locks(library, reader, tail):
    for path in names(library.path, tail):
        if reader == "is_jpeg":
            assert not jpeg_writer.is_jpeg(path)
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
    monkeypatch.setattr(sqlite_lock_guard, "refuse_open_database", lambda _: None)
    for tail in ("", "-shm"):
        with pytest.raises(PrototagError, match="open"):
            read_bytes(f"{library.path}{tail}")
    assert locks(library.path) == ["locked", "locked"]
    assert len(sqlite_lock_guard._parked) == 2
    library.close()
    assert not sqlite_lock_guard._parked


def test_a_library_that_is_opened_while_its_file_is_read(library):
    library.close()
    file = sqlite_lock_guard.open_for_reading(library.path)
    with Library(library.path, cache=None) as again:
        file.close()
        assert locks(again.path) == ["locked", "locked"]
    assert not sqlite_lock_guard._parked


ASK_BY_NAME = """
import sys
from prototag import Library
from prototag.errors import PrototagError
try:
    with Library(sys.argv[1], cache=None) as library:
        print(library.status().decisions)
except PrototagError as error:
    print(error)
"""


def test_a_hard_link_is_no_second_name_of_an_open_library(library):
    """SQLite would keep a second write-ahead log beside it, and both would damage the library."""
    link = library.path.with_name("link.library")
    os.link(library.path, link)
    with pytest.raises(PrototagError, match="that is open"):
        Library(link, cache=None)
    for path in (link, f"{library.path}-shm", f"{library.path}-wal"):
        with pytest.raises(PrototagError, match="that is open"):
            VectorCache(path)
        assert locks(library.path) == ["locked", "locked"]
    command = [sys.executable, "-c", ASK_BY_NAME]
    for name, answer in ((link, "open it by that name"), (library.path, "1")):
        told = subprocess.run([*command, name], check=True, capture_output=True, text=True).stdout
        assert answer in told
    assert not Path(f"{link}-wal").exists()
    assert locks(library.path) == ["locked", "locked"]
    library.close()
    with Library(link, cache=None) as again:  # nobody uses it any more
        assert again.status().decisions == 1


def naming(location):
    """An ONNX network whose weights lie in another file."""
    onnx = pytest.importorskip("onnx")
    weight = onnx.numpy_helper.from_array(np.zeros((1, 3, 1, 1), np.float32), "w")
    weight.ClearField("raw_data")
    weight.data_location = onnx.TensorProto.EXTERNAL
    weight.external_data.add(key="location", value=location)
    return onnx, weight


def network(place, onnx, weight):
    """The weight as an initializer, in an attribute, or in a graph in an attribute."""
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    picture = helper.make_tensor_value_info("x", kind, [1, 3, 8, 8])
    result = helper.make_tensor_value_info("y", kind, None)
    nodes = [helper.make_node("Add", ["x", "w"], ["y"])]
    initializers = [weight]
    if place != "initializer":
        constant = helper.make_node("Constant", [], ["w"], value=weight)
        nodes, initializers = [constant, *nodes], []
    if place == "graph":
        inner = helper.make_graph(nodes[:1], "i", [], [helper.make_tensor_value_info("w", 1, None)])
        nodes[0] = helper.make_node("If", ["c"], ["w"], then_branch=inner, else_branch=inner)
        yes = onnx.numpy_helper.from_array(np.array(True), "c")
        initializers = [yes]
    graph = helper.make_graph(nodes, "g", [picture], [result], initializers)
    return helper.make_model(graph).SerializeToString()


@pytest.mark.parametrize("place", ["initializer", "attribute", "graph"])
def test_a_network_that_names_the_library_as_its_weights(library, monkeypatch, place):
    """Onnxruntime opens and closes the files that a network names."""
    monkeypatch.chdir(library.path.parent)
    file = library.path.with_name("network.onnx")
    file.write_bytes(network(place, *naming(library.path.name)))
    with pytest.raises(BackboneError, match="has weights in other files"):
        OnnxBackbone(file)
    assert locks(library.path) == ["locked", "locked"]


@pytest.mark.parametrize(
    "address", ["file://{}", "FILE://{}", "local://{}", "simplecache::file://{}", "zip://a::{}"]
)
def test_addresses_of_local_files_are_refused(library, address):
    with pytest.raises(InputError, match="give its path"):
        open_binary(address.format(library.path))
    with pytest.raises(OpenDatabaseError):
        open_binary(str(library.path), "ab")
    assert locks(library.path) == ["locked", "locked"]


def test_a_part_of_results_that_leads_to_the_library(library):
    output = library.path.with_name("out.jsonl")
    os.link(library.path, f"{output}.part")
    with pytest.raises(OpenDatabaseError):
        Journal(output, "json", {}, resume=True)
    assert locks(library.path) == ["locked", "locked"]


# Where files are opened past the guard: those that the program makes itself, under names that
# nobody can choose, and readers of processes that have no library open.
UNGUARDED = {
    "cli/terminal.py": 1,  # os.devnull
    "cli/output.py": 2,  # the part, made anew by replacing() just before
    "client.py": 2,  # files of the user's own program, in which no library is open
    "engine/memory_forecast.py": 3,  # /proc and /sys
    "features/backbones/onnx.py": 1,  # a file of the package
    "features/vector_cache.py": 1,  # SQLite's own connection
    "images/decode.py": 1,  # a descriptor of open_descriptor
    "knowledge/concepts.py": 2,  # files of the package
    "knowledge/general.py": 1,  # a file of the package
    "knowledge/lexicon.py": 1,  # a file of the package
    "knowledge/word_file.py": 1,  # bytes of open_for_reading
    "library/model_versions.py": 2,  # temporary files
    "library/schema.py": 2,  # SQLite's own connection; O_EXCL, which makes a new file
    "metadata/jpeg_writer.py": 2,  # a temporary file; "xb", which makes a new file
    "metadata/embedded_reader.py": 1,  # a descriptor of open_descriptor
    "metadata/sidecar.py": 2,  # a descriptor of open_descriptor; a folder
    "report/theme.py": 1,  # a file of the package
    "service/allowed_paths.py": 1,  # a descriptor of open_descriptor
    "storage/atomic_write.py": 3,  # O_EXCL, which makes a new file, and its descriptor; a folder
    "storage/modelfile/reader.py": 1,  # a descriptor of open_descriptor
    "storage/sqlite_lock_guard.py": 1,  # the guard itself
    "storage/npy_rows.py": 3,  # after refuse_open_database; an address of fsspec that is not local
    "tagging/out_of_core/stage_cache.py": 3,  # the work folder of a fit
}
OPENERS = {"open", "fdopen", "read_text", "read_bytes", "write_text", "write_bytes", "touch"}
OPENERS |= {"load", "open_memmap", "memmap", "fromfile", "ZipFile", "copyfile", "copy2", "FileIO"}
OPENERS |= {"connect"}


def opens_a_file(call):
    """Whether a call opens a file by name, as far as its name tells."""
    function = call.func
    if isinstance(function, ast.Name):
        return function.id in {"open", "open_memmap", "memmap"}
    if not isinstance(function, ast.Attribute) or function.attr not in OPENERS:
        return False
    of = function.value.id if isinstance(function.value, ast.Name) else ""
    if function.attr == "load":
        return of == "np"
    if function.attr == "connect":
        return of == "sqlite3"
    return of not in {"webbrowser", "OPENER", "Checkpoint", "Image"}


def test_every_other_file_is_opened_through_the_guard():
    package = Path(sqlite_lock_guard.__file__).parents[1]
    found = Counter()
    for path in package.rglob("*.py"):
        name = path.relative_to(package).as_posix()
        if name.startswith("research/"):  # `prototag paper` opens no library
            continue
        calls = (one for one in ast.walk(ast.parse(path.read_text())) if isinstance(one, ast.Call))
        found[name] += sum(map(opens_a_file, calls))
    assert +found == Counter(UNGUARDED)


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
        with sqlite_lock_guard.open_for_reading(tmp_path / "a") as file:
            assert file.read() == b"abc"
    sqlite_lock_guard.open_for_reading(tmp_path / "a")  # closed when nobody holds it any more
    with pytest.raises(IsADirectoryError):
        sqlite_lock_guard.open_for_reading(tmp_path)
    with pytest.raises(FileNotFoundError):
        sqlite_lock_guard.open_for_reading(tmp_path / "b")
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
    assert not sqlite_lock_guard._parked


@pytest.mark.parametrize("tail", ["", "-wal"])
def test_nothing_is_acknowledged_that_others_do_not_find(library, tail):
    """A program that removes or replaces the files of a library that is open."""
    os.rename(f"{library.path}{tail}", f"{library.path}{tail}.away")
    with pytest.raises(LibraryError, match="was moved, replaced or removed"):
        library.accept([2], ["cat"])
    os.rename(f"{library.path}{tail}.away", f"{library.path}{tail}")
    assert library.accept([2], ["cat"]).changed == 1


def test_files_that_vanish_within_a_change(library):
    def change():
        with library.store.write() as conn:
            conn.execute("INSERT INTO settings VALUES ('a', 'b')")
            os.rename(f"{library.path}-wal", f"{library.path}.away")

    with pytest.raises(LibraryError, match="may be lost"):
        change()
