"""Sidecars: which file belongs to a picture, what would change in it, and the change itself.

``plan`` and ``plan_untag`` compute and touch nothing. ``apply`` writes a new file beside the old
one and renames it, under a lock of the folder, after a last look whether the sidecar is still the
one that was planned for. A picture itself is never opened for writing.
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
TRIES = 10
WAIT = 30.0  # seconds for the lock of a folder


def sidecars(image: PathLike) -> list[Path]:
    """The sidecars of a picture that exist, the one that names it fully first."""
    path = Path(image)
    full = path.with_name(path.name + ".xmp")
    stem = path.with_suffix(".xmp")
    names = [full, full.with_suffix(".XMP"), stem, stem.with_suffix(".XMP")]
    found: list[Path] = []
    for name in names:
        # On a file system that ignores case two names are one file.
        if name.is_file() and not any(name.samefile(other) for other in found):
            found.append(name)
    return found


def target(image: PathLike, naming: Naming = "auto") -> Path:
    """The sidecar to write: the one that exists, else a new one.

    ``naming`` is ``"full"`` for a new ``photo.jpg.xmp`` (digiKam, darktable), ``"stem"`` for
    ``photo.xmp`` (Adobe), ``"auto"`` for ``photo.xmp`` of a raw file and ``photo.jpg.xmp`` of any
    other. A ``photo.xmp`` beside a raw file belongs to that. One that other pictures share,
    ``photo.jpg`` and ``photo.png``, is read for each of them and written for none.
    """
    if naming not in ("auto", "full", "stem"):
        raise MetadataError(
            f'naming={naming!r}: "auto", "full" (photo.jpg.xmp) or "stem" (photo.xmp).'
        )
    path = Path(image)
    if naming == "auto":
        naming = "stem" if path.suffix.lower() in RAW else "full"
    shared = None
    for found in sidecars(path):
        if found.stem == path.name:
            return found
        shared = _is_shared(path)
        if not shared:
            return found
    if naming == "stem" and path.suffix and not (_is_shared(path) if shared is None else shared):
        return path.with_suffix(".xmp")
    return path.with_name(path.name + ".xmp")


def _is_shared(path: Path) -> bool:
    """Whether another picture has the same name but for its suffix; to a raw file, another raw."""
    kinds = RAW if path.suffix.lower() in RAW else PICTURES | RAW
    names = {path.with_suffix(s) for x in kinds for s in (x, x.upper())} - {path}
    return any(name.exists() and not name.samefile(path) for name in names)


def read(path: PathLike) -> Keywords:
    """The keywords of a sidecar."""
    data = content(Path(path))
    if data is None:
        raise MetadataError(f"{os.fspath(path)}: there is no such sidecar")
    with named(Path(path)):
        return Packet(data).keywords()


def plan(
    image: PathLike,
    tags: Iterable[str],
    *,
    naming: Naming = "auto",
    replace: bool = True,
    inside: bool = True,
) -> Change:
    """What writing these tags would change.

    Parameters
    ----------
    image : path-like
        The picture; it must exist.
    tags : iterable of str
        Proposed tags, hierarchical ones as ``animal|cat``. Tags of an earlier run that are not
        among them go, a person's stay.
    naming : {"auto", "full", "stem"}
        How a new sidecar is named, see :func:`target`.
    replace : bool
        False keeps the tags of earlier runs.
    inside : bool
        Repeat the keywords inside the picture in a sidecar that has none, so that a program which
        reads the sidecar alone still shows them.

    Raises
    ------
    MetadataError
        The picture or its sidecar cannot be read, or the sidecar is broken.
    """
    path = Path(image)
    given = [*tags]
    keywords, problems = embedded_reader.read(path)
    persons = keywords.tags if inside else ()
    notes = [f"{path}: {problem}" for problem in problems]
    notes += [
        f"{path}: the tag {tag!r} has no characters to write" for tag in given if not clean(tag)
    ]
    wanted = unique(given)

    def again(data: bytes | None) -> Merged:
        return merge(data, wanted, inside=persons, replace=replace)

    return prepare(path, target(path, naming), again, notes)


def plan_untag(image: PathLike, *, tags: Iterable[str] | None = None, keep: bool = False) -> Change:
    """What taking back ProtoTag's tags would change.

    Parameters
    ----------
    image : path-like
        The picture; its sidecar alone may be left of it.
    tags : iterable of str, optional
        Only these; all, and every mark, if not given.
    keep : bool
        Take the marks alone: the tags are the person's from then on.

    Raises
    ------
    MetadataError
        There is neither a picture nor a sidecar, or the sidecar is broken.
    """
    path = Path(image)
    found = sidecars(path)
    if not found and not path.exists():
        raise MetadataError(f"{path} does not exist, nor has it a sidecar: look at its name.")
    wanted = None if tags is None else [*tags]

    def again(data: bytes | None) -> Merged:
        return Merged(None, [], []) if data is None else strip(data, wanted, keep=keep)

    for name in found:
        if change := prepare(path, name, again, []):
            return change
    return prepare(path, target(path), again, [])


@dataclass(frozen=True)
class Change:
    """What would happen to one sidecar. False if nothing would.

    Attributes
    ----------
    image : Path
        The picture.
    path : Path
        Its sidecar.
    old : bytes or None
        Content before; None where there is no file.
    new : bytes or None
        Content after; None where there will be no file.
    added, removed : tuple of str
        Tags, hierarchical ones as ``animal|cat``.
    notes : tuple of str
        What a person should know: tags that could not be written.
    """

    image: Path
    path: Path
    old: bytes | None
    new: bytes | None
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    again: Callable[[bytes | None], Merged] | None = field(default=None, repr=False, compare=False)

    def __bool__(self) -> bool:
        return self.old != self.new

    def diff(self) -> str:
        """A unified diff of the sidecar's text; empty if nothing would change."""
        old, new = (os.devnull if d is None else str(self.path) for d in (self.old, self.new))
        lines = difflib.unified_diff(_lines(self.old), _lines(self.new), old, new, n=1)
        return "".join(line if line.endswith("\n") else line + "\n" for line in lines)

    def summary(self) -> str:
        """One line: the sidecar and its tags with + and -."""
        tags = [f"+{tag}" for tag in self.added] + [f"-{tag}" for tag in self.removed]
        return f"{self.path}: {', '.join(tags) or ('no new tags' if self else 'no change')}"


def _lines(data: bytes | None) -> list[str]:
    return parse(data).text.decode().splitlines(keepends=True) if data else []


def prepare(
    image: Path, path: Path, again: Callable[[bytes | None], Merged], notes: list[str]
) -> Change:
    """The change that ``again`` makes of the sidecar as it is now."""
    old = content(path)
    with named(path):
        merged = again(old)
    return Change(
        image,
        path,
        old,
        merged.data,
        tuple(merged.added),
        tuple(merged.removed),
        tuple(notes),
        again,
    )


@contextmanager
def named(path: Path) -> Iterator[None]:
    """Errors about a packet name its file, and say that it was left alone."""
    try:
        yield
    except MetadataError as error:
        raise MetadataError(f"{path} {error}. It was left as it is: mend or move it.") from None


def content(path: Path) -> bytes | None:
    """What a sidecar holds; None where there is none."""
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
                "It was left as it is."
            )
        with open(handle, "rb", buffering=0, closefd=False) as file:
            return file.readall()
    finally:
        close_descriptor(handle)


def apply(change: Change) -> Change:
    """Make a change; what was made is returned.

    It differs from what was planned if the sidecar has changed since: the tags are then merged
    into what is there now.

    Raises
    ------
    MetadataError
        The folder is read-only, the disk full, the sidecar broken by now: nothing was changed.
    """
    path = Path(os.path.realpath(change.path))
    try:
        change = told_of_links(change, path)
        if not change or _wrote(path, change, locked(path.parent)):
            return change
        with locked(path.parent):
            for _ in range(TRIES):
                change = _renewed(change)
                if not change or _wrote(path, change, nullcontext()):
                    return change
    except OSError as error:
        raise MetadataError(
            f"{path} cannot be written: {_reason(error)}. Nothing was changed."
        ) from None
    raise MetadataError(f"{path} changes faster than it can be written: close what edits it.")


def told_of_links(change: Change, path: Path) -> Change:
    """With a note where a file has other names, which a rename leaves alone."""
    if not change or not path.exists() or path.stat().st_nlink < 2:
        return change
    note = f"{path} has other names (hard links), which keep what it said before."
    return replace(change, notes=(*change.notes, note))


def check_writable(path: Path) -> None:
    """A rename would replace a file that its owner has locked, so it is asked first."""
    if not os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
        raise MetadataError(f"{path} is read-only: allow writing, or leave it out.")


def _renewed(change: Change) -> Change:
    if change.again is None:
        raise MetadataError(f"{change.path} has changed since: plan the change again.")
    return prepare(change.image, change.path, change.again, [*change.notes])


def _wrote(path: Path, change: Change, lock: AbstractContextManager[None]) -> bool:
    """Make the change; False if the sidecar is no longer the one that was planned for.

    The new file reaches the disk before the lock is taken, which is then held for a moment only.
    """
    temporary = None if change.new is None else write_beside(path, change.new)
    try:
        with lock:
            if content(path) != change.old:
                return False
            if change.old is not None:
                check_writable(path)
                if temporary is not None:
                    make_alike(temporary, path)
            if temporary is None:
                path.unlink()
            else:
                os.replace(temporary, path)
            return True
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def make_alike(temporary: Path, path: Path) -> None:
    """Permissions, owner and extended attributes, access lists among them."""
    status = path.stat()
    if hasattr(os, "chown"):
        with suppress(OSError):  # only root may give files away
            os.chown(temporary, status.st_uid, status.st_gid)
    temporary.chmod(stat.S_IMODE(status.st_mode))
    if hasattr(os, "listxattr"):
        with suppress(OSError):  # the disk may know none
            for name in os.listxattr(path):
                with suppress(OSError):  # some are the system's own
                    os.setxattr(temporary, name, os.getxattr(path, name))


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One writer of ours at a time in a folder; the lock ends with the process that holds it.

    Where folders cannot be locked (Windows, some network file systems) the look at the sidecar
    just before the rename is what remains.
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
    """Lock a folder; ours holds it for a moment, so that whoever holds it for long is another."""
    deadline = time.monotonic() + WAIT
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
