"""The same rows in HTML, Markdown and LaTeX."""

from __future__ import annotations

import re

import numpy as np
import pytest

from prototag.report.tables import Column, latex, markdown, table

COLUMNS = ["Tag", Column("Images", "number"), Column("F1", "percent", bar=True)]
ROWS = [["sky", 1234, 0.5], ["a|b\n<i>", 0, None], ["*", 7, float("nan")]]


def test_cells_are_written_and_can_be_sorted():
    html = table(COLUMNS, ROWS, caption="Every tag")
    assert '<td class="number" data-v="1234">1,234</td>' in html
    assert 'class="measured number" style="--share:0.500" data-v="0.5">50.0<' in html
    assert re.findall(r'data-v="">(.)<', html) == ["–", "–"]
    assert "&lt;i&gt;" in html
    assert "<i>" not in html
    assert html.count('scope="row"') == 3
    assert 'class="sortable"' in html
    assert "sortable" not in table(COLUMNS, ROWS, sortable=False)


def test_markdown_keeps_text_on_its_row():
    assert markdown(COLUMNS, ROWS) == (
        "| Tag | Images | F1 |\n"
        "| --- | ---: | ---: |\n"
        "| sky | 1,234 | 50.0 |\n"
        "| a\\|b \\<i\\> | 0 | – |\n"
        "| \\* | 7 | – |\n"
    )


def test_latex_escapes_commands_and_aligns_numbers():
    rows = [["a_b & 50% {c} \\d", 1234, 0.5], ["\u00b5 ~ ^ # $", 7, None]]
    text = latex(COLUMNS, rows, caption="Tags & shares")
    assert r"\begin{tabular}{lrr}" in text
    assert r"\caption{Tags \& shares}" in text
    assert r"Tag & Images & F1 \\" in text
    assert r"a\_b \& 50\% \{c\} \textbackslash{}d & 1,234 & 50.0 \\" in text
    assert r"$\mu$ \textasciitilde{} \textasciicircum{} \# \$ & 7 & -- \\" in text
    assert text.count(r"\begin{") == text.count(r"\end{") == 2


def test_digits():
    assert Column("a", "percent", 0).format(0.126) == "13"
    assert Column("a", "number", 2).format(3) == "3.00"
    assert Column("a", "number").format(np.float64(0.12345)) == "0.123"
    assert Column("a", "number").format(np.int64(12345)) == "12,345"


def test_rows_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="row 1 has 1 values for 3 columns"):
        table(COLUMNS, [ROWS[0], ["x"]])
    with pytest.raises(ValueError, match="without columns"):
        markdown([], [])
