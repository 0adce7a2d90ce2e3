"""The models of a library: each has a number, lies in the library's file, and can come back."""

from __future__ import annotations

import sqlite3
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from prototag.annotator.annotator import Annotator
from prototag.errors import InputError, LibraryError
from prototag.library.results import ModelView
from prototag.library.store import Store
from prototag.storage import modelfile
from prototag.tagging.kept import Kept

PIECE = 16 << 20  # bytes in one row of the file
KEPT = 5  # models that can come back; of older ones only their figures stay
ANNOTATOR, LEFT = "annotator", "kept"
_COLUMNS = "number, made, pictures, tags, f1, decisions, current"


def keep(
    store: Store,
    annotator: Annotator,
    kept: Kept,
    decisions: int,
    more: Callable[[sqlite3.Connection, int], object],
) -> int:
    """Make a model the current one; ``more`` writes what belongs to it in the same transaction."""
    with tempfile.TemporaryDirectory(prefix="prototag-") as folder:
        files = {name: Path(folder, name) for name in (ANNOTATOR, LEFT)}
        annotator.save(files[ANNOTATOR])
        config, arrays = kept.to_arrays()
        modelfile.write(files[LEFT], {"kind": LEFT, "kept": config}, arrays)
        learned = annotator.learned
        row = time.time(), learned.pictures, learned.tags, annotator.choices["out_of_fold_f1"]
        with store.write() as base:
            base.execute("UPDATE models SET current = 0")
            found = base.execute(
                "INSERT INTO models (made, pictures, tags, f1, decisions, current) "
                "VALUES (?, ?, ?, ?, ?, 1) RETURNING number",
                (*row, decisions),
            ).fetchone()
            number = int(found[0])
            for name, path in files.items():
                _store(base, number, name, path)
            base.execute(
                "DELETE FROM model_parts WHERE model NOT IN "
                "(SELECT number FROM models ORDER BY number DESC LIMIT ?)",
                (KEPT,),
            )
            more(base, number)
    return number


def _store(base: sqlite3.Connection, model: int, name: str, path: Path) -> None:
    with path.open("rb") as file:
        number = 0
        while piece := file.read(PIECE):
            base.execute(
                "INSERT INTO model_parts VALUES (?, ?, ?, ?)", (model, name, number, piece)
            )
            number += 1


def current(store: Store) -> int | None:
    """The number of the model in use."""
    with store.read() as base:
        row = base.execute("SELECT number FROM models WHERE current = 1").fetchone()
    return None if row is None else int(row[0])


def load(store: Store, number: int, **settings: Any) -> tuple[Annotator, Kept]:
    """A model as it was learned, and what learning on needs of it."""
    with tempfile.TemporaryDirectory(prefix="prototag-") as folder:
        files = {name: Path(folder, name) for name in (ANNOTATOR, LEFT)}
        for name, path in files.items():
            write(store, number, name, path)
        annotator = Annotator.load(files[ANNOTATOR], **settings)
        annotator.gallery  # noqa: B018  (read now: the file goes)
        header, arrays = modelfile.read(files[LEFT])
        try:
            kept = Kept.from_arrays(header["kept"], arrays, len(annotator.model.prototypes))
        except (KeyError, TypeError, ValueError) as error:
            raise LibraryError(
                f"model {number} of the library {store.path} is damaged ({error}): learn again."
            ) from error
    return annotator, kept


def write(store: Store, number: int, name: str, path: Path) -> None:
    """Write what is kept of a model to a file."""
    with store.read() as base, path.open("wb") as file:
        rows = base.execute(
            "SELECT data FROM model_parts WHERE model = ? AND name = ? ORDER BY number",
            (number, name),
        )
        for (piece,) in rows:
            file.write(piece)
        if not file.tell():
            raise InputError(
                f"model {number} is not kept any more: `prototag learn --models` lists those "
                "that are."
            )


def listed(store: Store) -> list[ModelView]:
    """All models that can come back, the newest first."""
    with store.read() as base:
        rows = base.execute(
            f"SELECT {_COLUMNS} FROM models "
            "WHERE number IN (SELECT model FROM model_parts) ORDER BY number DESC"
        ).fetchall()
    return [ModelView(*row)._replace(current=bool(row[-1])) for row in rows]


def go_back(store: Store, number: int) -> None:
    """Use an earlier model again; all decisions stay, and are learned on to it."""
    if number not in {model.number for model in listed(store)}:
        raise InputError(
            f"there is no model {number} to go back to: `prototag learn --models` lists them."
        )
    with store.write() as base:
        base.execute("UPDATE models SET current = (number = ?)", (number,))
        base.execute("UPDATE tags SET suggested = -1")
        base.execute("DELETE FROM suggestions")
