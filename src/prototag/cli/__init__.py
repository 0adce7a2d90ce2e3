"""The command line, one file per command.

Heavy imports happen inside the commands, so that ``prototag annotate`` starts fast.
"""

from __future__ import annotations

import errno
import os
import sys
import traceback
from builtins import open as open_file  # a command is called open, too
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from prototag import __version__
from prototag.cli import cluster_option, terminal
from prototag.cli.terminal import FAILED, INTERRUPTED, complain
from prototag.errors import PrototagError, Remedy

# ClickException, which typer keeps in different places from version to version.
_Usage: type[Exception] = typer.BadParameter.__mro__[2]

HELP = """Learn the tags of your own pictures, tag new ones, and see why.

Everything happens on this computer, with no account, unless you name a server (immich) or a
cluster (--cluster).

    prototag train photos/ -m mine.prototag

    prototag annotate new/ -m mine.prototag

    prototag annotate new/ -m mine.prototag --write-xmp
"""
COMMANDS = (
    "demo",
    "features",
    "train",
    "annotate",
    "evaluate",
    "explain",
    "similar",
    "inspect",
    "untag",
    "library",
    "learn",
    "suggest",
    "accept",
    "reject",
    "find",
    "open",
    "serve",
    "immich",
    "paper",
)
REMEDIES = {
    Remedy.SCAN: "`prototag library sync` reads new pictures",
    Remedy.LEARN: "`prototag learn` trains a model",
    Remedy.LEARN_FULL: "`prototag learn --full` trains a new model",
    Remedy.LEARN_OR_GO_BACK: (
        "`prototag learn --full` trains a new model, and `prototag learn --models` lists the ones "
        "to go back to"
    ),
    Remedy.TAG_MORE: "tag more pictures, or lower --min-pictures",
    Remedy.RANK_FOR_TAG: (
        "`prototag suggest --tag TAG` ranks pictures for one tag: accept or reject what it shows"
    ),
    Remedy.LIST_MODELS: "`prototag learn --models` lists the models",
    Remedy.LIST_BATCHES: "`prototag library history` lists the batches",
    Remedy.LIST_MODEL_TAGS: "`prototag inspect` lists the tags that the model knows",
}
EPILOG = """Exit codes: 0 success; 1 an error ended the command, or `train` learned no tag; 2 the
command line was not understood; 3 some pictures failed, all others are done; 130 interrupted with
Ctrl-C, no file is left half-written. The model is the one that -m names, else $PROTOTAG_MODEL, else
model.prototag. The library is the one that -l names, else $PROTOTAG_LIBRARY, else prototag.library
in the current folder or one above it.
Computed vectors are kept in $PROTOTAG_CACHE, else where the system keeps caches."""


class Commands(TyperGroup):
    """Ends errors that a person can mend with one line, and shows all of those that are bugs."""

    def invoke(self, ctx: Any) -> Any:
        try:
            answer = super().invoke(ctx)
            sys.stdout.flush()  # what cannot be written is told here, not when Python ends
            return answer
        except KeyboardInterrupt:
            complain("interrupted")
            raise typer.Exit(INTERRUPTED) from None
        except (_Usage, typer.Exit, typer.Abort):
            raise  # answered by typer
        except (PrototagError, OSError, MemoryError) as error:
            if isinstance(error, OSError) and error.errno == errno.EPIPE:
                terminal.forget_output()  # whoever read us has read enough
                raise typer.Exit(0) from None
            if ctx.params.get("debug"):
                raise
            complain(_message(error))
            terminal.forget_output()
            raise typer.Exit(FAILED) from None
        except Exception:
            if ctx.params.get("debug"):
                raise
            complain("this is a bug in prototag; please report it with the text below.")
            sys.stderr.write(traceback.format_exc())
            raise typer.Exit(FAILED) from None
        finally:
            if cluster_option.joined:
                cluster_option.leave()


def _message(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return "there is not enough memory: try again with fewer or smaller pictures."
    if isinstance(error, OSError) and error.strerror and not isinstance(error, PrototagError):
        return f"{error.filename or 'the disk'}: {error.strerror}."
    return error.worded(REMEDIES) if isinstance(error, PrototagError) else str(error)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"prototag {__version__}")
        raise typer.Exit


def options(
    debug: Annotated[  # noqa: ARG001  (read by Commands)
        bool, typer.Option("--debug", help="Show the Python traceback of any error.")
    ] = False,
    version: Annotated[  # noqa: ARG001
        bool,
        typer.Option("--version", help="Print the version.", callback=_version, is_eager=True),
    ] = False,
) -> None:
    """Options of all commands."""
    import warnings

    terminal.set_quiet(False)
    terminal.take_any_text()
    # Whoever runs a command cares for what a warning says, not for the line that gave it.
    warnings.showwarning = lambda message, *_rest, **_options: complain(str(message))


def program(*names: str) -> typer.Typer:
    """The commands of these names, or all of them."""
    made = typer.Typer(
        cls=Commands,
        help=HELP,
        epilog=EPILOG,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="markdown",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    made.callback()(options)
    for name in names or COMMANDS:
        command = getattr(import_module(f"prototag.cli.{name}"), name)
        if isinstance(command, typer.Typer):
            made.add_typer(command, name=name)
        else:
            made.command()(command)
    return made


def main() -> None:
    """The console script."""
    # Only the command that is asked for is loaded, because preparing all of them takes longer.
    asked = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
    # A stream that was closed (`>&-`) takes anything and gives nothing.
    sys.stdin, sys.stdout, sys.stderr = (
        open_file(os.devnull, mode) if stream is None else stream  # noqa: SIM115
        for stream, mode in ((sys.stdin, "r"), (sys.stdout, "w"), (sys.stderr, "w"))
    )
    try:
        program(*([asked] if asked in COMMANDS else []))(prog_name="prototag")
    except OSError as error:  # a page of help that nobody reads, or that finds no room
        terminal.forget_output()
        if error.errno != errno.EPIPE:
            complain(_message(error))
            sys.exit(FAILED)
