"""Synthetic libraries: real databases whose vectors and labels come from arrays, not files."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.collections import DATA
from prototag import Library
from prototag.library.database import vector_checksum

RECIPE = b"vectors at hand."


class Images(NamedTuple):
    """Vectors with their true labels."""

    X: np.ndarray
    Y: np.ndarray
    train: np.ndarray
    test: np.ndarray


def iaprtc12() -> Images:
    with np.load(DATA / "iaprtc12_lite0_whole.npz", allow_pickle=False) as file:
        tags = np.unpackbits(file["label_bits"], axis=1)[:, : int(file["n_tags"])] > 0
        return Images(file["X"].astype(np.float32), tags, file["train_idx"], file["test_idx"])


def library(folder: Path, X: np.ndarray, given: np.ndarray, jobs: int = 2) -> Library:
    """Pictures 1 to n with these vectors; row i of ``given`` (n x t) is what picture i + 1 came
    with, and a row of nothing is a picture that nobody has tagged. Tag c is called ``tag c``."""
    (folder / "photos").mkdir(parents=True)
    created = Library.create(
        folder / "photos", folder / "photos.library", crops="fast", cache=None, n_jobs=jobs
    )
    created.extractor.selected_groups = ["last"]
    with created.store.write() as conn:
        conn.execute("INSERT OR REPLACE INTO settings VALUES ('recipe', ?)", (RECIPE.hex(),))
        root = conn.execute("SELECT id FROM roots").fetchone()[0]
        conn.executemany(
            "INSERT INTO tags (id, name, key) VALUES (?, ?, ?)",
            [(c + 1, name(c), name(c)) for c in range(given.shape[1])],
        )
        for i, vector in enumerate(np.asarray(X, "<f4")):
            number, data = i + 1, vector.tobytes()
            digest = hashlib.blake2b(f"{i}".encode(), digest_size=20).digest()
            conn.execute(
                "INSERT INTO pictures (id, digest, added_at) VALUES (?, ?, 0)", (number, digest)
            )
            conn.execute(
                "INSERT INTO vectors VALUES (?, ?, ?, ?)",
                (number, RECIPE, data, vector_checksum(number, data)),
            )
            path = str(folder / "photos" / f"{i:06}.jpg").encode()
            conn.execute(
                "INSERT INTO files (path, folder, search_name, picture, root) "
                "VALUES (?, ?, ?, ?, ?)",
                (path, str(folder / "photos").encode(), f"{i:06}.jpg", number, root),
            )
        conn.executemany(
            "INSERT INTO labels VALUES (?, ?, 1, 'file', 1)",
            [(int(i) + 1, int(c) + 1) for i, c in np.argwhere(given)],
        )
    return created


def name(column: int) -> str:
    return f"tag {column:03}"


def column(tag: str) -> int:
    return int(tag.removeprefix("tag "))
