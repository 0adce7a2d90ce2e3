"""Common options, input paths, and output of the commands.

Arguments name pictures: files, folders with their subfolders, and paths from standard input. Output
is a table on a terminal and plain text elsewhere; messages go to standard error.
"""

from __future__ import annotations

import codecs
import os
import stat
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from prototag.events import Event, Progress
from prototag.storage.sqlite_lock_guard import open_for_reading

if TYPE_CHECKING:
    from prototag.annotator.annotator import Annotator
    from prototag.engine import Engine
    from prototag.features.vector_cache import VectorCache

FAILED = 1
SOME_FAILED = 3
INTERRUPTED = 130
MODEL = "model.prototag"
# First bytes of a page of prototag, which begins with its content security policy.
_POLICY = 'Content-Security-Policy" content="default-src &#x27;none&#x27;; img-src data:; '
_HEAD = f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta http-equiv="{_POLICY}'
PAGE = "a page of prototag", [_HEAD.encode()]
NO_PICTURES = "no pictures were found: give pictures, or folders that contain some."


_quiet = False  # whether to print only results and errors


def set_quiet(quiet: bool) -> bool:
    """Print only results and errors, or everything."""
    global _quiet
    _quiet = quiet
    return quiet


def _some_threads(jobs: int) -> int:
    if jobs == 0:
        raise typer.BadParameter("--jobs 0 means no thread: give 1 or more, or -1.")
    return jobs


Model = Annotated[
    Path,
    typer.Option("--model", "-m", envvar="PROTOTAG_MODEL", help="The model to use."),
]
Jobs = Annotated[
    int,
    typer.Option(
        "--jobs",
        "-j",
        help="Number of threads; -1 uses every core.",
        callback=_some_threads,
        show_default=True,
    ),
]
Cache = Annotated[
    Path | None,
    typer.Option(help="File of the vector cache.", envvar="PROTOTAG_CACHE"),
]
Pictures = Annotated[
    list[Path],
    typer.Argument(
        help="Pictures, folders with all their subfolders, or - to read paths from standard input.",
        metavar="PATH...",
        show_default=False,
    ),
]
Image = Annotated[Path, typer.Argument(help="The picture.", show_default=False)]
TaggedPictures = Annotated[
    Path,
    typer.Argument(
        help="A folder of tagged pictures, a list of pictures with their tags (CSV, JSON lines, "
        "COCO or FiftyOne JSON), or a folder of vectors.",
        show_default=False,
    ),
]
Kind = Annotated[
    str,
    typer.Option(
        metavar="KINDS",
        help="Where to look for tags: auto, or any of xmp, embedded, listing, text, folders, "
        "separated by commas.",
    ),
]
Column = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="Column of a list that holds the tags, if it is not detected."
    ),
]
SHARE_HINT = "a share or a percentage, such as 0.9, 90 or 90%"


def share(given: str) -> float:
    """Parse a share of 0.9, 90 or 90%; a number above 1 is a percentage."""
    text = given.strip()
    is_percentage = text.endswith("%")
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        raise typer.BadParameter(f"{given!r} is not a number: give {SHARE_HINT}.") from None
    if is_percentage or value >= 2:
        value /= 100
    if not 0 <= value <= 1:  # between 1 and 2 it may be meant either way; NaN is refused, too
        raise typer.BadParameter(f"{given} is neither a share from 0 to 1 nor a percentage.")
    return value


Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Only print results and errors.", callback=set_quiet)
]


def named_model(context: typer.Context, argument: Path | None, option: Path) -> Path:
    """Return the model of a command that takes it as an argument or by ``-m``."""
    if argument is None:
        return option
    source = context.get_parameter_source("model")
    is_typed = source is not None and source.name == "COMMANDLINE"
    if is_typed and os.path.abspath(argument) != os.path.abspath(option):
        raise typer.BadParameter(f"two models are named, {argument} and -m {option}: name one.")
    return argument


def is_model(path: Path) -> bool:
    """Return whether a file is a model, by its header."""
    from prototag.errors import ModelFileError
    from prototag.storage import modelfile

    if not path.is_file():
        return False
    try:
        modelfile.read_header(path)
    except (ModelFileError, OSError):
        return False
    return True


def check_ending(output: Path | None, what: str, endings: Sequence[str], shown: str) -> None:
    """Refuse a file name whose ending contradicts the format."""
    if output is not None and output.suffix.lower() not in endings:
        raise typer.BadParameter(
            f"{output.name}: {what} are written as {shown}. Give a name with such an ending."
        )


def load(model: Path, jobs: int, cache: Path | None, engine: Engine | None = None) -> Annotator:
    """Load the annotator of a model file."""
    from prototag.annotator.annotator import Annotator

    return Annotator.load(model, n_jobs=jobs, engine=engine, cache=opened(cache))


def opened(cache: Path | None) -> VectorCache | None:
    """Open the vector cache; if that fails, print the reason and return None."""
    from prototag.errors import CacheError
    from prototag.features.vector_cache import VectorCache

    try:
        return VectorCache(cache)
    except CacheError as error:
        print_error(f"{error} Continuing without a cache.")
        return None


def check_output(path: Path | None, what: str = "", heads: Sequence[bytes] = ()) -> None:
    """Fail fast if the output is not writable or would overwrite a file of another kind.

    An existing file is overwritten only if it begins with one of ``heads``.
    """
    if path is None:
        return
    if path.is_dir():
        raise typer.BadParameter(f"{path} is a folder: give the name of a file.")
    folder = path.parent
    if not folder.is_dir():
        raise typer.BadParameter(f"the folder {folder} does not exist: create it, or give another.")
    if not os.access(folder, os.W_OK):
        raise typer.BadParameter(f"the folder {folder} is not writable: give another.")
    if heads and path.exists():
        if not stat.S_ISREG(path.stat().st_mode):
            raise typer.BadParameter(f"{path} is not a regular file: give another name.")
        with open_for_reading(path) as file:
            start = file.read(max(map(len, heads)))
        if start and not start.startswith(tuple(heads)):
            raise typer.BadParameter(
                f"{path} exists and is not {what}: give another name, or move it away."
            )


def batches(arguments: Iterable[Path], report: Callable[[str], object]) -> Iterator[Iterator[str]]:
    """Yield the paths of :func:`expand` in batches, so that lines of standard input are processed
    as they arrive."""
    waiting: list[Path] = []
    for argument in arguments:
        if os.fspath(argument) != "-":
            waiting.append(argument)
            continue
        yield expand(waiting, report)
        waiting = []
        yield from (expand(names, report) for names in _on_standard_input())
    yield expand(waiting, report)


def expand(arguments: Iterable[Path], report: Callable[[str], object]) -> Iterator[str]:
    """Yield paths of pictures one by one, so that millions of them take no memory.

    Parameters
    ----------
    arguments : iterable of Path
        Files are yielded whatever their names, even if they do not exist. Folders are searched as
        in :mod:`prototag.metadata.find_files`. ``-`` reads paths from standard input, one per line.
    report : callable
        Called with a message for each part of a folder that cannot be read.
    """
    from prototag.metadata.find_files import pictures

    for argument in arguments:
        if os.fspath(argument) == "-":
            for names in _on_standard_input():
                yield from expand(names, report)
        elif os.path.isdir(argument):
            yield from map(os.fspath, pictures(argument, report))
        else:
            yield os.fspath(argument)


def count_pictures(arguments: Iterable[Path]) -> int | None:
    """Count the paths of :func:`expand`; None if some come from standard input."""
    arguments = list(arguments)
    if any(os.fspath(argument) == "-" for argument in arguments):
        return None
    return sum(1 for _ in expand(arguments, lambda _: None))


def _on_standard_input() -> Iterator[list[Path]]:
    """Yield paths of standard input as they arrive; names that are not text keep their bytes."""
    rest = b""
    while piece := sys.stdin.buffer.read1(1 << 16):  # type: ignore[union-attr]
        *lines, rest = (rest + piece).split(b"\n")
        yield [Path(name) for line in lines if (name := os.fsdecode(line.rstrip(b"\r")))]
    if name := os.fsdecode(rest.rstrip(b"\r")):
        yield [Path(name)]


def is_terminal() -> bool:
    """Return whether standard output is a terminal."""
    return sys.stdout.isatty()


def print_error(message: str) -> None:
    """Print an error or a warning on standard error, over a progress bar."""
    clear = "\r\x1b[K" if sys.stderr.isatty() else ""
    sys.stderr.write(f"{clear}prototag: {printable(message, keep=chr(10))}\n")


def print_info(message: str = "") -> None:
    """Print a message on standard error, so that results can be piped; not with --quiet."""
    if _quiet:
        return
    sys.stderr.write(f"{printable(message, keep=chr(10))}\n")
    sys.stderr.flush()


def print_result(message: str = "") -> None:
    """Print a line of the result on standard output."""
    print(printable(message))


def escape_unencodable() -> None:
    """Escape characters that the encoding of the terminal lacks; keep bytes of file names."""
    codecs.register_error("prototag", _escaped)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="prototag")


def _escaped(error: UnicodeError) -> tuple[str | bytes, int]:
    try:
        return codecs.lookup_error("surrogateescape")(error)
    except UnicodeError:
        return codecs.lookup_error("backslashreplace")(error)


def discard_stdout() -> None:
    """Redirect standard output to the null device, so that flushing at exit cannot fail."""
    if sys.stdout is sys.__stdout__:  # tests replace it
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def printable(text: str, keep: str = "") -> str:
    """Escape control characters, which file names and tags may contain."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else ascii(c)[1:-1] for c in text)


def table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[str] = ()
) -> None:
    """Print a table, with the columns of ``right`` aligned right; tab-separated if piped."""
    if not is_terminal():
        for row in rows:
            print("\t".join(printable(cell) for cell in row))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        drawn.add_column(column, justify="right" if column in right else "left")
    for row in rows:
        drawn.add_row(*(Text(printable(cell)) for cell in row))
    Console(highlight=False).print(drawn)


def leaves(tags: Iterable[str]) -> str:
    """Join tags by commas; on a terminal only their last levels."""
    return ", ".join(shown(tag) for tag in tags)


def shown(tag: str) -> str:
    """Return the last level of a tag on a terminal, else its path."""
    return tag.rpartition("|")[2] or tag if is_terminal() else tag


def changes(added: Counter[str], removed: Counter[str]) -> None:
    """Print how many pictures would get and lose each tag, the most frequent first."""
    every = sorted(added | removed, key=lambda tag: (-added[tag] - removed[tag], tag))
    cells = ((tag, added[tag], removed[tag]) for tag in every)
    rows = [[tag, f"+{got:,}" * bool(got), f"-{lost:,}" * bool(lost)] for tag, got, lost in cells]
    table(["Tag", "Added", "Removed"], rows, right=["Added", "Removed"])


def percent(share: float) -> str:
    """Format a share as a whole percentage; a small positive one as <1%."""
    whole = round(100 * share)
    return "<1%" if share > 0 and not whole else f"{whole}%"


def count(number: int, noun: str) -> str:
    """Format a count with its noun: ``1 picture``, ``1,870 pictures``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def kinds(given: str) -> str | list[str]:
    """Convert the option ``--kind`` for :func:`prototag.metadata.collect`."""
    return given if given == "auto" else [part.strip() for part in given.split(",")]


def below(path: Path, root: Path) -> str:
    """Return a path relative to a folder that contains it, else unchanged."""
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


BAR_WIDTH = 24  # characters
REDRAW_INTERVAL_S = 0.1


class Line:
    """Progress line of the current stage, redrawn at most ten times a second.

    An event with a message and without counts is printed as a line of its own, also without a
    terminal.

    Parameters
    ----------
    stream : text stream
        Standard error if not given.
    show : bool, optional
        Whether to draw; if not given, only when the stream is a terminal.
    """

    def __init__(self, stream: TextIO | None = None, show: bool | None = None) -> None:
        self._stream = stream or sys.stderr
        self._quiet = _quiet
        self._show = not _quiet and (self._stream.isatty() if show is None else show)
        self._stage = ""
        self._began = self._drawn = 0.0
        self._open = False  # whether the cursor stands behind a drawn line

    def __call__(self, event: Event) -> None:
        """Draw an event."""
        now = time.monotonic()
        if event.total is None and event.done == 0:
            if event.message and not self._quiet:
                self.close()
                self._stream.write(f"{event.message}\n")
                self._stream.flush()
            return
        if event.stage != self._stage:
            self.close()
            self._stage = event.stage
            self._began = now
            self._drawn = 0.0
        if self._show and (now - self._drawn >= REDRAW_INTERVAL_S or event.done == event.total):
            self._drawn = now
            self._open = True
            self._stream.write(f"\r\x1b[K{drawn_line(event)}")
            self._stream.flush()

    def close(self) -> None:
        """End the line that is being drawn."""
        if self._open:
            self._stream.write("\n")
            self._stream.flush()
            self._open = False
            self._stage = ""


def drawn_line(event: Event) -> str:
    """Format an event as a progress bar."""
    head = f"{event.done:,} done"
    if event.total is not None:
        filled = BAR_WIDTH * event.done // max(event.total, 1)
        head = f"[{'#' * filled}{'.' * (BAR_WIDTH - filled)}] {event.done:,} of {event.total:,}"
    left = f"{clock(event.seconds_left)} left" if event.seconds_left is not None else ""
    parts = [part for part in (head, left, event.message) if part]
    return f"{event.stage} {', '.join(parts)}"


def clock(seconds: float) -> str:
    """Seconds as ``m:ss`` or ``h:mm:ss``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


@contextmanager
def progress(stream: TextIO | None = None, *, show: bool | None = None) -> Iterator[Progress]:
    """A callback that draws, for the time of a command."""
    drawn = Line(stream, show)
    try:
        yield drawn
    finally:
        drawn.close()
