"""Docstrings as pages show them: roles of Sphinx become code, names of pages become links."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import griffe

ROOT = Path(__file__).parents[2]
ROLE = re.compile(r":(?:class|func|meth|mod|attr|data|exc):`(~?)([\w.]+)`")
PAGE = re.compile(r"\bdocs/([\w/-]+\.md)")


def readable(text: str) -> str:
    """A docstring in Markdown."""
    text = ROLE.sub(lambda role: f"`{role[2].rpartition('.')[2] if role[1] else role[2]}`", text)
    return PAGE.sub(lambda page: f"[{_title(page[1])}](../../{page[1]})", text)


def _title(page: str) -> str:
    return (ROOT / "docs" / page).read_text().partition("\n")[0].lstrip("# ")


class Readable(griffe.Extension):
    """Applies it to every object that is shown."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring:
            obj.docstring.value = readable(obj.docstring.value)
