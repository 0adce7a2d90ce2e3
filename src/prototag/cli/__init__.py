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
from prototag.cli.terminal import FAILED, INTERRUPTED, print_error
from prototag.errors import PrototagError, Remedy

# ClickException, whose module differs between versions of typer.
_UsageError: type[Exception] = typer.BadParameter.__mro__[2]

HELP = """Learn the tags of your own pictures, tag new ones, and explain the tags.

Everything runs on this computer, without an account, unless you name a server (immich) or a
cluster (--cluster).

With a model file: train once on tagged pictures, and annotate new ones.

    prototag train photos/ -m mine.prototag

    prototag annotate new/ -m mine.prototag --write-xmp

With a library: review suggestions in the browser, and the model improves with every decision.

    prototag open photos/
"""
GROUPS = {
    "Pictures and a model": (
        "demo",
        "train",
        "annotate",
        "evaluate",
        "explain",
        "similar",
        "inspect",
        "untag",
    ),
    "A library": ("open", "library", "learn", "suggest", "accept", "reject", "find"),
    "Services": ("serve", "immich"),
    "Research and large collections": ("features", "paper"),
}
COMMANDS = tuple(name for names in GROUPS.values() for name in names)
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
command line is invalid; 3 some pictures failed, all others are done; 130 interrupted with Ctrl-C,
no file is half-written. The model is that of -m, else $PROTOTAG_MODEL, else model.prototag. The
library is that of -l, else $PROTOTAG_LIBRARY, else prototag.library in the current folder or one
above it. The vector cache is $PROTOTAG_CACHE, else a file in the cache folder of the system."""


class Commands(TyperGroup):
    """Command group that prints user errors in one line and bugs with their traceback."""

    def invoke(self, ctx: Any) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()  # raises write errors here, not when Python exits
            return result
        except KeyboardInterrupt:
            print_error("interrupted")
            raise typer.Exit(INTERRUPTED) from None
        except (_UsageError, typer.Exit, typer.Abort):
            raise  # typer prints its message
        except (PrototagError, OSError, MemoryError) as error:
            if isinstance(error, OSError) and error.errno == errno.EPIPE:
                terminal.discard_stdout()  # the reader of the pipe has closed it
                raise typer.Exit(0) from None
            if ctx.params.get("debug"):
                raise
            print_error(_message(error))
            terminal.discard_stdout()
            raise typer.Exit(FAILED) from None
        except Exception:
            if ctx.params.get("debug"):
                raise
            print_error("this is a bug in prototag; please report it with the text below.")
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


def _version(show: bool) -> None:
    if show:
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
    """Handle the options of all commands."""
    import warnings

    terminal.set_quiet(False)
    terminal.escape_unencodable()
    # Users need the message of a warning, not its source line.
    warnings.showwarning = lambda message, *_rest, **_options: print_error(str(message))


def program(*names: str) -> typer.Typer:
    """Build the command line with the commands of these names, or with all commands."""
    program = typer.Typer(
        cls=Commands,
        help=HELP,
        epilog=EPILOG,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="markdown",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    program.callback()(options)
    group_of = {name: group for group, members in GROUPS.items() for name in members}
    for name in names or COMMANDS:
        command = getattr(import_module(f"prototag.cli.{name}"), name)
        if isinstance(command, typer.Typer):
            program.add_typer(command, name=name, rich_help_panel=group_of[name])
        else:
            program.command(rich_help_panel=group_of[name])(command)
    return program


def main() -> None:
    """Run the console script."""
    # Only the requested command is loaded, because importing all of them takes longer.
    requested = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
    # A closed stream (`>&-`) becomes the null device.
    sys.stdin, sys.stdout, sys.stderr = (
        open_file(os.devnull, mode) if stream is None else stream  # noqa: SIM115
        for stream, mode in ((sys.stdin, "r"), (sys.stdout, "w"), (sys.stderr, "w"))
    )
    try:
        program(*([requested] if requested in COMMANDS else []))(prog_name="prototag")
    except OSError as error:  # help that a closed pipe or a full disk refuses
        terminal.discard_stdout()
        if error.errno != errno.EPIPE:
            print_error(_message(error))
            sys.exit(FAILED)
