"""Store, load and roll back the numbered models of a library, which its file holds."""

from __future__ import annotations

import errno
import os
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from prototag.annotator.annotator import Annotator
from prototag.errors import LibraryError, ModelFileError, PrototagError, Remedy, UnknownNameError
from prototag.library.database import Ids, Store
from prototag.library.queries import MODEL_COLUMNS, model_view
from prototag.library.types import ModelView
from prototag.storage import modelfile
from prototag.tagging.incremental.fit_state import FitState

PART_BYTES = 16 << 20  # of a model in one row of the table
MAX_MODELS = 5  # that are stored; of older ones only the figures stay
# names of model parts
ANNOTATOR = "annotator"
FIT_STATE = "fit_state"
CANDIDATE_POOL = "candidate_pool"


def store_model(
    store: Store,
    annotator: Annotator,
    fit_state: FitState,
    last_decision: int,
    recipe: bytes,
    write_more: Callable[[sqlite3.Connection], object],
) -> int:
    """Store a model, make it the active one and return its number.

    Parameters
    ----------
    last_decision : int
        Number of the last decision that the model was trained on.
    recipe : bytes
        Recipe of the vectors that the model was trained on.
    write_more : callable
        Writes what belongs to the model in the same transaction.
    """
    with _temporary_files() as files:
        annotator.save(files[ANNOTATOR])
        config, arrays = fit_state.to_arrays()
        modelfile.write(files[FIT_STATE], {"kind": FIT_STATE, FIT_STATE: config}, arrays)
        learned = annotator.training_summary
        figures = learned.pictures, learned.tags, annotator.choices["out_of_fold_f1"]
        with store.write() as conn:
            conn.execute("UPDATE models SET is_current = 0")
            row = conn.execute(
                "INSERT INTO models (trained_at, n_pictures, n_tags, f1, last_decision, recipe, "
                "is_current) VALUES (?, ?, ?, ?, ?, ?, 1) RETURNING number",
                (time.time(), *figures, last_decision, recipe),
            ).fetchone()
            number = int(row[0])
            for name, path in files.items():
                _store_file(conn, number, name, path)
            conn.execute(
                "DELETE FROM model_parts WHERE model NOT IN "
                "(SELECT number FROM models ORDER BY number DESC LIMIT ?)",
                (MAX_MODELS,),
            )
            write_more(conn)
    return number


@contextmanager
def _temporary_files() -> Iterator[dict[str, Path]]:
    """Provide the paths of temporary files for the parts of a model."""
    try:
        with tempfile.TemporaryDirectory(prefix="prototag-") as folder:
            yield {name: Path(folder, name) for name in (ANNOTATOR, FIT_STATE)}
    except PrototagError:
        raise
    except OSError as error:
        place = tempfile.gettempdir()
        reason = "is full" if error.errno == errno.ENOSPC else f"cannot be used ({error})"
        raise LibraryError(
            f"the folder for temporary files, {place}, {reason}: make room there, or name another "
            "by the environment variable TMPDIR. The library was not changed."
        ) from error


def _store_file(conn: sqlite3.Connection, model: int, name: str, path: Path) -> None:
    with path.open("rb") as file:
        part = 0
        while data := file.read(PART_BYTES):
            conn.execute("INSERT INTO model_parts VALUES (?, ?, ?, ?)", (model, name, part, data))
            part += 1


def store_candidate_pool(store: Store, number: int, last: int, pictures: Ids) -> None:
    """Store the candidates of a model, and the last picture that existed at their selection."""
    data = np.concatenate([[last], pictures]).astype("<i8").tobytes()
    with store.write() as conn:
        conn.execute(
            "INSERT OR REPLACE INTO model_parts VALUES (?, ?, 0, ?)", (number, CANDIDATE_POOL, data)
        )


def load_candidate_pool(store: Store, number: int) -> tuple[int, Ids] | None:
    """Return what :func:`store_candidate_pool` has stored; None if it has stored nothing."""
    with store.read() as conn:
        row = conn.execute(
            "SELECT data FROM model_parts WHERE model = ? AND name = ?", (number, CANDIDATE_POOL)
        ).fetchone()
    if row is None or not row[0] or len(row[0]) % 8:
        return None
    numbers = np.frombuffer(row[0], "<i8").astype(np.int64)
    return int(numbers[0]), numbers[1:]


def current(store: Store) -> int | None:
    """Return the number of the active model; None if there is none."""
    with store.read() as conn:
        row = conn.execute("SELECT number FROM models WHERE is_current = 1").fetchone()
    return None if row is None else int(row[0])


def load(store: Store, number: int, **settings: Any) -> tuple[Annotator, FitState]:
    """Load a model as it was trained, with the fit state that incremental updates need."""
    with _temporary_files() as files:
        for name, path in files.items():
            _read_part(store, number, name, path)
        try:
            annotator = Annotator.load(files[ANNOTATOR], **settings)
            annotator.gallery  # noqa: B018  (loaded lazily, and the file is removed)
            header, arrays = modelfile.read(files[FIT_STATE])
            fit_state = FitState.from_arrays(
                header[FIT_STATE], arrays, len(annotator.model.prototypes)
            )
        except (ModelFileError, KeyError, TypeError, ValueError) as error:
            if isinstance(error, PrototagError) and not isinstance(error, ModelFileError):
                raise  # a missing network is no damage
            folder = f"{files[ANNOTATOR].parent}{os.sep}"
            reason = str(error).replace(folder, "").split(": give an intact")[0]
            raise LibraryError(
                f"model {number} of the library {store.path} is damaged ({reason})",
                remedy=Remedy.LEARN_OR_GO_BACK,
            ) from error
    return annotator, fit_state


def check_recipe(store: Store, number: int) -> None:
    """Refuse a model that was trained on other vectors than the library has now."""
    if not has_current_vectors(store, number):
        raise LibraryError(
            f"the vectors of the library are of another network or of other crops than those that "
            f"model {number} was trained on",
            remedy=Remedy.LEARN_FULL,
        )


def has_current_vectors(store: Store, number: int) -> bool:
    """Return whether a model was trained on vectors of the library's current recipe."""
    with store.read() as conn:
        row = conn.execute("SELECT recipe FROM models WHERE number = ?", (number,)).fetchone()
        return row is None or not row[0] or bytes(row[0]) == store.recipe(conn)


def _read_part(store: Store, number: int, name: str, path: Path) -> None:
    """Write a part of a model to a file."""
    with store.read() as conn, path.open("wb") as file:
        rows = conn.execute(
            "SELECT data FROM model_parts WHERE model = ? AND name = ? ORDER BY part",
            (number, name),
        )
        for (data,) in rows:
            file.write(data)
        if not file.tell():
            raise UnknownNameError(
                f"model {number} is not stored any more", remedy=Remedy.LIST_MODELS
            )


def list_models(store: Store) -> list[ModelView]:
    """Return the models that can become active again, the newest first."""
    with store.read() as conn:
        rows = conn.execute(
            f"SELECT {MODEL_COLUMNS} FROM models "
            "WHERE number IN (SELECT model FROM model_parts) ORDER BY number DESC"
        ).fetchall()
    return [model_view(row) for row in rows]


def rollback(store: Store, number: int) -> None:
    """Make an earlier model active; all decisions stay."""
    check_is_listed(store, number)
    with store.write() as conn:
        conn.execute("UPDATE models SET is_current = (number = ?)", (number,))
        conn.execute("UPDATE tags SET suggested_changes = -1")
        conn.execute("DELETE FROM suggestions")


def check_is_listed(store: Store, number: int) -> None:
    """Refuse the number of a model that cannot become active again."""
    if number not in {model.number for model in list_models(store)}:
        raise UnknownNameError(
            f"there is no model {number} to go back to", remedy=Remedy.LIST_MODELS
        )
