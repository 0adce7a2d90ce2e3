"""Tables in HTML, Markdown and LaTeX from the same rows."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from prototag.report.charts.axes import number
from prototag.report.html import Markup, element

_LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"} | {
    sign: f"\\{sign}" for sign in "&%$#_{}"
}
_SPECIAL = re.compile(r"([\\`*_\[\]<>|#~])")


@dataclass(frozen=True)
class Column:
    """The name, kind and format of a column.

    ``percent`` values are shares: 0.5 is shown as 50.0. ``digits`` is the number of decimals (by
    default one for percent, three significant digits for numbers, none for integers). ``bar`` draws
    each share as a bar behind its number. ``wide`` columns are hidden on narrow screens.
    """

    name: str
    kind: Literal["text", "number", "percent"] = "text"
    digits: int | None = None
    bar: bool = False
    wide: bool = False

    def format(self, value: Any) -> str:
        """Return a value as text."""
        if value is None or (isinstance(value, float) and math.isnan(value)):
            return "–"
        if self.kind == "text":
            return str(value)
        if self.kind == "percent":
            return f"{100 * value:.{1 if self.digits is None else self.digits}f}"
        if self.digits is not None:
            return f"{value:,.{self.digits}f}"
        return f"{value:,}" if isinstance(value, int) else number(float(value))


def table(
    columns: Sequence[Column | str],
    rows: Sequence[Sequence[Any]],
    *,
    caption: str | None = None,
    sortable: bool = True,
) -> Markup:
    """Return an HTML table whose first column names the row; readers can sort and filter it."""
    kinds = _columns(columns, rows)
    head = element("tr", *(_head(column) for column in kinds))
    body = [
        element("tr", *(_cell(column, value, number == 0) for number, (column, value) in cells))
        for cells in (enumerate(zip(kinds, row, strict=True)) for row in rows)
    ]
    return element(
        "div",
        element(
            "table",
            element("caption", caption) if caption else None,
            element("thead", head),
            element("tbody", *body),
            class_="sortable" if sortable and len(rows) > 1 else None,
        ),
        class_="scroll",
        role="region",
        aria_label=caption or kinds[0].name,
        tabindex="0",
    )


def markdown(columns: Sequence[Column | str], rows: Sequence[Sequence[Any]]) -> str:
    """Return a Markdown table with right-aligned numbers and a final line break."""
    kinds = _columns(columns, rows)
    grid = [[_plain(column.name) for column in kinds]]
    grid += [
        [_plain(column.format(value)) for column, value in zip(kinds, row, strict=True)]
        for row in rows
    ]
    rule = ["---" if column.kind == "text" else "---:" for column in kinds]
    lines = (grid[0], rule, *grid[1:])
    return "".join("| " + " | ".join(cells) + " |\n" for cells in lines)


def latex(
    columns: Sequence[Column | str], rows: Sequence[Sequence[Any]], *, caption: str = ""
) -> str:
    """Return a LaTeX table that needs the package booktabs, with right-aligned numbers."""
    kinds = _columns(columns, rows)
    cells = [[_latex_text(column.name) for column in kinds]]
    cells += [
        [_latex_text(column.format(value)) for column, value in zip(kinds, row, strict=True)]
        for row in rows
    ]
    head, *body = (" & ".join(line) + r" \\" for line in cells)
    alignment = "".join("l" if column.kind == "text" else "r" for column in kinds)
    lines = [
        r"\begin{table}",
        rf"\caption{{{_latex_text(caption)}}}",
        r"\centering",
        rf"\begin{{tabular}}{{{alignment}}}",
        r"\toprule",
        head,
        r"\midrule",
        *body,
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _latex_text(text: str) -> str:
    """Escape the characters that are commands in LaTeX."""
    escaped = "".join(_LATEX.get(sign, sign) for sign in text)
    return escaped.replace("–", "--").replace("µ", r"$\mu$").replace("−", "$-$")


def _columns(columns: Sequence[Column | str], rows: Sequence[Sequence[Any]]) -> list[Column]:
    kinds = [Column(column) if isinstance(column, str) else column for column in columns]
    if not kinds:
        raise ValueError("a table without columns: give at least one.")
    for position, row in enumerate(rows):
        if len(row) != len(kinds):
            raise ValueError(
                f"row {position} has {len(row)} values for {len(kinds)} columns: give one for each."
            )
    return kinds


def _classes(column: Column, *more: str) -> str | None:
    names = [*more]
    names += ["number"] if column.kind != "text" else []
    names += ["wide"] if column.wide else []
    return " ".join(names) or None


def _head(column: Column) -> Markup:
    name = column.name + (" (%)" if column.kind == "percent" else "")
    return element("th", name, scope="col", class_=_classes(column))


def _cell(column: Column, value: Any, first: bool) -> Markup:
    shown = value if isinstance(value, Markup) else column.format(value)
    if column.kind == "text":
        shown = shown if isinstance(shown, Markup) else element("bdi", shown)
        if first:
            return element("th", shown, scope="row", class_=_classes(column))
        return element("td", shown, class_=_classes(column, "words"))
    blank = value is None or math.isnan(value)
    share = None
    if column.bar and not blank:
        share = f"--share:{min(max(float(value), 0.0), 1.0):.3f}"
    return element(
        "td",
        shown,
        class_=_classes(column, *(["measured"] if share else [])),
        style=share,
        data_v="" if blank else f"{float(value):.6g}",
    )


def _plain(text: str) -> str:
    """Escape text for Markdown, on one line."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))
