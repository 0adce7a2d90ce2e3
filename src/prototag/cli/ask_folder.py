"""Question for the folder of pictures, if ``prototag open`` was given none."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import typer

from prototag.cli import terminal

TITLE = "Folder of pictures"
# Dialogs for programs that were started from a menu, without a terminal.
DIALOGS = {
    "zenity": ["--file-selection", "--directory", f"--title={TITLE}", "--filename={folder}/"],
    "kdialog": ["--title", TITLE, "--getexistingdirectory", "{folder}"],
}


def usual_folder() -> Path:
    """Return the folder that is proposed: the current one if it has a library, else pictures."""
    from platformdirs import user_pictures_path

    from prototag.cli.library_common import NAME

    here = Path.cwd()
    pictures = user_pictures_path()
    return here if (here / NAME).exists() or not pictures.is_dir() else pictures


def ask_folder() -> Path:
    """Ask for a folder in the terminal, or in a dialog if there is no terminal."""
    proposed = usual_folder()
    if sys.stdin.isatty():
        return _ask_in_terminal(proposed)
    for name, options in DIALOGS.items():
        if command := shutil.which(name):
            return _ask_in_dialog([command, *options], proposed)
    raise typer.BadParameter("no folder was given: name one, such as `prototag open photos/`.")


def _ask_in_terminal(proposed: Path) -> Path:
    while True:
        given = typer.prompt(TITLE, default=str(proposed), err=True).strip()
        # A folder that is dropped on a terminal arrives in quotes.
        folder = Path(given.strip("'\"")).expanduser()
        if folder.exists():
            return folder
        terminal.print_error(f"{folder} does not exist. Ctrl-C ends the program.")


def _ask_in_dialog(command: list[str], proposed: Path) -> Path:
    filled = [part.format(folder=proposed) for part in command]
    chosen = subprocess.run(filled, capture_output=True, text=True, check=False)
    folder = chosen.stdout.rstrip("\n")
    if chosen.returncode or not folder:
        raise typer.Abort  # cancelled
    return Path(folder)
