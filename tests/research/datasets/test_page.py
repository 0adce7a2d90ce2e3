"""The example of docs/research/datasets.md runs, and prints what the page says it prints."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import numpy as np

from prototag.research import datasets

PAGE = Path(__file__).parents[3] / "docs" / "research" / "datasets.md"


def test_the_example_of_the_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    printed_on_page = re.findall(r"^print\(.*\)\n# (.*)$", blocks[0], re.MULTILINE)
    assert len(printed_on_page) == 2
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(blocks[0], str(PAGE), "exec"), {})
    assert printed.getvalue().splitlines() == printed_on_page


def test_the_example_with_clip_art(monkeypatch):
    """With every twelfth drawing, because all of them take a minute."""
    [_, code] = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    collection = datasets.clipart()
    few = collection.keep(np.arange(0, len(collection.images), 12))
    monkeypatch.setattr(datasets, "clipart", lambda: few)
    exec(compile(code, str(PAGE), "exec"), {})
