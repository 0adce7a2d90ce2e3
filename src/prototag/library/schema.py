"""SQLite schema of a library with its migrations, and the connections to its file.

docs/reference/library-file.md lists the tables. The version of a file is the number of the last
migration that was applied to it. Migrations are applied in order, each in one transaction. A
migration is never changed once it is released: a change of the schema is a new one at the end.
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
from prototag.library import text_matching
from prototag.storage.sqlite_lock_guard import OpenDatabase

APPLICATION_ID = int.from_bytes(b"PTli", "big")  # application_id of a library file
BUSY_TIMEOUT = 30.0  # seconds that a process waits for the transaction of another
# Opening checks a file of up to this size for damage, which takes about 0.1 s, and of a larger file
# the small tables only. `library status --check` checks all of it.
MAX_QUICK_CHECK_BYTES = 32 << 20
SMALL_TABLES = ("settings", "roots", "tags", "aliases", "models", "counters")

_FIRST = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    # A path inside the folder of the library is relative to it, so that both can be moved.
    """CREATE TABLE roots (id INTEGER PRIMARY KEY, path BLOB NOT NULL UNIQUE, kind TEXT NOT NULL,
        column TEXT, hierarchy TEXT NOT NULL)""",
    "CREATE TABLE counts (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID",
    "INSERT INTO counts VALUES ('decisions', 0)",  # that are not undone
    # AUTOINCREMENT never reuses a number: decisions and models refer to them. Triggers keep the
    # counts (own to places), because counting a million rows is too slow for a page.
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
    # said: parsed tags as JSON. synced: the tags_stamp at the last sync.
    """CREATE TABLE places (path BLOB PRIMARY KEY, folder BLOB NOT NULL, name TEXT NOT NULL,
        picture INTEGER NOT NULL REFERENCES pictures ON DELETE CASCADE,
        root INTEGER NOT NULL REFERENCES roots ON DELETE CASCADE,
        stamp BLOB, tags_stamp BLOB, said TEXT, synced BLOB,
        present INTEGER NOT NULL DEFAULT 1)""",
    "CREATE INDEX places_by_picture ON places (picture, present)",
    "CREATE INDEX places_by_folder ON places (folder, present)",
    "CREATE INDEX places_by_name ON places (name, present, picture)",  # covers searches
    # Training writes learned to recall. changed counts label changes; suggested is the count that
    # the suggestions include.
    """CREATE TABLE tags (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE,
        key TEXT NOT NULL UNIQUE, hidden INTEGER NOT NULL DEFAULT 0, own INTEGER NOT NULL DEFAULT 0,
        accepted INTEGER NOT NULL DEFAULT 0, rejected INTEGER NOT NULL DEFAULT 0,
        waiting INTEGER NOT NULL DEFAULT 0,
        learned INTEGER NOT NULL DEFAULT 0, needed INTEGER NOT NULL DEFAULT 0, precision REAL,
        recall REAL, changed INTEGER NOT NULL DEFAULT 0, suggested INTEGER NOT NULL DEFAULT -1)""",
    # Former names of tags, which files may still have.
    """CREATE TABLE aliases (key TEXT PRIMARY KEY, name TEXT NOT NULL,
        tag INTEGER NOT NULL REFERENCES tags ON DELETE CASCADE) WITHOUT ROWID""",
    # value is the current label; found is the label from files (1, 0 or NULL).
    """CREATE TABLE labels (picture INTEGER NOT NULL REFERENCES pictures ON DELETE CASCADE,
        tag INTEGER NOT NULL REFERENCES tags ON DELETE CASCADE, value INTEGER NOT NULL,
        origin TEXT NOT NULL, found INTEGER, PRIMARY KEY (picture, tag)) WITHOUT ROWID""",
    "CREATE INDEX labels_by_tag ON labels (tag, value, picture)",
    # before: the state that undoing restores, as JSON (library/decisions.py).
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
    # Accepted tags that files have, because a sync wrote them (ours) or anyway; done is 0 while a
    # sync writes them.
    """CREATE TABLE written (path BLOB NOT NULL REFERENCES places ON DELETE CASCADE,
        name TEXT NOT NULL, ours INTEGER NOT NULL, done INTEGER NOT NULL,
        PRIMARY KEY (path, name)) WITHOUT ROWID""",
)


def _counting() -> Iterator[str]:
    """Generate the first version's triggers, which keep the counts of pictures and tags."""
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
    # Performance of a tag by its number of pictures (library/learning_curves.py).
    """CREATE TABLE curves (tag INTEGER NOT NULL REFERENCES tags ON DELETE CASCADE,
        examples INTEGER NOT NULL, precision REAL, recall REAL NOT NULL, model INTEGER NOT NULL,
        at REAL NOT NULL, PRIMARY KEY (tag, examples)) WITHOUT ROWID""",
    # Curves begin with the performance in the current model.
    """INSERT INTO curves SELECT id, own, precision, recall, number, made FROM tags, models
        WHERE current = 1 AND own > 0 AND learned = 1 AND recall IS NOT NULL""",
)

_THIRD = (
    # Numbers of batches are never reused: browser tabs store them for undo.
    "INSERT INTO counts SELECT 'batches', coalesce(max(batch), 0) FROM decisions",
    """CREATE TRIGGER decisions_batches AFTER INSERT ON decisions BEGIN
        UPDATE counts SET value = max(value, new.batch) WHERE name = 'batches'; END""",
)


def _rename_columns(table: str, names: dict[str, str]) -> Iterator[str]:
    for old, new in names.items():
        yield f"ALTER TABLE {table} RENAME COLUMN {old} TO {new}"


def _label_triggers() -> Iterator[str]:
    """Generate the triggers that keep the counts of labels per picture and tag."""
    events = {
        "INSERT": (("new", "+"),),
        "DELETE": (("old", "-"),),
        "UPDATE": (("old", "-"), ("new", "+")),
    }
    for event, rows in events.items():
        statements = "".join(
            f"""
            UPDATE pictures SET n_tags = n_tags {sign} ({row}.value = 1),
                n_decided = n_decided {sign} ({row}.source = 'decision'),
                n_unwritten = n_unwritten {sign} ({row}.source = 'decision' AND {row}.value = 1
                AND {row}.file_value IS NOT 1) WHERE id = {row}.picture;
            UPDATE tags SET n_pictures = n_pictures {sign} ({row}.value = 1),
                n_accepted = n_accepted {sign} ({row}.value = 1 AND {row}.source = 'decision'),
                n_rejected = n_rejected {sign} ({row}.value = 0 AND {row}.source = 'decision'),
                label_changes = label_changes + 1 WHERE id = {row}.tag;"""
            for row, sign in rows
        )
        name = f"labels_{event.lower()}"
        yield f"CREATE TRIGGER {name} AFTER {event} ON labels BEGIN {statements} END"


# Names of tables, columns and values in the terms of docs/terms.md. SQLite renames columns in
# indexes and triggers; only the triggers that compare the renamed values are created again.
_FOURTH = (
    *(f"DROP TRIGGER labels_{event}" for event in ("insert", "delete", "update")),
    "ALTER TABLE meta RENAME TO settings",
    "ALTER TABLE counts RENAME TO counters",
    *_rename_columns(
        "pictures",
        {
            "added": "added_at",
            "own": "n_tags",
            "decided": "n_decided",
            "unwritten": "n_unwritten",
            "waiting": "n_suggestions",
            "places": "n_files",
            "grouped": "duplicate_group",
        },
    ),
    "ALTER TABLE places RENAME TO files",
    *_rename_columns(
        "files",
        {
            "name": "search_name",
            "stamp": "file_stamp",
            "said": "parsed_tags",
            "synced": "synced_stamp",
        },
    ),
    *(f"DROP INDEX places_by_{name}" for name in ("picture", "folder", "name")),
    "CREATE INDEX files_by_picture ON files (picture, present)",
    "CREATE INDEX files_by_folder ON files (folder, present)",
    "CREATE INDEX files_by_search_name ON files (search_name, present, picture)",
    *_rename_columns(
        "tags",
        {
            "own": "n_pictures",
            "accepted": "n_accepted",
            "rejected": "n_rejected",
            "waiting": "n_suggestions",
            "needed": "n_needed",
            "changed": "label_changes",
            "suggested": "suggested_changes",
        },
    ),
    *_rename_columns("labels", {"origin": "source", "found": "file_value"}),
    "UPDATE labels SET source = iif(source = 'decided', 'decision', 'file')",
    *_rename_columns("decisions", {"at": "decided_at", "by": "decided_by", "before": "undo_state"}),
    *_rename_columns("suggestions", {"grouped": "duplicate_group"}),
    *_rename_columns(
        "models",
        {
            "made": "trained_at",
            "pictures": "n_pictures",
            "tags": "n_tags",
            "decisions": "last_decision",
            "current": "is_current",
            "data": "recipe",
        },
    ),
    *_rename_columns("model_parts", {"number": "part"}),
    "ALTER TABLE curves RENAME TO learning_curves",
    *_rename_columns("learning_curves", {"examples": "n_pictures", "at": "trained_at"}),
    "ALTER TABLE written RENAME TO written_tags",
    *_rename_columns(
        "written_tags", {"name": "tag_name", "ours": "by_prototag", "done": "is_confirmed"}
    ),
    *_label_triggers(),
    # The model format has changed too: models of before cannot be read, and are trained again.
    "DELETE FROM model_parts",
    "UPDATE models SET is_current = 0",
    "UPDATE tags SET suggested_changes = -1",
    "DELETE FROM settings WHERE key = 'suggested'",
)

_FIFTH = (
    # Coordinates of the vectors on the axes of the concept heads (library/concept_index.py): a
    # float32 scale and int8 values. version: digest of the recipe of the vectors and of the axes.
    """CREATE TABLE concept_coordinates (
        picture INTEGER PRIMARY KEY REFERENCES pictures ON DELETE CASCADE,
        version BLOB NOT NULL, coordinates BLOB NOT NULL)""",
    "CREATE INDEX concept_coordinates_by_version ON concept_coordinates (version)",
)

_SIXTH = (
    # EXIF of a picture, NULL where its files say nothing. A picture without a row is read by the
    # next scan. taken_at: the camera's clock as 2023-05-17T14:03:22, which sorts as text.
    """CREATE TABLE captures (picture INTEGER PRIMARY KEY REFERENCES pictures ON DELETE CASCADE,
        taken_at TEXT, camera TEXT, lens TEXT, latitude REAL, longitude REAL)""",
    # address: the query of the page's address, such as text=dog&state=untagged.
    """CREATE TABLE searches (name TEXT PRIMARY KEY, address TEXT NOT NULL,
        saved_at REAL NOT NULL) WITHOUT ROWID""",
)

_SEVENTH = (
    # Where a written tag is: "sidecar" or "file".
    "ALTER TABLE written_tags ADD COLUMN place TEXT NOT NULL DEFAULT 'sidecar'",
    "CREATE TABLE writes (id INTEGER PRIMARY KEY AUTOINCREMENT, written_at REAL NOT NULL)",
    # What restores a file (metadata/restoration.py). added, removed: tags as JSON.
    """CREATE TABLE written_files (
        write_number INTEGER NOT NULL REFERENCES writes ON DELETE CASCADE, path BLOB NOT NULL,
        picture_path BLOB NOT NULL, place TEXT NOT NULL, added TEXT NOT NULL, removed TEXT NOT NULL,
        start INTEGER NOT NULL, old BLOB, tail INTEGER NOT NULL, digest_before BLOB NOT NULL,
        digest_after BLOB NOT NULL, restored INTEGER NOT NULL DEFAULT 0,
        PRIMARY KEY (write_number, path)) WITHOUT ROWID""",
)

MIGRATIONS: tuple[Sequence[str], ...] = (
    (*_FIRST, *_counting()),
    _SECOND,
    _THIRD,
    _FOURTH,
    _FIFTH,
    _SIXTH,
    _SEVENTH,
)


def create(path: Path) -> None:
    """Create a new, empty library; raise an error if the file exists."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    except FileExistsError:
        raise LibraryError(
            f"the library {path} exists already: `prototag open` opens it, `prototag library "
            "sync` brings it up to date. Give another name (-o FILE) to make a new one."
        ) from None
    except OSError as error:
        raise LibraryError(
            f"the library {path} cannot be created: {error.strerror or error}. Name a file in "
            "another folder: `prototag open FOLDER -l FILE`, or `prototag library create FOLDER -o "
            "FILE`."
        ) from None
    registered = OpenDatabase(path)
    try:
        conn = connect(path, new=True)
        conn.close()
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
    wait: float = BUSY_TIMEOUT,
    vfs: str | None = None,
    migrations: tuple[Sequence[str], ...] = MIGRATIONS,
) -> sqlite3.Connection:
    """Open a connection that may write, and apply all missing migrations.

    Parameters
    ----------
    path : Path
    new : bool
        Whether the file is empty and is to become a library.
    wait : float
        Seconds to wait for other processes.
    vfs : str, optional
        Name of the SQLite VFS.
    migrations : tuple of sequences of str
        SQL statements, by version.

    Raises
    ------
    LibraryError
        The file is no library, is damaged, is of a newer version, or cannot be written.
    """
    with translate_sqlite_errors(path):
        _check_there(path, new)
        conn = _open(path, "rw", wait, vfs)
        try:
            _check_owner(conn, path, new, len(migrations))
            if new:
                conn.execute("PRAGMA page_size = 8192")
            _enter_wal(conn, wait)
            conn.execute("PRAGMA synchronous = FULL")  # committed decisions survive a power cut
            conn.execute("PRAGMA foreign_keys = ON")
            conn.execute("PRAGMA recursive_triggers = ON")  # also for rows that REPLACE deletes
            migrate(conn, migrations)
            return conn
        except BaseException:
            conn.close()
            raise


def connect_reading(
    path: Path, *, wait: float = BUSY_TIMEOUT, vfs: str | None = None
) -> sqlite3.Connection:
    """Open a read-only connection, also to a file on a read-only disk."""
    with translate_sqlite_errors(path):
        _check_there(path, False)
        try:
            conn = _open(path, "ro", wait, vfs)
            conn.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.OperationalError:
            # SQLite writes beside the file even to read a write-ahead log. Without a log the file
            # is complete, and on a read-only disk nobody can change it.
            log = Path(f"{path}-wal")
            if os.access(path.parent, os.W_OK) or (log.exists() and log.stat().st_size):
                raise
            conn = _open(path, "ro&immutable=1", wait, vfs)
        try:
            _check_owner(conn, path, False, len(MIGRATIONS))
            _check_migrated(conn, path)
            return conn
        except BaseException:
            conn.close()
            raise


def migrate(conn: sqlite3.Connection, migrations: tuple[Sequence[str], ...] = MIGRATIONS) -> None:
    """Apply the missing migrations, each in one transaction."""
    for number, statements in enumerate(migrations, 1):
        if _version(conn) >= number:
            continue
        conn.execute("BEGIN IMMEDIATE")
        try:
            if _version(conn) < number:  # else another process has applied it meanwhile
                for statement in statements:
                    conn.execute(statement)
                conn.execute(f"PRAGMA user_version = {number}")
                conn.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            conn.execute("COMMIT")
        except BaseException:
            conn.execute("ROLLBACK")
            raise


def find_damage(conn: sqlite3.Connection, *, full: bool = False) -> list[str]:
    """Return descriptions of damage; with ``full`` every page is checked."""
    if full:
        checks = ["integrity_check(20)"]
    else:
        size = conn.execute(
            "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
        )
        is_small = size.fetchone()[0] <= MAX_QUICK_CHECK_BYTES
        checks = (
            ["quick_check(20)"] if is_small else [f"quick_check({table})" for table in SMALL_TABLES]
        )
    rows = [row for check in checks for row in conn.execute(f"PRAGMA {check}").fetchall()]
    lines = [line for row in rows for line in str(row[0]).splitlines() if line[:3] != "***"]
    if full:
        strays = conn.execute("PRAGMA foreign_key_check").fetchmany(20)
        lines += [f"a row of {row[0]} belongs to nothing in {row[2]}" for row in strays]
    return [line for line in lines if line != "ok"]


@contextmanager
def translate_sqlite_errors(path: Path) -> Iterator[None]:
    """Translate ``sqlite3.Error`` into ``LibraryError``."""
    try:
        yield
    except sqlite3.Error as error:
        raise LibraryError(f"the library {path} {_message(error)}") from error


def _message(error: sqlite3.Error) -> str:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return {
        sqlite3.SQLITE_BUSY: f"has been in use by another process for {BUSY_TIMEOUT:.0f} s: "
        "try again when it has finished.",
        sqlite3.SQLITE_LOCKED: "is in use by another part of this program: try again.",
        sqlite3.SQLITE_FULL: "cannot be written: the disk is full. What was decided before is "
        "kept; make room, and do the last step again.",
        sqlite3.SQLITE_READONLY: "cannot be written: the file or its folder is read-only. Allow "
        "writing, or copy the library to another place.",
        sqlite3.SQLITE_CANTOPEN: "cannot be opened: check its name, and who may read and "
        "write its folder.",
        sqlite3.SQLITE_PERM: "cannot be opened: you may not read it.",
        sqlite3.SQLITE_PROTOCOL: "is on a drive where files cannot be locked: put it on a disk "
        "of this computer (-o FILE); the pictures may stay where they are.",
        sqlite3.SQLITE_IOERR: f"cannot be read or written: the disk reports an error ({error}). "
        "What was decided before is kept if the disk is.",
        sqlite3.SQLITE_CORRUPT: f"is damaged ({error}). Keep the file, and restore a copy of it, "
        "or an export with `prototag library import`.",
        sqlite3.SQLITE_NOTADB: "is not a library, and was left as it is. Name another.",
    }.get(code, f"cannot be used: {error}.")


def _check_there(path: Path, new: bool) -> None:
    """Refuse a missing or empty file, which SQLite would take for a new database.

    Only SQLite opens the file: closing any other descriptor would drop, on POSIX systems, the locks
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
    """Refuse a hard link to a library that has a write-ahead log under another name in its folder.

    SQLite names the write-ahead log after the database. Under two names one file would have two
    logs, and each would overwrite pages of the other.
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


def _open(path: Path, mode: str, wait: float, vfs: str | None) -> sqlite3.Connection:
    name = f"{Path(os.path.abspath(path)).as_uri()}?mode={mode}"
    conn = sqlite3.connect(
        f"{name}&vfs={vfs}" if vfs else name,
        timeout=wait,
        isolation_level=None,
        check_same_thread=False,
        uri=True,
        cached_statements=256,
    )
    text_matching.register(conn)
    return conn


def _check_owner(conn: sqlite3.Connection, path: Path, new: bool, known: int) -> None:
    version, owner = conn.execute(
        "SELECT user_version, application_id FROM pragma_user_version, pragma_application_id"
    ).fetchone()
    if owner != APPLICATION_ID and not (new and owner == version == 0):
        raise LibraryError(
            f"{path} is a database of another program: it was left as it is. Name another."
        )
    if version > known:
        raise LibraryError(
            f"the library {path} is of version {version}, this program knows versions up to "
            f"{known}: upgrade prototag. The library was left as it is."
        )


def _check_migrated(conn: sqlite3.Connection, path: Path) -> None:
    """Refuse to read a file of an older version, whose tables have other names."""
    if (version := _version(conn)) < len(MIGRATIONS):
        raise LibraryError(
            f"the library {path} is of version {version} and must be upgraded to version "
            f"{len(MIGRATIONS)}, but the file or its folder is read-only: allow writing, or copy "
            "the library to another place and open it once."
        )


def _version(conn: sqlite3.Connection) -> int:
    return int(conn.execute("PRAGMA user_version").fetchone()[0])


def _enter_wal(conn: sqlite3.Connection, wait: float) -> None:
    """Turn on the write-ahead log, or a rollback journal on drives that cannot have one."""
    deadline = time.monotonic() + wait
    while True:
        try:
            conn.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            code = error.sqlite_errorcode & 0xFF
            if code in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_CANTOPEN):
                conn.execute("PRAGMA journal_mode = DELETE")
                return
            # SQLite's busy timeout does not apply while another process opens the same new file.
            if code != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
