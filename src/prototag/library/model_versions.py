"""The models of a library: each has a number, lies in the library's file, and can come back."""

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
from prototag.library.types import ModelView
from prototag.storage import modelfile
from prototag.tagging.incremental.fit_state import FitState

PIECE = 16 << 20  # bytes in one row of the file
KEPT = 5  # models that can come back; of older ones only their figures stay
ANNOTATOR = "annotator"
LEFT = "kept"
JUDGED = "judged"
_COLUMNS = "number, made, pictures, tags, f1, decisions, current"


def keep(
    store: Store,
    annotator: Annotator,
    kept: FitState,
    decisions: int,
    recipe: bytes,
    more: Callable[[sqlite3.Connection, int], object],
) -> int:
    """Make a model the current one; ``more`` writes what belongs to it in the same transaction.

    ``recipe`` is that of the vectors it was learned from.
    """
    with _files() as files:
        annotator.save(files[ANNOTATOR])
        config, arrays = kept.to_arrays()
        modelfile.write(files[LEFT], {"kind": LEFT, "kept": config}, arrays)
        learned = annotator.training_summary
        row = time.time(), learned.pictures, learned.tags, annotator.choices["out_of_fold_f1"]
        with store.write() as base:
            base.execute("UPDATE models SET current = 0")
            found = base.execute(
                "INSERT INTO models (made, pictures, tags, f1, decisions, current, data) "
                "VALUES (?, ?, ?, ?, ?, 1, ?) RETURNING number",
                (*row, decisions, recipe),
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


@contextmanager
def _files() -> Iterator[dict[str, Path]]:
    """Temporary files for the parts of a model."""
    try:
        with tempfile.TemporaryDirectory(prefix="prototag-") as folder:
            yield {name: Path(folder, name) for name in (ANNOTATOR, LEFT)}
    except PrototagError:
        raise
    except OSError as error:
        place = tempfile.gettempdir()
        what = "is full" if error.errno == errno.ENOSPC else f"cannot be used ({error})"
        raise LibraryError(
            f"the folder for temporary files, {place}, {what}: make room there, or name another "
            "by the environment variable TMPDIR. The library is as it was."
        ) from error


def _store(base: sqlite3.Connection, model: int, name: str, path: Path) -> None:
    with path.open("rb") as file:
        number = 0
        while piece := file.read(PIECE):
            base.execute(
                "INSERT INTO model_parts VALUES (?, ?, ?, ?)", (model, name, number, piece)
            )
            number += 1


def keep_others(store: Store, number: int, last: int, pictures: Ids) -> None:
    """Remember which pictures a model judges besides those that taught it, and the last of all."""
    data = np.concatenate([[last], pictures]).astype("<i8").tobytes()
    with store.write() as base:
        base.execute(
            "INSERT OR REPLACE INTO model_parts VALUES (?, ?, 0, ?)", (number, JUDGED, data)
        )


def others(store: Store, number: int) -> tuple[int, Ids] | None:
    """What :func:`keep_others` has kept; None where it has nothing."""
    with store.read() as base:
        row = base.execute(
            "SELECT data FROM model_parts WHERE model = ? AND name = ?", (number, JUDGED)
        ).fetchone()
    if row is None or not row[0] or len(row[0]) % 8:
        return None
    found = np.frombuffer(row[0], "<i8").astype(np.int64)
    return int(found[0]), found[1:]


def current(store: Store) -> int | None:
    """The number of the model in use."""
    with store.read() as base:
        row = base.execute("SELECT number FROM models WHERE current = 1").fetchone()
    return None if row is None else int(row[0])


def load(store: Store, number: int, **settings: Any) -> tuple[Annotator, FitState]:
    """A model as it was learned, and what learning on needs of it."""
    with _files() as files:
        for name, path in files.items():
            write(store, number, name, path)
        try:
            annotator = Annotator.load(files[ANNOTATOR], **settings)
            annotator.gallery  # noqa: B018  (read now: the file goes)
            header, arrays = modelfile.read(files[LEFT])
            kept = FitState.from_arrays(header["kept"], arrays, len(annotator.model.prototypes))
        except (ModelFileError, KeyError, TypeError, ValueError) as error:
            if isinstance(error, PrototagError) and not isinstance(error, ModelFileError):
                raise  # a network that is not there is no damage
            folder = f"{files[ANNOTATOR].parent}{os.sep}"
            why = str(error).replace(folder, "").split(": give an intact")[0]
            raise LibraryError(
                f"model {number} of the library {store.path} is damaged ({why})",
                remedy=Remedy.LEARN_OR_GO_BACK,
            ) from error
    return annotator, kept


def check_recipe(store: Store, number: int) -> None:
    """Refuse a model that was learned from other vectors than the library has now."""
    if not is_of_these_vectors(store, number):
        raise LibraryError(
            f"the pictures were looked at by another network or in another way since model "
            f"{number} was learned",
            remedy=Remedy.LEARN_FULL,
        )


def is_of_these_vectors(store: Store, number: int) -> bool:
    """Whether a model was learned from vectors such as those that the last scan has made."""
    with store.read() as base:
        row = base.execute("SELECT data FROM models WHERE number = ?", (number,)).fetchone()
        return row is None or not row[0] or bytes(row[0]) == store.recipe(base)


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
            raise UnknownNameError(
                f"model {number} is not kept any more", remedy=Remedy.LIST_MODELS
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
    check_listed(store, number)
    with store.write() as base:
        base.execute("UPDATE models SET current = (number = ?)", (number,))
        base.execute("UPDATE tags SET suggested = -1")
        base.execute("DELETE FROM suggestions")


def check_listed(store: Store, number: int) -> None:
    """Refuse the number of a model that cannot come back."""
    if number not in {model.number for model in listed(store)}:
        raise UnknownNameError(
            f"there is no model {number} to go back to", remedy=Remedy.LIST_MODELS
        )
