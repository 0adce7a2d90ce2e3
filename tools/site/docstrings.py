"""Docstrings as pages show them: roles of Sphinx become code, names of pages become links."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import griffe

ROOT = Path(__file__).parents[2]
ROLE = re.compile(r":(?:class|func|meth|mod|attr|data|exc):`(~?)([\w.]+)`")
# Parameters that share a line: griffe would give all of them the default of the first.
SHARED = re.compile(r"^( *)(\w+(?:, \w+)+)(?: : (.+))?\n((?:\1 +\S.*(?:\n|\Z))*)", re.M)
PAGE = re.compile(r"\bdocs/([\w/-]+\.md)")


def readable(text: str) -> str:
    """A docstring in Markdown."""
    text = SHARED.sub(_apart, text).replace("path-like", "path")  # a minus, to griffe
    text = re.sub(r"::$", ":", text, flags=re.M)
    text = ROLE.sub(lambda role: f"`{role[2].rpartition('.')[2] if role[1] else role[2]}`", text)
    return PAGE.sub(lambda page: f"[{_title(page[1])}](../../{page[1]})", text)


def _apart(found: re.Match[str]) -> str:
    margin, names, kind, words = found.groups("")
    if not kind and not words:
        return found[0]  # a line of prose
    if kind.startswith(("as ", "of ")):  # words, and no type
        kind, words = "", f"{margin}    {kind[0].upper()}{kind[1:]}.\n{words}"
    head = f" : {kind}\n" if kind else "\n"
    return "".join(f"{margin}{name}{head}{words.rstrip()}\n" for name in names.split(", "))


def _title(page: str) -> str:
    return (ROOT / "docs" / page).read_text().partition("\n")[0].lstrip("# ")


class Readable(griffe.Extension):
    """Applies it to every object that is shown."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring:
            obj.docstring.value = readable(obj.docstring.value)
