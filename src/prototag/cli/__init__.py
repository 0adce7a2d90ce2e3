"""The command line, one file per command.

Heavy imports happen inside the commands, so that ``prototag annotate`` starts fast.
"""

from __future__ import annotations

import errno
import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from prototag import __version__
from prototag.cli.annotate import annotate
from prototag.cli.console import FAILED, INTERRUPTED, complain
from prototag.cli.demo import demo
from prototag.cli.evaluate import evaluate
from prototag.cli.explain import explain
from prototag.cli.inspect import inspect
from prototag.cli.paper import paper
from prototag.cli.similar import similar
from prototag.cli.train import train
from prototag.cli.untag import untag
from prototag.errors import PrototagError

HELP = """Learn the tags of your own pictures, tag new ones, and see why.

Everything happens on this computer: no network, no account.

    prototag train photos/ -o mine.prototag

    prototag annotate new/ -m mine.prototag

    prototag annotate new/ -m mine.prototag --write-xmp
"""
EPILOG = """Exit codes: 0 all went well; 1 an error ended the command; 2 the command was not
understood; 3 some pictures failed, the others are done; 130 interrupted with Ctrl-C, nothing is
left half-written. A model is looked for in $PROTOTAG_MODEL, else in model.prototag, unless -m names
one. Vectors of pictures are kept in $PROTOTAG_CACHE, else in the user's cache folder."""


class Commands(TyperGroup):
    """Ends what a person can mend with one message, and what a person broke off with none."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            complain("interrupted")
            raise typer.Exit(INTERRUPTED) from None
        except (PrototagError, OSError, MemoryError, ValueError) as error:
            if isinstance(error, OSError) and error.errno == errno.EPIPE:
                # Whoever read us has read enough. Nothing more can be said, not even at exit.
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                raise typer.Exit(0) from None
            if ctx.params.get("debug"):
                raise
            complain(_message(error))
            raise typer.Exit(FAILED) from None


def _message(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return "there is not enough memory: try fewer or smaller pictures at once."
    if isinstance(error, OSError) and error.strerror and not isinstance(error, PrototagError):
        return f"{error.filename or 'the disk'}: {error.strerror}."
    return str(error)


app = typer.Typer(
    cls=Commands,
    help=HELP,
    epilog=EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"prototag {__version__}")
        raise typer.Exit


@app.callback()
def options(
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the Python traceback of an error.")
    ] = False,
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=_version, is_eager=True),
    ] = False,
) -> None:
    """Options of all commands."""


for command in (demo, train, annotate, evaluate, explain, similar, inspect, untag, paper):
    app.command()(command)


def main() -> None:
    """The console script."""
    app(prog_name="prototag")
