"""What the commands say and how: rich on a terminal, plain text elsewhere, complaints apart."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from prototag.annotator import Annotator

FAILED, SOME_FAILED, INTERRUPTED = 1, 3, 130
MODEL = "model.prototag"

Model = Annotated[
    Path,
    typer.Option("--model", "-m", envvar="PROTOTAG_MODEL", help="The model to use."),
]
Jobs = Annotated[
    int, typer.Option("--jobs", "-j", help="Threads; -1 is one for each core.", show_default=True)
]
Cache = Annotated[
    Path | None,
    typer.Option(help="File that keeps vectors of pictures.", envvar="PROTOTAG_CACHE"),
]
Json = Annotated[bool, typer.Option("--json", help="JSON instead of text.")]


def load(model: Path, jobs: int, cache: Path | None) -> Annotator:
    """The annotator in a model file."""
    from prototag.annotator import Annotator

    return Annotator.load(model, n_jobs=jobs, cache=cache or "user", progress=False)


def is_terminal() -> bool:
    """Whether a person reads standard output."""
    return sys.stdout.isatty()


def complain(message: str) -> None:
    """One line on standard error."""
    sys.stderr.write(f"prototag: {printable(message, keep=chr(10))}\n")


def say(message: str = "") -> None:
    """News of a command's progress: on standard error, so that results can be piped."""
    sys.stderr.write(f"{message}\n")
    sys.stderr.flush()


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


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def short(path: Any, root: str | os.PathLike[str] | None = None) -> str:
    """A path as it is best read: below ``root`` or the working folder where it lies there."""
    text = os.fspath(path)
    if not os.path.isabs(text):
        return text
    relative = os.path.relpath(text, root)
    return text if relative.startswith("..") else relative
