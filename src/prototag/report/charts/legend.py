"""Names of lines: at the ends of the lines if they fit, otherwise in a legend."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from prototag.report.charts.axes import shorten, text_width
from prototag.report.charts.frame import LABEL, label, line
from prototag.report.html import Markup, element, join
from prototag.report.theme import SERIES_COLOURS

NAME_SPACING = 14.0  # between the base lines of two names
_SWATCH = 26.0
# Without markers, dashes distinguish lines for colour-blind readers.
_DASHES = (None, "7 4", "2 4", "9 3 2 3", "5 2", "1 3")


def colour(index: int) -> int:
    return index % SERIES_COLOURS


def dash(index: int) -> str | None:
    return _DASHES[index % len(_DASHES)]


def at_ends(names: Sequence[str], heights: Sequence[float], x: float, frame: range) -> Markup:
    """Place names to the right of line ends, moved apart if they would overlap."""
    order = np.argsort(heights, kind="stable")
    places = np.asarray(heights, np.float64)[order]
    low = frame.start + 4.0
    high = frame.stop - 1.0
    steps = np.arange(len(places)) * NAME_SPACING
    # First move names down, then up from the lower edge.
    places = np.maximum.accumulate(np.maximum(places, low) - steps) + steps
    last = high - steps[::-1]
    places = np.minimum(places, last)
    return join(
        label(names[index], x + 7, place + 4.2, f"f{colour(index)} halo")
        for index, place in zip(order.tolist(), places.tolist(), strict=True)
    )


def above(
    names: Sequence[str], width: float, *, markers: bool = False, filled: bool = False
) -> tuple[Markup, float]:
    """Return a legend and its height."""
    drawn = []
    x = 2.0
    y = 12.0
    for index, name in enumerate(names):
        name = shorten(name, width - _SWATCH - 6, LABEL)
        wide = _SWATCH + text_width(name, LABEL) + 12
        if x > 2.0 and x + wide - 12 > width:
            x, y = 2.0, y + 17.0
        drawn.append(_sample(index, x, y, markers=markers, filled=filled))
        drawn.append(label(name, x + _SWATCH, y))
        x += wide
    return join(drawn), y + 8.0


def _sample(index: int, x: float, y: float, *, markers: bool, filled: bool) -> Markup:
    if filled:
        kind = f"f{colour(index)}"
        return element("rect", x=x + 6, y=y - 9, width=13.0, height=10.0, rx=2.0, class_=kind)
    style = None if markers else dash(index)
    stroke = line(x, y - 4, x + 20, y - 4, f"line s{colour(index)}", dashes=style)
    return join((stroke, marker(index, x + 10, y - 4) if markers else ""))


def marker(
    index: int, x: float, y: float, *, size: float = 3.6, title: str | None = None
) -> Markup:
    """Draw a disc, square, triangle or diamond, by the number of the series."""
    inside = element("title", title) if title else None
    kind = f"mark f{colour(index)}"
    if index % 4 == 0:
        return element("circle", inside, cx=float(x), cy=float(y), r=size, class_=kind)
    outlines = (
        ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)),
        ((0, -1.25), (1.15, 0.85), (-1.15, 0.85)),
        ((0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)),
    )
    points = " ".join(f"{x + a * size:.1f},{y + b * size:.1f}" for a, b in outlines[index % 4 - 1])
    return element("polygon", inside, points=points, class_=kind)
