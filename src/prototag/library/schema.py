"""The tables of a library, and how its file is opened: docs/reference/library-file.md lists them.

A file has the version of the last migration that was made on it. Migrations are made in order, each
in one transaction, and are never changed once released: a new one is added at the end.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from prototag.errors import LibraryError
from prototag.storage.sqlite_lock_guard import OpenDatabase

OURS = int.from_bytes(b"PTli", "big")  # the application that a file names as its own
WAIT = 30.0  # seconds that one process waits for the transaction of another
# At opening a file up to this size is looked through for damage, in some 0.1 s; of a larger one
# only the tables in SMALL. `library status --check` looks at all of it.
MAX_LOOKED_THROUGH = 32 << 20
SMALL = ("meta", "roots", "tags", "aliases", "models", "counts")

_FIRST = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    # A path inside the folder of the library is kept relative to it, so that both can be moved.
    """CREATE TABLE roots (id INTEGER PRIMARY KEY, path BLOB NOT NULL UNIQUE, kind TEXT NOT NULL,
        column TEXT, hierarchy TEXT NOT NULL)""",
    "CREATE TABLE counts (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID",
    "INSERT INTO counts VALUES ('decisions', 0)",  # that stand
    # Numbers are never given twice: decisions and models remember them. What is counted (own to
    # places) is kept by the triggers below, because a page must not count a million rows.
    """CREATE TABLE pictures (id INTEGER PRIMARY KEY AUTOINCREMENT, digest BLOB NOT NULL UNIQUE,
        added REAL NOT NULL, complete INTEGER NOT NULL DEFAULT 0, own INTEGER NOT NULL DEFAULT 0,
        decided INTEGER NOT NULL DEFAULT 0, unwritten INTEGER NOT NULL DEFAULT 0,
        waiting INTEGER NOT NULL DEFAULT 0, places INTEGER NOT NULL DEFAULT 0,
        grouped INTEGER NOT NULL DEFAULT -1)""",
    """CREATE TABLE thumbnails (picture INTEGER PRIMARY KEY REFERENCES pictures ON DELETE CASCADE,
        webp BLOB NOT NULL)""",
    """CREATE TABLE vectors (picture INTEGER PRIMARY KEY REFERENCES pictures ON DELETE CASCADE,
        recipe BLOB NOT NULL, vector BLOB NOT NULL, checksum BLOB NOT NULL)""",
    "CREATE INDEX vectors_by_recipe ON vectors (recipe)",
    # said: what the files of this place say, as they say it, in JSON. synced: the tags_stamp for
    # which library and files agreed.
    """CREATE TABLE places (path BLOB PRIMARY KEY, folder BLOB NOT NULL, name TEXT NOT NULL,
        picture INTEGER NOT NULL REFERENCES pictures ON DELETE CASCADE,
        root INTEGER NOT NULL REFERENCES roots ON DELETE CASCADE,
        stamp BLOB, tags_stamp BLOB, said TEXT, synced BLOB,
        present INTEGER NOT NULL DEFAULT 1)""",
    "CREATE INDEX places_by_picture ON places (picture, present)",
    "CREATE INDEX places_by_folder ON places (folder, present)",
    "CREATE INDEX places_by_name ON places (name, present, picture)",  # searched from end to end
    # What a model knows of a tag is written by learning. changed counts changes of its labels;
    # suggested is the count that its suggestions know of.
    """CREATE TABLE tags (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE,
        key TEXT NOT NULL UNIQUE, hidden INTEGER NOT NULL DEFAULT 0, own INTEGER NOT NULL DEFAULT 0,
        accepted INTEGER NOT NULL DEFAULT 0, rejected INTEGER NOT NULL DEFAULT 0,
        waiting INTEGER NOT NULL DEFAULT 0,
        learned INTEGER NOT NULL DEFAULT 0, needed INTEGER NOT NULL DEFAULT 0, precision REAL,
        recall REAL, changed INTEGER NOT NULL DEFAULT 0, suggested INTEGER NOT NULL DEFAULT -1)""",
    # Other names of a tag, which files may still use.
    """CREATE TABLE aliases (key TEXT PRIMARY KEY, name TEXT NOT NULL,
        tag INTEGER NOT NULL REFERENCES tags ON DELETE CASCADE) WITHOUT ROWID""",
    # value is what counts; found is what the files say (1, 0 or NULL), whatever was decided.
    """CREATE TABLE labels (picture INTEGER NOT NULL REFERENCES pictures ON DELETE CASCADE,
        tag INTEGER NOT NULL REFERENCES tags ON DELETE CASCADE, value INTEGER NOT NULL,
        origin TEXT NOT NULL, found INTEGER, PRIMARY KEY (picture, tag)) WITHOUT ROWID""",
    "CREATE INDEX labels_by_tag ON labels (tag, value, picture)",
    # before: what undoing brings back, in JSON (library/decisions.py).
    """CREATE TABLE decisions (id INTEGER PRIMARY KEY AUTOINCREMENT,
        picture INTEGER NOT NULL REFERENCES pictures ON DELETE CASCADE,
        tag INTEGER REFERENCES tags ON DELETE CASCADE, verdict TEXT NOT NULL, at REAL NOT NULL,
        by TEXT NOT NULL, batch INTEGER NOT NULL, undone INTEGER NOT NULL DEFAULT 0,
        before TEXT)""",
    "CREATE INDEX decisions_by_batch ON decisions (batch)",
    "CREATE INDEX decisions_by_picture ON decisions (picture, tag)",
    "CREATE INDEX decisions_by_tag ON decisions (tag) WHERE tag IS NOT NULL",
    "CREATE INDEX decisions_undone ON decisions (id) WHERE undone = 1",
    """CREATE TABLE suggestions (tag INTEGER NOT NULL REFERENCES tags ON DELETE CASCADE,
        picture INTEGER NOT NULL REFERENCES pictures ON DELETE CASCADE, probability REAL NOT NULL,
        model INTEGER NOT NULL, grouped INTEGER NOT NULL DEFAULT -1,
        PRIMARY KEY (tag, picture)) WITHOUT ROWID""",
    "CREATE INDEX suggestions_by_picture ON suggestions (picture)",
    "CREATE INDEX suggestions_by_probability ON suggestions (probability)",
    """CREATE TABLE models (number INTEGER PRIMARY KEY AUTOINCREMENT, made REAL NOT NULL,
        pictures INTEGER NOT NULL, tags INTEGER NOT NULL, f1 REAL NOT NULL,
        decisions INTEGER NOT NULL, current INTEGER NOT NULL DEFAULT 0, data BLOB)""",
    """CREATE TABLE model_parts (model INTEGER NOT NULL REFERENCES models ON DELETE CASCADE,
        name TEXT NOT NULL, number INTEGER NOT NULL, data BLOB NOT NULL,
        PRIMARY KEY (model, name, number))""",
    # Accepted tags that the files of a place have: because sync wrote them (ours), or anyway. done
    # is 0 while they are being written.
    """CREATE TABLE written (path BLOB NOT NULL REFERENCES places ON DELETE CASCADE,
        name TEXT NOT NULL, ours INTEGER NOT NULL, done INTEGER NOT NULL,
        PRIMARY KEY (path, name)) WITHOUT ROWID""",
)


def _counting() -> Iterator[str]:
    """Triggers that keep the counts of pictures and tags right, whoever writes."""
    changes = {
        "INSERT": (("new", "+"),),
        "DELETE": (("old", "-"),),
        "UPDATE": (("old", "-"), ("new", "+")),
    }
    for event, rows in changes.items():
        counts = "".join(
            f"""
            UPDATE pictures SET own = own {sign} ({row}.value = 1),
                decided = decided {sign} ({row}.origin = 'decided'),
                unwritten = unwritten {sign} ({row}.origin = 'decided' AND {row}.value = 1
                AND {row}.found IS NOT 1) WHERE id = {row}.picture;
            UPDATE tags SET own = own {sign} ({row}.value = 1),
                accepted = accepted {sign} ({row}.value = 1 AND {row}.origin = 'decided'),
                rejected = rejected {sign} ({row}.value = 0 AND {row}.origin = 'decided'),
                changed = changed + 1
                WHERE id = {row}.tag;"""
            for row, sign in rows
        )
        yield f"CREATE TRIGGER labels_{event.lower()} AFTER {event} ON labels BEGIN {counts} END"
        counts = "".join(
            f"UPDATE pictures SET places = places {sign} {row}.present WHERE id = {row}.picture;"
            for row, sign in rows
        )
        of = "UPDATE OF picture, present" if event == "UPDATE" else event
        yield f"CREATE TRIGGER places_{event.lower()} AFTER {of} ON places BEGIN {counts} END"
        if event != "UPDATE":
            ((row, sign),) = rows
            yield f"""CREATE TRIGGER suggestions_{event.lower()} AFTER {event} ON suggestions BEGIN
                UPDATE pictures SET waiting = waiting {sign} 1 WHERE id = {row}.picture;
                UPDATE tags SET waiting = waiting {sign} 1 WHERE id = {row}.tag; END"""
        counts = "".join(
            f"UPDATE counts SET value = value {sign} ({row}.undone = 0) WHERE name = 'decisions';"
            for row, sign in rows
        )
        of = "UPDATE OF undone" if event == "UPDATE" else event
        yield f"CREATE TRIGGER decisions_{event.lower()} AFTER {of} ON decisions BEGIN {counts} END"


_SECOND = (
    # How well a tag was learned when so many pictures had it (library/learning_curves.py).
    """CREATE TABLE curves (tag INTEGER NOT NULL REFERENCES tags ON DELETE CASCADE,
        examples INTEGER NOT NULL, precision REAL, recall REAL NOT NULL, model INTEGER NOT NULL,
        at REAL NOT NULL, PRIMARY KEY (tag, examples)) WITHOUT ROWID""",
    # What the model in use says of its tags is where their curves begin.
    """INSERT INTO curves SELECT id, own, precision, recall, number, made FROM tags, models
        WHERE current = 1 AND own > 0 AND learned = 1 AND recall IS NOT NULL""",
)

_THIRD = (
    # Numbers of batches are never given twice: tabs of the page remember them to undo.
    "INSERT INTO counts SELECT 'batches', coalesce(max(batch), 0) FROM decisions",
    """CREATE TRIGGER decisions_batches AFTER INSERT ON decisions BEGIN
        UPDATE counts SET value = max(value, new.batch) WHERE name = 'batches'; END""",
)

MIGRATIONS: tuple[Sequence[str], ...] = ((*_FIRST, *_counting()), _SECOND, _THIRD)


def create(path: Path) -> None:
    """Make a new, empty library; one that is there is left as it is."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    except FileExistsError:
        raise LibraryError(
            f"the library {path} is there already: `prototag open` opens it, `prototag library "
            "sync` brings it up to date. Give another name (-o FILE) to make a new one."
        ) from None
    except OSError as error:
        raise LibraryError(
            f"the library {path} cannot be made: {error.strerror or error}. Name a file in "
            "another folder: `prototag open FOLDER -l FILE`, or `prototag library create FOLDER -o "
            "FILE`."
        ) from None
    registered = OpenDatabase(path)
    try:
        base = connect(path, new=True)
        base.close()
    except BaseException:
        for tail in ("", "-wal", "-shm", "-journal"):
            Path(f"{path}{tail}").unlink(missing_ok=True)
        raise
    finally:
        registered.release()


def connect(
    path: Path,
    *,
    new: bool = False,
    wait: float = WAIT,
    vfs: str | None = None,
    migrations: tuple[Sequence[str], ...] = MIGRATIONS,
) -> sqlite3.Connection:
    """A connection that may write, with all migrations made.

    Parameters
    ----------
    path : Path
    new : bool
        Whether the file is empty and is to become a library.
    wait : float
        Seconds to wait for other processes.
    vfs : str, optional
        How SQLite is to treat the file system.
    migrations : tuple of sequences of str
        Statements, by version.

    Raises
    ------
    LibraryError
        It is no library, damaged, of a newer version, or cannot be written.
    """
    with told(path):
        _check_there(path, new)
        base = _opened(path, "rw", wait, vfs)
        try:
            _check_owner(base, path, new, len(migrations))
            if new:
                base.execute("PRAGMA page_size = 8192")
            _enter_wal(base, wait)
            base.execute("PRAGMA synchronous = FULL")  # what was decided survives a power cut
            base.execute("PRAGMA foreign_keys = ON")
            base.execute("PRAGMA recursive_triggers = ON")  # what REPLACE deletes is counted, too
            migrate(base, migrations)
            return base
        except BaseException:
            base.close()
            raise


def connect_reading(
    path: Path, *, wait: float = WAIT, vfs: str | None = None
) -> sqlite3.Connection:
    """A connection that only reads, of a file that may be on a disk that can only be read."""
    with told(path):
        _check_there(path, False)
        try:
            base = _opened(path, "ro", wait, vfs)
            base.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.OperationalError:
            # A write-ahead log wants to write beside the file even to be read. Without one the
            # file is complete, and nobody can change it.
            log = Path(f"{path}-wal")
            if os.access(path.parent, os.W_OK) or (log.exists() and log.stat().st_size):
                raise
            base = _opened(path, "ro&immutable=1", wait, vfs)
        try:
            _check_owner(base, path, False, len(MIGRATIONS))
            return base
        except BaseException:
            base.close()
            raise


def migrate(base: sqlite3.Connection, migrations: tuple[Sequence[str], ...] = MIGRATIONS) -> None:
    """Make the migrations that are missing, each whole or not at all."""
    for number, statements in enumerate(migrations, 1):
        if _version(base) >= number:
            continue
        base.execute("BEGIN IMMEDIATE")
        try:
            if _version(base) < number:  # another process may have made it meanwhile
                for statement in statements:
                    base.execute(statement)
                base.execute(f"PRAGMA user_version = {number}")
                base.execute(f"PRAGMA application_id = {OURS}")
            base.execute("COMMIT")
        except BaseException:
            base.execute("ROLLBACK")
            raise


def look_for_damage(base: sqlite3.Connection, *, all_of_it: bool = False) -> list[str]:
    """What is wrong with the file, after a quick look or a look at all of it."""
    if all_of_it:
        checks = ["integrity_check(20)"]
    else:
        size = base.execute(
            "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
        )
        is_small = size.fetchone()[0] <= MAX_LOOKED_THROUGH
        checks = ["quick_check(20)"] if is_small else [f"quick_check({table})" for table in SMALL]
    rows = [row for check in checks for row in base.execute(f"PRAGMA {check}").fetchall()]
    found = [line for row in rows for line in str(row[0]).splitlines() if line[:3] != "***"]
    if all_of_it:
        strays = base.execute("PRAGMA foreign_key_check").fetchmany(20)
        found += [f"a row of {row[0]} belongs to nothing in {row[2]}" for row in strays]
    return [words for words in found if words != "ok"]


@contextmanager
def told(path: Path) -> Iterator[None]:
    """Errors of SQLite become errors in words."""
    try:
        yield
    except sqlite3.Error as error:
        raise LibraryError(f"the library {path} {_words(error)}") from error


def _words(error: sqlite3.Error) -> str:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return {
        sqlite3.SQLITE_BUSY: f"is in use by another process, which was waited for {WAIT:.0f} s: "
        "try again when it has finished.",
        sqlite3.SQLITE_LOCKED: "is in use by another part of this program: try again.",
        sqlite3.SQLITE_FULL: "cannot be written: the disk is full. What was decided before is "
        "kept; make room, and do the last step again.",
        sqlite3.SQLITE_READONLY: "cannot be written: the file or its folder is read-only. Allow "
        "writing, or copy the library to another place.",
        sqlite3.SQLITE_CANTOPEN: "cannot be opened: look at its name, and at who may read and "
        "write its folder.",
        sqlite3.SQLITE_PERM: "cannot be opened: you may not read it.",
        sqlite3.SQLITE_PROTOCOL: "lies on a drive where files cannot be locked: put it on a disk "
        "of this computer (-o FILE); the pictures may stay where they are.",
        sqlite3.SQLITE_IOERR: f"cannot be read or written: the disk reports an error ({error}). "
        "What was decided before is kept if the disk is.",
        sqlite3.SQLITE_CORRUPT: f"is damaged ({error}). Keep the file, and restore a copy of it, "
        "or an export with `prototag library import`.",
        sqlite3.SQLITE_NOTADB: "is not a library, and was left as it is. Name another.",
    }.get(code, f"cannot be used: {error}.")


def _check_there(path: Path, new: bool) -> None:
    """Before SQLite looks, which would take any empty file for a new database.

    The file itself is never opened but by SQLite: to close it would end, on many systems, the locks
    that other connections of this process hold on it.
    """
    try:
        status = os.stat(path)
    except FileNotFoundError:
        raise LibraryError(
            f"there is no library {path}: make one with `prototag library create FOLDER`, or name "
            "another."
        ) from None
    except OSError as error:
        raise LibraryError(
            f"the library {path} cannot be opened: {error.strerror or error}."
        ) from None
    if not stat.S_ISREG(status.st_mode) or not (status.st_size or new):
        raise LibraryError(f"{path} is not a library: it was left as it is. Name another.")
    if status.st_nlink > 1:
        _refuse_second_name(path, status)


def _refuse_second_name(path: Path, status: os.stat_result) -> None:
    """Refuse a hard link to a library that is in use, or was left, by another name in its folder.

    SQLite names the write-ahead log by the database. By two names one file would have two logs, and
    each would overwrite pages that the other knows of.
    """
    path = Path(os.path.realpath(path))
    used = None
    with suppress(OSError), os.scandir(path.parent) as entries:
        for entry in entries:
            if (
                entry.name != path.name
                and os.path.lexists(f"{entry.path}-wal")
                and os.path.samestat(entry.stat(follow_symlinks=False), status)
            ):
                used = entry.path
    if used is not None:
        raise LibraryError(
            f"the library {path} is in use under the name {used}: open it by that name."
        )


def _opened(path: Path, mode: str, wait: float, vfs: str | None) -> sqlite3.Connection:
    name = f"{Path(os.path.abspath(path)).as_uri()}?mode={mode}"
    return sqlite3.connect(
        f"{name}&vfs={vfs}" if vfs else name,
        timeout=wait,
        isolation_level=None,
        check_same_thread=False,
        uri=True,
        cached_statements=256,
    )


def _check_owner(base: sqlite3.Connection, path: Path, new: bool, known: int) -> None:
    version, owner = base.execute(
        "SELECT user_version, application_id FROM pragma_user_version, pragma_application_id"
    ).fetchone()
    if owner != OURS and not (new and owner == version == 0):
        raise LibraryError(
            f"{path} is a database of another program: it was left as it is. Name another."
        )
    if version > known:
        raise LibraryError(
            f"the library {path} is of version {version}, this program knows versions up to "
            f"{known}: upgrade prototag. The library was left as it is."
        )


def _version(base: sqlite3.Connection) -> int:
    return int(base.execute("PRAGMA user_version").fetchone()[0])


def _enter_wal(base: sqlite3.Connection, wait: float) -> None:
    """A write-ahead log, or where a drive cannot have one a rollback journal, which it can."""
    deadline = time.monotonic() + wait
    while True:
        try:
            base.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            code = error.sqlite_errorcode & 0xFF
            if code in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_CANTOPEN):
                base.execute("PRAGMA journal_mode = DELETE")
                return
            # SQLite does not wait here while another process opens the same new file.
            if code != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
