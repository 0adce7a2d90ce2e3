"""Libraries to test: one of real pictures, and planted ones without any."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import tagged
from prototag import Library
from prototag.library import schema
from prototag.library.database import Store, vector_checksum

RECIPE = b"planted recipe.."


@pytest.fixture(scope="session")
def _scanned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve pictures and their library, made once."""
    folder = tmp_path_factory.mktemp("scanned") / "photos"
    tagged.collection(folder, 12)
    with Library.create(folder, crops="fast", cache=None) as library:
        library.scan()
    return folder


@pytest.fixture
def photos(_scanned: Path, tmp_path: Path) -> Path:
    """A copy of them, with the library inside."""
    return shutil.copytree(_scanned, tmp_path / "photos")


@pytest.fixture
def library(photos: Path) -> Iterator[Library]:
    """Scanned anew, because the files of a copy are others."""
    with Library(photos / "prototag.library", cache=None) as made:
        made.scan()
        made.prune()  # of the places that were copied from
        yield made


TAGGED, EVERY = 45, 75


@pytest.fixture(scope="session")
def _learned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Learned once: the first pictures are tagged, the others are not."""
    folder = tmp_path_factory.mktemp("learned")
    tagged.collection(folder, EVERY, listed=False)
    lines = [
        json.dumps({"file_name": f"{number:03}.jpg", "tags": tagged.tags_of(number)})
        for number in range(TAGGED)
    ]
    (folder / "metadata.jsonl").write_text("\n".join(lines) + "\n")
    with Library.create(folder, crops="fast", cache=None) as library:
        library.scan()
        library.learn()
    return folder / "prototag.library"


@pytest.fixture
def learned(_learned: Path, tmp_path: Path) -> Iterator[Library]:
    """A copy of its own, whose pictures stay where they are."""
    conn, copy = sqlite3.connect(_learned), sqlite3.connect(tmp_path / "copy.library")
    conn.backup(copy)
    copy.execute("UPDATE roots SET path = ?", (str(_learned.parent).encode(),))
    copy.commit()
    conn.close(), copy.close()
    with Library(tmp_path / "copy.library", cache=None) as found:
        yield found


def plant(path: Path, pictures: int, *, width: int = 4, vectors: np.ndarray | None = None) -> Path:
    """A library of pictures that lie nowhere but in its tables."""
    schema.create(path)
    store = Store(path)
    rng = np.random.default_rng(0)
    with store.write() as conn:
        conn.execute(
            "INSERT INTO roots (path, kind, hierarchy) VALUES (?, 'auto', 'path')", (b"photos",)
        )
        for number in range(1, pictures + 1):
            conn.execute(
                "INSERT INTO pictures (id, digest, added_at) VALUES (?, ?, 0)",
                (number, number.to_bytes(20, "big")),
            )
            place = str(path.parent / "photos" / f"{number}.jpg").encode()
            conn.execute(
                "INSERT INTO files (path, folder, search_name, picture, root, parsed_tags) "
                "VALUES (?, ?, ?, ?, 1, '[[],null]')",
                (place, place.rpartition(b"/")[0], f"{number}.jpg", number),
            )
            vector = rng.normal(size=width) if vectors is None else vectors[number - 1]
            data = vector.astype("<f4").tobytes()
            conn.execute(
                "INSERT INTO vectors VALUES (?, ?, ?, ?)",
                (number, RECIPE, data, vector_checksum(number, data)),
            )
    store.close()
    return path


@pytest.fixture
def planted(tmp_path: Path) -> Iterator[Library]:
    """Six pictures without files."""
    with Library(plant(tmp_path / "planted.library", 6)) as made:
        yield made


@pytest.fixture
def everything() -> Callable[[Library], dict[str, list[tuple[object, ...]]]]:
    """All rows that a decision may change, for comparing."""

    def rows(library: Library) -> dict[str, list[tuple[object, ...]]]:
        queries = {
            "labels": "SELECT p.digest, t.key, l.value, l.source, l.file_value FROM labels l "
            "JOIN pictures p ON p.id = l.picture JOIN tags t ON t.id = l.tag",
            "pictures": "SELECT digest, complete, n_tags, n_decided, n_files FROM pictures",
            "suggestions": "SELECT tag, picture, probability, model, duplicate_group "
            "FROM suggestions",
            "tags": "SELECT name, n_pictures, n_accepted, n_rejected, hidden FROM tags "
            "WHERE n_pictures OR n_rejected OR hidden",
        }
        with library.store.read() as conn:
            return {name: sorted(conn.execute(query)) for name, query in queries.items()}

    return rows
