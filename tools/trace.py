"""Count the source files through which a command passes, and list them.

    python -m tools.trace annotate    prototag annotate one.jpg -m model --write-xmp
    python -m tools.trace train       prototag train folder -m model

Runs the command in this process on a small collection that it makes, with an empty cache. A file
counts when one of its functions is called; importing it does not. Two counts of changes of file:
calls from one file into another, all of them, which grow with the collection; and what somebody
turns who reads each function where it is first called, which do not.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import io
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np
from PIL import Image

import prototag

PACKAGE = str(Path(prototag.__file__).parent) + os.sep
COLOURS = {"red": (200, 30, 30), "green": (30, 170, 40), "blue": (40, 60, 200)}
PICTURES = 40
MAX_SHOWN = 4  # functions named for each file

# Codes, kernel and linear predictions all contribute to the scores of a real collection; with so
# few pictures, the selected model might use only one of them.
LEARN = """
import sys
from dataclasses import replace
from prototag import Annotator
annotator = Annotator(n_jobs=-1).fit(sys.argv[1])
annotator.model = replace(annotator.model, kernel_share=0.5)
annotator.save(sys.argv[2])
"""


class Trace:
    """The files of the package in the order of their first call, with the called functions."""

    def __init__(self) -> None:
        self.files: dict[str, list[str]] = {}
        self.n_calls = 0  # from one file into another
        self.n_turns = 0  # from file to file, each function read once
        self._last = ""
        self._seen: set[CodeType] = set()
        self._local = threading.local()
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Trace this thread and threads that it starts."""
        threading.setprofile(self._event)
        sys.setprofile(self._event)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]

    def _event(self, frame: FrameType, event: str, _argument: object) -> None:
        if event not in ("call", "return"):
            return
        code = frame.f_code
        if code.co_name == "<module>":
            # What a module does while it is imported, it does for every command.
            importing = getattr(self._local, "importing", 0)
            self._local.importing = importing + (1 if event == "call" else -1)
        elif (
            event == "call"
            and code.co_filename.startswith(PACKAGE)
            and code.co_flags & inspect.CO_OPTIMIZED  # a function, not the body of a class
            and not getattr(self._local, "importing", 0)
        ):
            self._call(frame, code)

    def _call(self, frame: FrameType, code: CodeType) -> None:
        caller = _caller(frame)
        with self._lock:
            self.n_calls += caller not in (None, code.co_filename)
            if code in self._seen or code.co_name.startswith("<"):
                return  # a comprehension is read with the function around it
            self._seen.add(code)
            file = code.co_filename.removeprefix(PACKAGE)
            self.n_turns += bool(self._last) and file != self._last
            self._last = file
            self.files.setdefault(file, []).append(code.co_qualname)


def _caller(frame: FrameType) -> str | None:
    """Return the file of the package from which a call comes, skipping other packages."""
    back = frame.f_back
    while back is not None and not back.f_code.co_filename.startswith(PACKAGE):
        back = back.f_back
    return None if back is None else back.f_code.co_filename


def collection(folder: Path) -> Path:
    """Write pictures of one colour, some with stripes, and a list of their tags."""
    folder.mkdir()
    names = list(COLOURS)
    lines = []
    for number in range(PICTURES):
        tags = [names[number % 3], *(["striped"] if number % 4 < 2 else [])]
        picture(tags, number).save(folder / f"{number:03}.jpg")
        lines.append(json.dumps({"file_name": f"{number:03}.jpg", "tags": tags}))
    (folder / "metadata.jsonl").write_text("\n".join(lines) + "\n")
    return folder


def picture(tags: list[str], seed: int) -> Image.Image:
    pixels = np.full((48, 64, 3), COLOURS[tags[0]], np.float64)
    if "striped" in tags:
        pixels[:, (np.arange(64) // 6 + seed) % 2 == 0] *= 0.35
    grain = np.random.default_rng(seed).normal(0, 8, pixels.shape)
    return Image.fromarray((pixels + grain).clip(0, 255).astype(np.uint8))


def trace(command: str, work: Path) -> Trace:
    """Run a command on generated pictures, and trace it."""
    os.environ["PROTOTAG_CACHE"] = str(work / "cache.sqlite")
    photos, model = collection(work / "photos"), work / "model.prototag"
    words = ["train", str(photos), "-m", str(model)]
    if command == "annotate":
        # Learned by another process: what it would leave prepared in this one, no user finds.
        subprocess.run([sys.executable, "-c", LEARN, photos, model], check=True)
        picture(["green", "striped"], PICTURES).save(work / "one.jpg")
        words = ["annotate", str(work / "one.jpg"), "-m", str(model), "--write-xmp"]
    from prototag.cli import main

    sys.argv = ["prototag", *words]
    output, ending, calls = io.StringIO(), 0, Trace()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output), calls.watching():
        try:
            main()
        except SystemExit as end:
            ending = end.code
    if ending:
        raise SystemExit(f"prototag {command} ended with {ending}:\n{output.getvalue()}")
    return calls


def report(command: str, calls: Trace) -> dict[str, Any]:
    """Print the counts and the files in the order of their first call."""
    return {
        "command": command,
        "n_files": len(calls.files),
        "n_calls_into_another_file": calls.n_calls,
        "n_turns_of_a_reader": calls.n_turns,
        "files": [{"file": file, "functions": names} for file, names in calls.files.items()],
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("command", choices=["annotate", "train"])
    parser.add_argument("--json", action="store_true", help="print JSON, with all functions")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        result = report(given.command, trace(given.command, Path(work)))
    if given.json:
        print(json.dumps(result, indent=1))
        return
    print(
        f"{result['n_files']} files, "
        f"{result['n_calls_into_another_file']:,} calls into another file,"
        f" {result['n_turns_of_a_reader']} turns of a reader"
    )
    for row in result["files"]:
        names = row["functions"]
        more = f" and {len(names) - MAX_SHOWN} more" if len(names) > MAX_SHOWN else ""
        print(f"{row['file']:36} {', '.join(names[:MAX_SHOWN])}{more}")


if __name__ == "__main__":
    main()
