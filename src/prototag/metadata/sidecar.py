"""XMP sidecars: their names, planned changes, and atomic writes.

``plan`` and ``plan_untag`` compute a change without writing. ``apply`` writes a new file and
renames it under a lock of the folder, if the sidecar is still the one that was planned for.
Pictures are never opened for writing.
"""

from __future__ import annotations

import difflib
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from prototag.errors import MetadataError
from prototag.metadata import embedded_reader
from prototag.metadata.find_files import PICTURES, RAW
from prototag.metadata.tag_names import clean, unique
from prototag.metadata.xmp.packet import Keywords, Packet
from prototag.metadata.xmp.packet_editor import Merged, merge, strip
from prototag.metadata.xmp.xml_tree import MAX_BYTES, parse
from prototag.storage.atomic_write import write_beside
from prototag.storage.sqlite_lock_guard import close_descriptor, open_descriptor

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

Naming = Literal["auto", "full", "stem"]
PathLike = str | os.PathLike[str]
MAX_ATTEMPTS = 10  # to write a file that other programs change
LOCK_TIMEOUT_SECONDS = 30.0  # for the lock of a folder


def sidecars(image: PathLike) -> list[Path]:
    """Find the existing sidecars of a picture, the one with its full name first."""
    path = Path(image)
    full = path.with_name(path.name + ".xmp")
    stem = path.with_suffix(".xmp")
    names = [full, full.with_suffix(".XMP"), stem, stem.with_suffix(".XMP")]
    paths: list[Path] = []
    for name in names:
        # On a case-insensitive file system two names are one file.
        if name.is_file() and not any(name.samefile(other) for other in paths):
            paths.append(name)
    return paths


def target(image: PathLike, naming: Naming = "auto") -> Path:
    """Select the sidecar to write: an existing one, else a new one.

    ``naming`` is ``"full"`` for a new ``photo.jpg.xmp`` (digiKam, darktable), ``"stem"`` for
    ``photo.xmp`` (Adobe), ``"auto"`` for ``photo.xmp`` of a raw file and ``photo.jpg.xmp`` of any
    other. A ``photo.xmp`` beside a raw file belongs to the raw file. One that several pictures
    share, such as ``photo.jpg`` and ``photo.png``, is read for each of them and never written.
    """
    if naming not in ("auto", "full", "stem"):
        raise MetadataError(
            f'naming={naming!r}: "auto", "full" (photo.jpg.xmp) or "stem" (photo.xmp).'
        )
    path = Path(image)
    if naming == "auto":
        naming = "stem" if path.suffix.lower() in RAW else "full"
    shared = None
    for existing in sidecars(path):
        if existing.stem == path.name:
            return existing
        shared = _is_shared(path)
        if not shared:
            return existing
    if naming == "stem" and path.suffix and not (_is_shared(path) if shared is None else shared):
        return path.with_suffix(".xmp")
    return path.with_name(path.name + ".xmp")


def _is_shared(path: Path) -> bool:
    """Return whether another picture (for a raw file, another raw file) has the same stem."""
    kinds = RAW if path.suffix.lower() in RAW else PICTURES | RAW
    names = {path.with_suffix(s) for x in kinds for s in (x, x.upper())} - {path}
    return any(name.exists() and not name.samefile(path) for name in names)


def read(path: PathLike) -> Keywords:
    """Read the keywords of a sidecar."""
    data = read_if_exists(Path(path))
    if data is None:
        raise MetadataError(f"{os.fspath(path)}: there is no such sidecar")
    with naming_file(Path(path)):
        return Packet(data).keywords()


def plan(
    image: PathLike,
    tags: Iterable[str],
    *,
    naming: Naming = "auto",
    replace: bool = True,
    inside: bool = True,
) -> Change:
    """Plan to write tags to the sidecar of a picture; nothing is written.

    Parameters
    ----------
    image : path-like
        The picture; it must exist.
    tags : iterable of str
        Proposed tags, hierarchical ones as ``animal|cat``. Tags of an earlier run that are not
        among them are removed; tags of a person stay.
    naming : {"auto", "full", "stem"}
        Name of a new sidecar, see :func:`target`.
    replace : bool
        False keeps the tags of earlier runs.
    inside : bool
        Copy the keywords inside the picture to a sidecar that has none, so that programs which
        read the sidecar alone still show them.

    Raises
    ------
    MetadataError
        If the picture or its sidecar cannot be read, or the sidecar is damaged.
    """
    path = Path(image)
    given = [*tags]
    keywords, problems = embedded_reader.read(path)
    persons = keywords.tags if inside else ()
    notes = [f"{path}: {problem}" for problem in problems]
    notes += [
        f"{path}: the tag {tag!r} has no characters to write" for tag in given if not clean(tag)
    ]
    unique_tags = unique(given)

    def replan(data: bytes | None) -> Merged:
        return merge(data, unique_tags, inside=persons, replace=replace)

    return prepare(path, target(path, naming), replan, notes)


def plan_untag(image: PathLike, *, tags: Iterable[str] | None = None, keep: bool = False) -> Change:
    """Plan to remove ProtoTag's tags from the sidecar of a picture; nothing is written.

    Parameters
    ----------
    image : path-like
        The picture; it need not exist if its sidecar does.
    tags : iterable of str, optional
        Tags to remove; by default all, with all marks.
    keep : bool
        Remove the marks only: the tags become the person's own.

    Raises
    ------
    MetadataError
        If neither picture nor sidecar exist, or the sidecar is damaged.
    """
    path = Path(image)
    existing = sidecars(path)
    if not existing and not path.exists():
        raise MetadataError(f"{path} does not exist and has no sidecar: check the name.")
    names = None if tags is None else [*tags]

    def replan(data: bytes | None) -> Merged:
        return Merged(None, [], []) if data is None else strip(data, names, keep=keep)

    for name in existing:
        if change := prepare(path, name, replan, []):
            return change
    return prepare(path, target(path), replan, [])


@dataclass(frozen=True)
class Change:
    """Planned change of one sidecar. False if nothing changes.

    Attributes
    ----------
    image : Path
        The picture.
    path : Path
        Its sidecar.
    old : bytes or None
        Content before; None if there is no file.
    new : bytes or None
        Content after; None if the file is deleted.
    added, removed : tuple of str
        Tags, hierarchical ones as ``animal|cat``.
    notes : tuple of str
        Messages for the user, such as tags that cannot be written.
    """

    image: Path
    path: Path
    old: bytes | None
    new: bytes | None
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    replan: Callable[[bytes | None], Merged] | None = field(default=None, repr=False, compare=False)

    @property
    def contents(self) -> tuple[bytes | None, bytes | None]:
        """Return the whole file before and after, of a change that was applied."""
        return self.old, self.new

    def __bool__(self) -> bool:
        return self.old != self.new

    def diff(self) -> str:
        """Return a unified diff of the sidecar's text, empty if nothing changes."""
        old, new = (os.devnull if d is None else str(self.path) for d in (self.old, self.new))
        lines = difflib.unified_diff(_lines(self.old), _lines(self.new), old, new, n=1)
        return "".join(line if line.endswith("\n") else line + "\n" for line in lines)

    def summary(self) -> str:
        """Return one line: the sidecar, and its tags with + and -."""
        tags = [f"+{tag}" for tag in self.added] + [f"-{tag}" for tag in self.removed]
        return f"{self.path}: {', '.join(tags) or ('no new tags' if self else 'no change')}"


def _lines(data: bytes | None) -> list[str]:
    return parse(data).text.decode().splitlines(keepends=True) if data else []


def prepare(
    image: Path, path: Path, replan: Callable[[bytes | None], Merged], notes: list[str]
) -> Change:
    """Compute the change by ``replan`` from the current content of the sidecar."""
    old = read_if_exists(path)
    with naming_file(path):
        merged = replan(old)
    return Change(
        image,
        path,
        old,
        merged.data,
        tuple(merged.added),
        tuple(merged.removed),
        tuple(notes),
        replan,
    )


@contextmanager
def naming_file(path: Path) -> Iterator[None]:
    """Add the name of the file to errors about its packet."""
    try:
        yield
    except MetadataError as error:
        raise MetadataError(f"{path} {error}. It was not changed: fix or move it.") from None


def read_if_exists(path: Path) -> bytes | None:
    """Read a sidecar; None if it does not exist."""
    try:
        handle = open_descriptor(
            path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise MetadataError(f"{path} cannot be read: {_reason(error)}") from None
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise MetadataError(f"{path} is not a regular file: move it away.")
        if status.st_size > MAX_BYTES:
            raise MetadataError(
                f"{path} has {status.st_size:,} bytes; the limit is {MAX_BYTES:,}. "
                "It was not changed."
            )
        with open(handle, "rb", buffering=0, closefd=False) as file:
            return file.readall()
    finally:
        close_descriptor(handle)


def apply(change: Change) -> Change:
    """Apply a change, and return the change that was made.

    If the sidecar has changed since it was planned, the tags are merged into its new content.

    Raises
    ------
    MetadataError
        If the folder is read-only, the disk full, or the sidecar damaged: nothing was changed.
    """
    path = Path(os.path.realpath(change.path))
    try:
        change = note_hard_links(change, path)
        if not change or _try_write(path, change, lock_folder(path.parent)):
            return change
        with lock_folder(path.parent):
            for _ in range(MAX_ATTEMPTS):
                change = _replanned(change)
                if not change or _try_write(path, change, nullcontext()):
                    return change
    except OSError as error:
        raise MetadataError(
            f"{path} cannot be written: {_reason(error)}. Nothing was changed."
        ) from None
    raise MetadataError(f"{path} changes faster than it can be written: close what edits it.")


def note_hard_links(change: Change, path: Path) -> Change:
    """Add a note if a file has hard links, which keep the old content."""
    if not change or not path.exists() or path.stat().st_nlink < 2:
        return change
    note = f"{path} has hard links, which keep the old content."
    return replace(change, notes=(*change.notes, note))


def check_writable(path: Path) -> None:
    """Refuse a read-only file, which a rename would replace."""
    if not os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
        raise MetadataError(f"{path} is read-only: allow writing, or leave it out.")


def _replanned(change: Change) -> Change:
    if change.replan is None:
        raise MetadataError(f"{change.path} has changed since: plan the change again.")
    return prepare(change.image, change.path, change.replan, [*change.notes])


def _try_write(path: Path, change: Change, lock: AbstractContextManager[None]) -> bool:
    """Apply the change; return False if the sidecar has changed since it was planned.

    The new file is written to disk before the lock is taken, so the lock is held briefly.
    """
    temporary = None if change.new is None else write_beside(path, change.new)
    try:
        with lock:
            if read_if_exists(path) != change.old:
                return False
            if change.old is not None:
                check_writable(path)
                if temporary is not None:
                    copy_attributes(temporary, path)
            if temporary is None:
                path.unlink()
            else:
                os.replace(temporary, path)
            return True
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def copy_attributes(temporary: Path, path: Path) -> None:
    """Copy permissions, owner and extended attributes, including access control lists."""
    status = path.stat()
    if hasattr(os, "chown"):
        with suppress(OSError):  # only root may change the owner
            os.chown(temporary, status.st_uid, status.st_gid)
    temporary.chmod(stat.S_IMODE(status.st_mode))
    if hasattr(os, "listxattr"):
        with suppress(OSError):  # the file system may not support them
            for name in os.listxattr(path):
                with suppress(OSError):  # some are reserved for the system
                    os.setxattr(temporary, name, os.getxattr(path, name))


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Lock a folder against other ProtoTag processes; the lock ends with the process.

    Without folder locks (Windows, some network file systems) only the comparison just before the
    rename protects against concurrent writers.
    """
    handle = None
    if fcntl is not None:
        with suppress(OSError):
            handle = os.open(folder, os.O_RDONLY)
            _wait_for(handle, folder)
    try:
        yield
    finally:
        if handle is not None:
            os.close(handle)


def _wait_for(handle: int, folder: Path) -> None:
    """Lock a folder; ProtoTag holds locks briefly, so a timeout means another program."""
    deadline = time.monotonic() + LOCK_TIMEOUT_SECONDS
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                os.close(handle)
                raise MetadataError(
                    f"another program has locked {folder}: close it, and try again."
                ) from None
            time.sleep(0.01)


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
