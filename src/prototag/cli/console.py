"""What the commands are given and what they say.

Arguments name pictures: files, folders with all below them, and standard input. Answers are rich on
a terminal, plain text elsewhere, complaints apart.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from prototag.events import Event, Progress

if TYPE_CHECKING:
    from prototag.annotator.annotator import Annotator
    from prototag.features.cache import VectorCache

FAILED, SOME_FAILED, INTERRUPTED = 1, 3, 130
MODEL = "model.prototag"
NO_PICTURES = "no pictures were found: give pictures, or folders that contain some."


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
        help="A folder of tagged pictures, or a list of pictures with their tags (CSV, JSON "
        "lines).",
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


def load(model: Path, jobs: int, cache: Path | None) -> Annotator:
    """The annotator in a model file."""
    from prototag.annotator.annotator import Annotator

    return Annotator.load(model, n_jobs=jobs, cache=opened(cache))


def opened(cache: Path | None) -> VectorCache | None:
    """The cache of vectors, or None with a complaint: no run ends because it cannot be kept."""
    from prototag.errors import CacheError
    from prototag.features.cache import VectorCache

    try:
        return VectorCache(cache)
    except CacheError as error:
        complain(f"{error} Continuing without a cache.")
        return None


def check_output(path: Path | None) -> None:
    """Refuse before the work what could not be written after it."""
    if path is None:
        return
    if path.is_dir():
        raise typer.BadParameter(f"{path} is a folder: give the name of a file.")
    folder = path.parent
    if not folder.is_dir():
        raise typer.BadParameter(f"the folder {folder} does not exist: create it, or give another.")
    if not os.access(folder, os.W_OK):
        raise typer.BadParameter(f"the folder {folder} is not writable: give another.")


def expand(arguments: Iterable[Path], report: Callable[[str], object]) -> Iterator[str]:
    """Paths of pictures, one by one, so that a million of them take no memory.

    Parameters
    ----------
    arguments : iterable of Path
        A file is taken whatever its name, and whether it is there or not. Folders are searched by
        the rule of :mod:`prototag.metadata.walk`. ``-`` reads paths from standard input, one a
        line.
    report : callable
        Told, in words, what of a folder could not be read.
    """
    from prototag.metadata.walk import pictures

    for argument in arguments:
        if os.fspath(argument) == "-":
            yield from expand(_on_standard_input(), report)
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


def _on_standard_input() -> Iterator[Path]:
    """Names of files need not be text: what is not survives as Python's own calls have it."""
    for line in sys.stdin.buffer:
        if path := line.decode(sys.stdin.encoding, "surrogateescape").rstrip("\r\n"):
            yield Path(path)


def is_terminal() -> bool:
    """Whether a person reads standard output."""
    return sys.stdout.isatty()


def complain(message: str) -> None:
    """One line on standard error, in place of a bar that may be drawn there."""
    clear = "\r\x1b[K" if sys.stderr.isatty() else ""
    sys.stderr.write(f"{clear}prototag: {printable(message, keep=chr(10))}\n")


def say(message: str = "") -> None:
    """What happens meanwhile: on standard error, so that results can be piped."""
    sys.stderr.write(f"{message}\n")
    sys.stderr.flush()


def out(message: str = "") -> None:
    """A line of the result, on standard output."""
    print(printable(message))


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


def tag_rows(annotator: Annotator) -> list[dict[str, Any]]:
    """How well each tag was learned, judged on pictures left out."""
    known = annotator.operating_points
    return [
        {
            "tag": name,
            "pictures": int(known.count[number]),
            "learned": bool(known.learned[number]),
            "precision": _rounded(known.precision[number]),
            "recall": _rounded(known.recall[number]),
            "pictures_needed": int(known.needed[number]) or None,
        }
        for number, name in enumerate(annotator.tags)
    ]


def _rounded(share: float) -> float | None:
    """None where nothing was given."""
    return round(float(share), 4) if share == share else None


def tag_table(annotator: Annotator, *, as_json: bool = False) -> None:
    """The same as a table, the most frequent tags first, or as JSON lines."""
    rows = tag_rows(annotator)
    if as_json:
        import json

        for row in rows:
            print(json.dumps(row))
        return
    rows.sort(key=lambda row: (-row["pictures"], row["tag"]))
    table(
        ["Tag", "Pictures", "Precision", "Recall", ""],
        [
            [
                r["tag"],
                f"{r['pictures']:,}",
                "-" if r["precision"] is None else percent(r["precision"]),
                "-" if r["precision"] is None else percent(r["recall"]),
                _note(r, annotator.learned.pictures),
            ]
            for r in rows
        ],
        right=["Pictures", "Precision", "Recall"],
    )


def _note(row: dict[str, Any], pictures: int) -> str:
    """What there is to say of a tag that is not given."""
    if row["learned"]:
        return "only suggested" if row["precision"] is None else ""
    if row["pictures"] == pictures:
        return "not learned: no picture without it to compare with"
    needed = row["pictures_needed"]
    return "not learned" + (f": about {count(needed, 'more picture')} would help" if needed else "")


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
        self._show = self._stream.isatty() if show is None else show
        self._stage = ""
        self._began = self._drawn = 0.0
        self._open = False  # whether the cursor stands behind a drawn line

    def __call__(self, event: Event) -> None:
        """Draw an event."""
        now = time.monotonic()
        if event.total is None and event.done == 0:
            if event.message:
                self.close()
                self._stream.write(f"{event.message}\n")
                self._stream.flush()
            return
        if event.stage != self._stage:
            self.close()
            self._stage, self._began, self._drawn = event.stage, now, 0.0
        if self._show and (now - self._drawn >= _PAUSE or event.done == event.total):
            self._drawn, self._open = now, True
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
