"""Output of annotations as text, JSON lines or CSV, and the journal for --resume."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, Literal

from prototag.annotator.types import Annotation
from prototag.cli import terminal
from prototag.errors import InputError
from prototag.metadata import dataset_json
from prototag.metadata.dataset_json import LabeledImage
from prototag.metadata.tag_names import TagLookup, split_tag_options
from prototag.storage.atomic_write import replacing
from prototag.storage.sqlite_lock_guard import open_for_reading, read_text

Format = Literal["table", "plain", "json", "csv", "coco", "fiftyone", "imagefolder"]
COLUMNS = ("path", "tag", "status", "probability", "score", "note")

ESTIMATE_MARK = "?"  # behind the name of an estimate in plain text
_TAG_VALUES = ("tag", "probability", "score")  # of a tag in a record


def record(annotation: Annotation, why_none: str = "") -> dict[str, Any]:
    """Return the JSON object of an annotation; ``why_none`` is the note of one without tags."""
    values = annotation.to_dict()
    is_untagged = annotation.error is None and not annotation.tags
    return {**values, "note": why_none} if is_untagged and why_none else values


class Writer:
    """Writer of records to a stream in one of the formats."""

    def __init__(self, stream: IO[str], form: Format) -> None:
        self.stream = stream
        self.form = form
        self._started = False
        self._csv: Any = None
        self._console: Any = None

    def write(self, entry: dict[str, Any]) -> None:
        if self.form == "json":
            self.stream.write(json.dumps(entry) + "\n")
        elif self.form == "csv":
            self._write_csv(entry)
        elif "error" in entry:
            return  # printed on standard error
        elif self.form == "plain":
            estimates = (tag["tag"] + ESTIMATE_MARK for tag in entry.get("estimates", ()))
            cells = [entry["path"], *(tag["tag"] for tag in entry["tags"]), *estimates]
            self.stream.write("\t".join(terminal.printable(cell) for cell in cells) + "\n")
        else:
            self._draw(entry)
        self.stream.flush()

    def _write_csv(self, entry: dict[str, Any]) -> None:
        if self._csv is None:
            import csv

            self._csv = csv.writer(self.stream, lineterminator="\n")
            self._csv.writerow(COLUMNS)
        note = entry.get("error", entry.get("note", ""))
        tags = [
            [tag["tag"], status, tag["probability"], tag["score"]]
            for status, key in (("applied", "tags"), ("estimate", "estimates"))
            for tag in entry.get(key, ())
        ]
        for values in tags or [[""] * (len(COLUMNS) - 2)]:  # every picture has a row
            row = [entry["path"], *values, note]
            self._csv.writerow([_cell(one) if isinstance(one, str) else one for one in row])

    def _draw(self, entry: dict[str, Any]) -> None:
        """Print a row with columns of a fixed width, because later rows are unknown."""
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        if self._console is None:
            self._console = Console(file=self.stream, highlight=False)
        name = max(12, min(40, self._console.width // 3))
        table = Table(box=None, pad_edge=False, show_header=not self._started, expand=True)
        table.add_column("Picture", width=name, no_wrap=True, style="bold")
        table.add_column("Tags with probabilities", ratio=1)
        tags = Text()
        for tag in entry["tags"]:
            tags.append(terminal.printable(terminal.shown(tag["tag"])))
            tags.append(f" {terminal.percent(tag['probability'])}   ", style="dim")
        for key, word in (("estimates", "probably"), ("suggestions", "perhaps")):
            for number, tag in enumerate(entry.get(key, ())):
                called = terminal.printable(terminal.shown(tag["tag"]))
                words = f"{called} {terminal.percent(tag['probability'])}   "
                tags.append(words if number else f"{word} {words}", style="dim italic")
        path = terminal.printable(entry["path"])
        path = path if len(path) <= name else f"…{path[1 - name :]}"
        table.add_row(Text(path), tags or Text("-"))
        self._console.print(table)
        self._started = True


def _is_record(entry: Any) -> bool:
    """Return whether a value has the format of :func:`record`."""
    if not isinstance(entry, dict) or not isinstance(entry.get("path"), str):
        return False
    if "error" in entry:
        return isinstance(entry["error"], str)
    if not isinstance(entry.get("note", ""), str):
        return False
    tags = entry.get("tags")
    return isinstance(tags, list) and all(
        isinstance(tag, dict)
        and isinstance(tag.get("tag"), str)
        and all(isinstance(tag.get(name), int | float) for name in _TAG_VALUES[1:])
        for tag in tags
    )


def _cell(text: str) -> str:
    """Escape formulas and control characters of a CSV cell; keep bytes of file names."""
    text = "".join(
        c if c.isprintable() or "\udc80" <= c <= "\udcff" else ascii(c)[1:-1] for c in text
    )
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text


class Journal:
    """Journal of results, which makes an interrupted run resumable.

    Records are appended to ``FILE.part`` as JSON lines, and written to the file once all are done,
    so that the file is never half-written.

    Parameters
    ----------
    path : path of the results
    form : "json" or "csv"
    begun_by : the options that shape the results; only a part with the same ones is continued
    resume : whether to continue a part that is there
    """

    def __init__(self, path: Path, form: Format, begun_by: dict[str, Any], resume: bool) -> None:
        self.path = path
        self.form = form
        self.part = path.with_name(path.name + ".part")
        self.done: set[str] = set()
        head = json.dumps({"prototag": 1, "options": begun_by}, sort_keys=True)
        kept: list[str] = []
        if os.path.lexists(self.part) and not self.part.is_file():
            raise InputError(f"{self.part} is not a regular file: move it away.")
        if resume and self.part.exists():
            kept = self._recover(head)
        # Failed pictures are tried again, so that only results are kept.
        with replacing(self.part) as file:
            file.write("".join(f"{line}\n" for line in [head, *kept]).encode("ascii"))
        self._file = self.part.open("a", encoding="ascii")

    def _recover(self, head: str) -> list[str]:
        with io.TextIOWrapper(open_for_reading(self.part), "ascii", "replace") as file:
            lines = file.read().split("\n")[:-1]
        if not lines or lines[0] != head:
            raise InputError(
                f"{self.part} was written with another model or other options: give the same ones "
                "to continue, or delete it."
            )
        kept = []
        for line in lines[1:]:
            try:
                entry = json.loads(line)
            except (ValueError, RecursionError):
                entry = None
            if not _is_record(entry):
                raise InputError(f"{self.part} is damaged: delete it to start again.")
            if "error" not in entry:
                self.done.add(entry["path"])
                kept.append(line)
        return kept

    def write(self, entry: dict[str, Any]) -> None:
        self._file.write(json.dumps(entry) + "\n")
        self._file.flush()

    def finish(self) -> None:
        """Write the file from the journal, and delete the journal."""
        self._file.close()
        if self.form in ("coco", "fiftyone", "imagefolder"):
            dataset_json.write(self.path, map(_labeled, self._annotated()), self.form)
            self.part.unlink()
            return
        with replacing(Path(os.path.realpath(self.path))) as file:
            text = io.TextIOWrapper(file, "utf-8", errors="surrogateescape", newline="")
            writer = Writer(text, self.form)
            for entry in self._entries():
                writer.write(entry)
            text.flush()
            text.detach()
        self.part.unlink()

    def _annotated(self) -> Iterator[dict[str, Any]]:
        return (entry for entry in self._entries() if "error" not in entry)

    def _entries(self) -> Iterator[dict[str, Any]]:
        with self.part.open(encoding="ascii") as file:
            next(file)
            for line in file:
                yield json.loads(line)

    def close(self) -> None:
        self._file.close()


def _labeled(entry: dict[str, Any]) -> LabeledImage:
    """Convert a record for a data set."""
    tags = [tag["tag"] for tag in entry["tags"]]
    return LabeledImage(entry["path"], tags, [tag["probability"] for tag in entry["tags"]])


def vocabulary(given: str, known: Iterable[str]) -> list[str]:
    """Select tags of the model by a file (one per line) or a list with commas."""
    path = Path(given)
    try:
        is_file = path.is_file()
    except (OSError, ValueError):  # too long for a path
        is_file = False
    try:
        names = read_text(path, "utf-8-sig").splitlines() if is_file else given.split(",")
    except UnicodeDecodeError:
        raise InputError(f"{path} is not text: give a file with one tag per line.") from None
    names = [name.strip() for name in names if name.strip()]
    lookup = TagLookup(known)
    if not is_file:
        return lookup.find_all(split_tag_options([given], lookup), owner="the model knows")
    # A file may be written for several models, so that unknown tags are allowed.
    unknown = [name for name in names if not lookup.find(name)]
    if len(unknown) == len(names):
        raise InputError(
            f"the model knows none of the tags in {given!r}: `prototag inspect` lists those that "
            "it learned."
        )
    if unknown:
        terminal.print_error(
            f"the model does not know these tags of {given}, which are ignored: "
            f"{', '.join(unknown)}."
        )
    return lookup.find_all((name for name in names if lookup.find(name)), owner="the model knows")
