"""What the commands are given and what they say.

Arguments name pictures: files, folders with all below them, and standard input. Answers are rich on
a terminal, plain text elsewhere, complaints apart.
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
# A page begins with its policy, which lets it fetch nothing; few others have one.
_POLICY = 'Content-Security-Policy" content="default-src &#x27;none&#x27;; img-src data:; '
_HEAD = f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta http-equiv="{_POLICY}'
PAGE = "a page of prototag", [_HEAD.encode()]
NO_PICTURES = "no pictures were found: give pictures, or folders that contain some."


_quiet = False  # whether only results and errors are wanted


def set_quiet(wanted: bool) -> bool:
    """Say only results and errors from now on, or everything."""
    global _quiet
    _quiet = wanted
    return wanted


def _some_threads(jobs: int) -> int:
    if jobs == 0:
        raise typer.BadParameter("no work can be done by 0 threads: give 1 or more, or -1.")
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
    typer.Option(help="File that keeps the computed vectors of pictures.", envvar="PROTOTAG_CACHE"),
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
        help="A folder of tagged pictures, a list of pictures with their tags (CSV, JSON lines), "
        "or a folder of vectors.",
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
    typer.Option(metavar="NAME", help="Column of a list that holds the tags, if it is not found."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Say results and errors only.", callback=set_quiet)
]


def named_model(context: typer.Context, argument: Path | None, option: Path) -> Path:
    """The model of a command that takes it as an argument and by ``-m``; what is typed counts."""
    if argument is None:
        return option
    source = context.get_parameter_source("model")
    is_typed = source is not None and source.name == "COMMANDLINE"
    if is_typed and os.path.abspath(argument) != os.path.abspath(option):
        raise typer.BadParameter(f"two models are named, {argument} and -m {option}: name one.")
    return argument


def is_model(path: Path) -> bool:
    """Whether a file is a model, by its beginning."""
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
    """Refuse a name that promises another format than the one that is written."""
    if output is not None and output.suffix.lower() not in endings:
        raise typer.BadParameter(
            f"{output.name}: {what} are written as {shown}. Give a name with such an ending."
        )


def load(model: Path, jobs: int, cache: Path | None, engine: Engine | None = None) -> Annotator:
    """The annotator in a model file."""
    from prototag.annotator.annotator import Annotator

    return Annotator.load(model, n_jobs=jobs, engine=engine, cache=opened(cache))


def opened(cache: Path | None) -> VectorCache | None:
    """The cache of vectors, or None with a complaint: no run ends because it cannot be kept."""
    from prototag.errors import CacheError
    from prototag.features.vector_cache import VectorCache

    try:
        return VectorCache(cache)
    except CacheError as error:
        complain(f"{error} Continuing without a cache.")
        return None


def check_output(path: Path | None, what: str = "", heads: Sequence[bytes] = ()) -> None:
    """Refuse before the work what could not, or should not, be written after it.

    A file that is there gives way only to what it is itself: it begins with one of ``heads``.
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
    """The same as :func:`expand`, in turns: standard input gives what it has, and is not waited for
    until that is done."""
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
    """Paths of pictures, one by one, so that a million of them take no memory.

    Parameters
    ----------
    arguments : iterable of Path
        A file is taken whatever its name, and whether it is there or not. Folders are searched by
        the rule of :mod:`prototag.metadata.find_files`. ``-`` reads paths from standard input, one
        a line.
    report : callable
        Told, in words, what of a folder could not be read.
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
    """How many :func:`expand` would give; None where standard input names them."""
    arguments = list(arguments)
    if any(os.fspath(argument) == "-" for argument in arguments):
        return None
    return sum(1 for _ in expand(arguments, lambda _: None))


def _on_standard_input() -> Iterator[list[Path]]:
    """Lines as they come. Names of files need not be text: their bytes survive."""
    rest = b""
    while piece := sys.stdin.buffer.read1(1 << 16):  # type: ignore[union-attr]
        *lines, rest = (rest + piece).split(b"\n")
        yield [Path(name) for line in lines if (name := os.fsdecode(line.rstrip(b"\r")))]
    if name := os.fsdecode(rest.rstrip(b"\r")):
        yield [Path(name)]


def is_terminal() -> bool:
    """Whether a person reads standard output."""
    return sys.stdout.isatty()


def complain(message: str) -> None:
    """One line on standard error, in place of a bar that may be drawn there."""
    clear = "\r\x1b[K" if sys.stderr.isatty() else ""
    sys.stderr.write(f"{clear}prototag: {printable(message, keep=chr(10))}\n")


def say(message: str = "") -> None:
    """What happens meanwhile: on standard error, so that results can be piped."""
    if _quiet:
        return
    sys.stderr.write(f"{printable(message, keep=chr(10))}\n")
    sys.stderr.flush()


def out(message: str = "") -> None:
    """A line of the result, on standard output."""
    print(printable(message))


def take_any_text() -> None:
    """What the encoding of the terminal cannot hold is escaped; bytes of names go out as such."""
    codecs.register_error("prototag", _escaped)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="prototag")


def _escaped(error: UnicodeError) -> tuple[str | bytes, int]:
    try:
        return codecs.lookup_error("surrogateescape")(error)
    except UnicodeError:
        return codecs.lookup_error("backslashreplace")(error)


def forget_output() -> None:
    """Nothing more can be written to standard output, not even what waits there at exit."""
    if sys.stdout is sys.__stdout__:  # a test has its own
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def printable(text: str, keep: str = "") -> str:
    """Names may hold anything; what a terminal cannot show, or would obey, is escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else ascii(c)[1:-1] for c in text)


def table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[str] = ()
) -> None:
    """Rows under their columns, those in ``right`` set right; tab-separated when piped."""
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
    """Tags in a row; on a terminal, where paths would break, their last levels."""
    return ", ".join(shown(tag) for tag in tags)


def shown(tag: str) -> str:
    """A tag as a table has it: on a terminal its last level, else with its path."""
    return tag.rpartition("|")[2] or tag if is_terminal() else tag


def changes(added: Counter[str], removed: Counter[str]) -> None:
    """How many pictures would get and lose each tag, the most frequent first."""
    every = sorted(added | removed, key=lambda tag: (-added[tag] - removed[tag], tag))
    cells = ((tag, added[tag], removed[tag]) for tag in every)
    rows = [[tag, f"+{got:,}" * bool(got), f"-{lost:,}" * bool(lost)] for tag, got, lost in cells]
    table(["Tag", "Added", "Removed"], rows, right=["Added", "Removed"])


def percent(share: float) -> str:
    """A share as a whole percentage; a small one is not called nothing."""
    whole = round(100 * share)
    return "<1 %" if share > 0 and not whole else f"{whole} %"


def count(number: int, noun: str) -> str:
    """``1 picture``, ``1,870 pictures``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def kinds(given: str) -> str | list[str]:
    """The option ``--kind`` as :func:`prototag.metadata.collect` takes it."""
    return given if given == "auto" else [part.strip() for part in given.split(",")]


def below(path: Path, root: Path) -> str:
    """A path as it is best read: without the folder that all share."""
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


WIDTH = 24  # of the bar, in characters
_PAUSE = 0.1  # seconds between two drawings


class Line:
    """The line of a terminal that shows the current stage; redrawn at most ten times a second.

    An event that counts nothing and has a message is news: a line of its own, printed everywhere.

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
        if self._show and (now - self._drawn >= _PAUSE or event.done == event.total):
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
    """An event as a line of text."""
    head = f"{event.done:,} done"
    if event.total is not None:
        filled = WIDTH * event.done // max(event.total, 1)
        head = f"[{'#' * filled}{'.' * (WIDTH - filled)}] {event.done:,} of {event.total:,}"
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
