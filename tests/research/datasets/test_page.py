"""The example of docs/research/datasets.md runs, and prints what the page says it prints."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "datasets.md"


def test_the_example_of_the_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 1
    promised = re.findall(r"^print\(.*\)\n# (.*)$", blocks[0], re.MULTILINE)
    assert len(promised) == 2
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(blocks[0], str(PAGE), "exec"), {})
    assert printed.getvalue().splitlines() == promised
