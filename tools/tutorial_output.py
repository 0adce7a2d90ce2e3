"""Run the commands and examples of a tutorial and write their output into its page.

    python -m tools.tutorial_output docs/guide/quickstart.md FOLDER

Runs the ``sh`` and ``python`` blocks of the page one after the other in FOLDER: commands as on a
terminal, examples in one interpreter. A ``text`` block that directly follows such a block is
replaced by the output; an empty block asks for all of it. If the old block has a line ``...``, the
new one is shortened to as many lines before and after it.

For ``docs/integrate/http.md``, first start the service in FOLDER:
``prototag serve mine.prototag --allow prototag-demo/test``.
"""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from contextlib import chdir, redirect_stdout, suppress
from io import StringIO
from pathlib import Path

WIDTH = 110  # columns of the terminal
BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.S | re.M)
SKIPPED = re.compile(r"^pip .*\n", re.M)  # needs a network
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
PROGRESS = re.compile(r" \[#*\.*\] \d")
CUT = "..."


def updated(page: str, folder: Path) -> str:
    """Return the page with the output of its commands and examples."""
    names: dict[str, object] = {"__name__": "__example__"}

    def replaced(block: re.Match[str]) -> str:
        language, text, old = block.groups()
        if language == "sh":
            output = run(SKIPPED.sub("", text), folder)
        else:
            output = interpreted(text, names, folder)
        if old is None:
            return block[0]
        return f"```{language}\n{text}```\n\n```text\n{shortened(output, old)}```\n"

    return BLOCK.sub(replaced, page)


def interpreted(text: str, names: dict[str, object], folder: Path) -> str:
    """Return the printed output of Python code; its names are kept for the next example."""
    with chdir(folder), redirect_stdout(StringIO()) as output:
        exec(compile(text, "example", "exec"), names)
    return output.getvalue().rstrip()


def shortened(output: str, old: str) -> str:
    """Return the output, shortened in the middle if the old block was."""
    lines, before = output.splitlines(), old.splitlines()
    if CUT in before:
        first = before.index(CUT)
        last = len(before) - first - 1
        if len(lines) > first + last + 1:
            lines = [*lines[:first], CUT, *lines[len(lines) - last :]]
    return "".join(f"{line}\n" for line in lines)


def run(commands: str, folder: Path) -> str:
    """Return the terminal output of the commands, without colors and progress bars."""
    main, side = pty.openpty()
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "COLUMNS": str(WIDTH), "TERM": "dumb"}
    process = subprocess.Popen(
        ["bash", "-euo", "pipefail", "-c", commands],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=side,
        stderr=side,
    )
    os.close(side)
    parts = []
    with suppress(OSError):  # on Linux, the end of a terminal
        while part := os.read(main, 65536):
            parts.append(part)
    os.close(main)
    text = ESCAPES.sub("", b"".join(parts).decode()).replace("\r\n", "\n").strip("\n")
    if process.wait():
        raise SystemExit(f"{commands}\nfailed with {process.returncode}:\n{text}")
    lines: list[str] = []
    for line in text.splitlines():
        if not PROGRESS.search(line):
            lines.append(line.rstrip())
        elif lines and not lines[-1]:
            lines.pop()  # a progress bar begins with an empty line
    return re.sub(r"\n{3,}", "\n\n", "".join(f"{line}\n" for line in lines)).lstrip("\n")


def main(page: str, folder: str) -> None:
    """Rewrite the page."""
    path = Path(page)
    path.write_text(updated(path.read_text("utf-8"), Path(folder)), "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
