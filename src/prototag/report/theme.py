"""Colours and styles: each colour name has a value for light and for dark mode.

Lines and text have the contrast that WCAG requires in both modes, and colour-blind readers can
distinguish the colours of series; besides, no figure relies on colour alone.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

LIGHT = {
    "ground": "#ffffff",
    "panel": "#f5f6f8",
    "ink": "#1a1f26",
    "muted": "#57606b",
    "rule": "#d9dee4",
    "accent": "#0b5fa5",
    "right": "#0a6b4f",
    "right-ground": "#e2f3ec",
    "wrong": "#b3381a",
    "wrong-ground": "#fcebe5",
    "missing": "#7a5200",
    "missing-ground": "#fbf2dc",
    "bar": "#cfe2f3",
    "c0": "#0b5fa5",
    "c1": "#c04a0a",
    "c2": "#0b7d5e",
    "c3": "#9a4480",
    "c4": "#5f4a00",
    "c5": "#3a4048",
}
DARK = {
    "ground": "#12161b",
    "panel": "#1b2027",
    "ink": "#e8ebef",
    "muted": "#a3adb8",
    "rule": "#343c46",
    "accent": "#74b6f2",
    "right": "#5fd0a8",
    "right-ground": "#11352b",
    "wrong": "#ff9a7a",
    "wrong-ground": "#43211a",
    "missing": "#e6bd66",
    "missing-ground": "#3a2f14",
    "bar": "#22405c",
    "c0": "#6ab0f3",
    "c1": "#f28b50",
    "c2": "#48c79c",
    "c3": "#dd7cc0",
    "c4": "#f0d264",
    "c5": "#ccd3da",
}
SERIES_COLOURS = 6  # c0 to c5


def variables(colours: dict[str, str]) -> str:
    """Return CSS custom properties for colours."""
    return "".join(f"--{name}:{value};" for name, value in colours.items())


@cache
def chart_style() -> str:
    """Return the CSS of figures, which refers to colours by name."""
    series = "".join(
        f".chart .s{i}{{stroke:var(--c{i})}}.chart .f{i}{{fill:var(--c{i})}}"
        for i in range(SERIES_COLOURS)
    )
    return _minify(_read("chart.css")) + series


@cache
def page_style() -> str:
    """Return the CSS of a page."""
    return (
        f":root{{color-scheme:light dark;{variables(LIGHT)}}}"
        f"@media screen and (prefers-color-scheme:dark){{:root{{{variables(DARK)}}}}}"
        + _minify(_read("page.css"))
        + chart_style()
    )


@cache
def script() -> str:
    """Return the script of a page, which sorts and filters tables."""
    return _read("page.js").strip()


def inline_colours(style: str, colours: dict[str, str]) -> str:
    """Replace colour variables by values, for SVG viewers without CSS variables."""
    return re.sub(r"var\(--([\w-]+)\)", lambda match: colours[match[1]], style)


def _read(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def _minify(style: str) -> str:
    style = re.sub(r"/\*.*?\*/", "", style, flags=re.DOTALL)
    return re.sub(r"\s*([{};,>])\s*", r"\1", re.sub(r"\s+", " ", style)).strip()
