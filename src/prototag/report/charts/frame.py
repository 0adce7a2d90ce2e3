"""The frame of a chart: axes, grid, labels and the mapping from values to positions.

Figures are drawn 400 units wide, so that their letters are readable on a phone as they are and
beside each other on a desk. The name of the upright axis stands above it, where it need not be
read sideways.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from prototag.report import theme
from prototag.report.charts.axes import TICK_FONT_SIZE, Axis, Tick, shorten, text_width
from prototag.report.html import Markup, element, join

WIDTH = 400.0
HEIGHT = 270.0
LABEL = 12.0
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Frame:
    """The plot area of a chart with two axes; ``right`` and ``top`` reserve space for labels."""

    x: Axis
    y: Axis
    x_label: str = ""
    y_label: str = ""
    width: float = WIDTH
    height: float = HEIGHT
    right: float = 12.0
    top: float = 0.0
    bottom: float = 0.0

    @cached_property
    def left(self) -> float:
        return 10.0 + max(text_width(tick.label, TICK_FONT_SIZE) for tick in self.y_ticks)

    @cached_property
    def above(self) -> float:
        return self.top + (25.0 if self.y_label else 10.0)

    @property
    def inner_width(self) -> float:
        return self.width - self.left - self.right

    @property
    def inner_height(self) -> float:
        return self.height - self.above - self.bottom - (43.0 if self.x_label else 26.0)

    @cached_property
    def y_ticks(self) -> list[Tick]:
        return self.y.ticks(self.inner_height, upright=True)

    def across(self, values: npt.ArrayLike) -> Floats:
        return np.asarray(self.left + self.x.place(values) * self.inner_width)

    def down(self, values: npt.ArrayLike) -> Floats:
        return np.asarray(self.above + (1 - self.y.place(values)) * self.inner_height)

    def inside(self, *drawn: object) -> Markup:
        """Clip markup in the units of the figure to the plot area."""
        box = (self.left, self.above, self.inner_width, self.inner_height)
        x, y, width, height = (float(round(side, 2)) for side in box)
        return element(
            "svg",
            *drawn,
            x=x,
            y=y,
            width=width,
            height=height,
            viewBox=f"{x:g} {y:g} {width:g} {height:g}",
        )

    def draw(self, title: str, *layers: object) -> Markup:
        """Return the whole figure: grid, ticks and names of the axes, then the layers."""
        return figure(title, self.width, self.height, self._axes(), *layers)

    def _axes(self) -> Markup:
        right = self.left + self.inner_width
        base = self.above + self.inner_height
        parts = []
        for tick in self.y_ticks:
            y = float(self.down(tick.value))
            parts.append(line(self.left, y, right, y, "grid"))
            parts.append(label(tick.label, self.left - 6, y + 4.2, "muted", anchor="end"))
        parts.append(line(self.left, base, right, base, "axis"))
        for tick in self.x.ticks(self.inner_width):
            x = float(self.across(tick.value))
            parts.append(line(x, base, x, base + 4, "axis"))
            low = self.left if self.right > 24 else 0.0
            x = float(np.clip(x, low, self.width - text_width(tick.label, TICK_FONT_SIZE) / 2))
            parts.append(label(tick.label, x, base + 17, "muted", anchor="middle"))
        if self.x_label:
            middle = self.left + self.inner_width / 2
            name = shorten(self.x_label, self.width - 8, LABEL)
            half = text_width(name, LABEL) / 2
            middle = min(max(middle, half + 2), self.width - half - 2)
            parts.append(label(name, middle, base + 35, anchor="middle"))
        if self.y_label:
            name = shorten(self.y_label, self.width - 6, LABEL)
            parts.append(label(name, 2.0, self.top + 13))
        return join(parts)


def figure(title: str, width: float, height: float, *drawn: object) -> Markup:
    return element(
        "svg",
        *drawn,
        class_="chart",
        role="img",
        aria_label=title,
        viewBox=f"0 0 {width:g} {height:g}",
    )


def line(
    x1: float, y1: float, x2: float, y2: float, class_: str, *, dashes: str | None = None
) -> Markup:
    x1, y1, x2, y2 = float(x1), float(y1), float(x2), float(y2)
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_, stroke_dasharray=dashes)


def label(
    words: str, x: float, y: float, class_: str | None = None, *, anchor: str | None = None
) -> Markup:
    return element("text", words, x=float(x), y=float(y), class_=class_, text_anchor=anchor)


def path(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    class_: str,
    *,
    close: bool = False,
    dashes: str | None = None,
) -> Markup:
    """Draw a line through points, interrupted at undefined ones."""
    pieces = []
    drawing = False
    for a, b in zip(np.asarray(x).tolist(), np.asarray(y).tolist(), strict=True):
        if np.isfinite(a) and np.isfinite(b):
            pieces.append(f"{'L' if drawing else 'M'}{a:.1f} {b:.1f}")
            drawing = True
        else:
            drawing = False
    d = "".join(pieces) + ("Z" if close and pieces else "")
    return element("path", d=d, class_=class_, stroke_dasharray=dashes)


def standalone(svg: Markup, *, dark: bool = False) -> Markup:
    """Return a figure as an SVG file with explicit colours and a background."""
    colours = theme.DARK if dark else theme.LIGHT
    style = element("style", Markup(theme.inline_colours(theme.chart_style(), colours)))
    ground = element("rect", width="100%", height="100%", class_="ground")
    opening, _, rest = svg.partition(">")  # no ">" inside: attributes are escaped
    return Markup(f'{opening} xmlns="http://www.w3.org/2000/svg">{style}{ground}{rest}')
