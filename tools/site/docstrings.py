"""Docstrings as pages show them: roles of Sphinx become code, names of pages become links.

Tuples with names and records (dataclasses) list their fields, with what the comments behind them
say.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

from tools.site.titles import title

ROLE = re.compile(r":(?:class|func|meth|mod|attr|data|exc):`(~?)([\w.]+)`")
# Choices: griffe would take the first for the default, and drop what stands behind them.
CHOICE = re.compile(r"^( *\w+(?:, \w+)* : )\{(.+?)\}", re.M)
# Parameters that share a line: griffe would give all of them the default of the first.
SHARED = re.compile(r"^( *)(\w+(?:, \w+)+)(?: : (.+))?\n((?:\1 +\S.*(?:\n|\Z))*)", re.M)
PAGE = re.compile(r"\bdocs/([\w/-]+\.md)")


def readable(text: str) -> str:
    """A docstring in Markdown."""
    text = CHOICE.sub(r"\1one of \2", text)
    text = SHARED.sub(_apart, text).replace("path-like", "path")  # a minus, to griffe
    text = re.sub(r"::$", ":", text, flags=re.M)
    text = ROLE.sub(lambda role: f"`{role[2].rpartition('.')[2] if role[1] else role[2]}`", text)
    return PAGE.sub(lambda page: f"[{title(page[0])}](../../{page[1]})", text)


def _apart(match: re.Match[str]) -> str:
    margin, names, kind, words = match.groups("")
    if not kind and not words:
        return match[0]  # a line of prose
    if kind.startswith(("as ", "of ")):  # words, and no type
        kind, words = "", f"{margin}    {kind[0].upper()}{kind[1:]}.\n{words}"
    head = f" : {kind}\n" if kind else "\n"
    return "".join(f"{margin}{name}{head}{words.rstrip()}\n" for name in names.split(", "))


class Readable(griffe.Extension):
    """Applies it to every object that is shown."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring:
            obj.docstring.value = readable(obj.docstring.value)
            if isinstance(obj, griffe.Class) and _has_fields(obj):
                obj.docstring.value += fields(obj)


def _has_fields(of: griffe.Class) -> bool:
    marks = [*map(str, of.bases), *(str(one.value) for one in of.decorators)]
    named = any(word in mark for mark in marks for word in ("NamedTuple", "dataclass"))
    text = of.docstring.value if of.docstring else ""
    return named and "\nParameters\n" not in text and "\nAttributes\n" not in text


def fields(of: griffe.Class) -> str:
    """A section of all public fields, each with its type and its comment."""
    lines = []
    for name, one in [*of.members.items()]:
        if not isinstance(one, griffe.Attribute) or name.startswith("_") or not one.annotation:
            continue
        behind = of.lines_collection[of.filepath][one.lineno - 1].partition("  # ")[2]
        words = re.sub(r"type: ignore\S*(\s+# )?", "", behind).strip()
        if not re.match(r"\w x ", words):  # a shape, n x m
            words = words[:1].upper() + words[1:]
        lines.append(f"{name} : {one.annotation}\n    {words}\n")
        del of.members[name]  # said once is enough
    return "\n\nAttributes\n----------\n" + "".join(lines) if lines else ""
