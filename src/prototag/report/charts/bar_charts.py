"""Bar charts and histograms as SVG with the colours of the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from prototag.report.charts import legend
from prototag.report.charts.axes import TICK_FONT_SIZE, Axis, number, shorten, text_width
from prototag.report.charts.frame import HEIGHT, LABEL, WIDTH, Frame, figure, label, line, path
from prototag.report.html import Markup, element, join

_BAR = 15.0
_SPACE = 8.0


def bars(
    names: Sequence[str],
    values: npt.ArrayLike | Mapping[str, npt.ArrayLike],
    *,
    title: str,
    percent: bool = False,
) -> Markup:
    """Draw horizontal bars labelled with their values; several series are grouped.

    Parameters
    ----------
    names : what each bar (or group) is called; long names are cut, and told whole to a pointer
    values : array, or mapping of names of series to arrays; at least 0, NaN draws nothing
    """
    series = dict(values) if isinstance(values, Mapping) else {"": values}
    rows = {name: np.asarray(column, np.float64) for name, column in series.items()}
    if not names or not rows or any(row.shape != (len(names),) for row in rows.values()):
        shapes = [row.shape for row in rows.values()]
        raise ValueError(f"{len(names)} names and values of shapes {shapes}: give one for each.")
    every = np.concatenate(list(rows.values()))
    if (every < 0).any():
        raise ValueError(f"a bar of length {np.nanmin(every)}: give values of at least 0.")
    largest = float(np.nanmax(every, initial=0.0)) or 1.0
    drawn = Markup()
    top = 2.0
    if len(rows) > 1:
        drawn, top = legend.above(list(rows), WIDTH, filled=True)
        top += 8
    words = [_words(value, percent) for value in every]
    left = 8 + min(max(text_width(" ".join(n.split()), LABEL) for n in names), 0.4 * WIDTH)
    right = 8 + max(text_width(word, TICK_FONT_SIZE) for word in words)
    room = WIDTH - left - right
    parts = [drawn]
    y = top
    for place, name in enumerate(names):
        height = _BAR * len(rows)
        full = element("title", name)
        short = shorten(name, left - 8, LABEL)
        middle = y + height / 2 + 4
        parts.append(element("text", full, short, x=left - 6, y=middle, text_anchor="end"))
        for index, row in enumerate(rows.values()):
            if np.isfinite(row[place]):
                long = room * float(row[place]) / largest
                parts.append(_bar(index, left, y + index * _BAR, long))
                word = _words(row[place], percent)
                parts.append(label(word, left + long + 5, y + index * _BAR + 11.8, "muted"))
        y += height + _SPACE
    parts.append(line(left, top - 2, left, y - _SPACE + 2, "axis"))
    return figure(title, WIDTH, y - _SPACE + 4, *parts)


def _bar(index: int, x: float, y: float, long: float) -> Markup:
    kind = f"f{legend.colour(index)}"
    return element("rect", x=x, y=y + 1, width=max(long, 0.5), height=_BAR - 2, rx=1.5, class_=kind)


def _words(value: float, percent: bool) -> str:
    return f"{number(100 * value, 1)}%" if percent else number(value)


def histogram(
    edges: npt.ArrayLike,
    counts: Mapping[str, npt.ArrayLike],
    *,
    title: str,
    x_label: str = "",
    mark: float | None = None,
    mark_name: str = "",
) -> Markup:
    """Draw distributions over the same edges, each normalised, so that their sizes may differ.

    ``mark`` draws an upright line, such as a threshold.
    """
    bounds = np.asarray(edges, np.float64)
    rows = {name: np.asarray(row, np.float64) for name, row in counts.items()}
    if bounds.ndim != 1 or not rows or any(r.shape != (len(bounds) - 1,) for r in rows.values()):
        shapes = [row.shape for row in rows.values()]
        raise ValueError(
            f"{bounds.shape} edges and counts of shapes {shapes}: give one count between each "
            "two edges."
        )
    shares = {name: row / max(row.sum(), 1.0) for name, row in rows.items()}
    drawn, top = legend.above(list(rows), WIDTH)
    frame = Frame(
        Axis(float(bounds[0]), float(bounds[-1])),
        Axis.around(shares.values(), (0.0, None), percent=True),
        x_label,
        "Share of each group",
        WIDTH,
        HEIGHT,
        right=16.0,
        top=top,
    )
    inside = []
    for index, share in enumerate(shares.values()):
        x = frame.across(np.repeat(bounds, 2))
        y = frame.down(np.concatenate(([0.0], np.repeat(share, 2), [0.0])))
        colour = legend.colour(index)
        inside.append(path(x, y, f"area f{colour}", close=True))
        inside.append(path(x, y, f"line s{colour}", dashes=legend.dash(index)))
    note = Markup() if mark is None else _upright(frame, mark, mark_name)
    return frame.draw(title, frame.inside(*inside), drawn, note)


def _upright(frame: Frame, value: float, name: str) -> Markup:
    """Draw a line at a value of the x axis, with its name on the side with more room."""
    place = float(frame.x.place(value))
    if not 0 <= place <= 1:
        return Markup()
    x = float(frame.across(value))
    base = frame.above + frame.inner_height
    anchor, shift = ("end", -5) if place > 0.6 else ("start", 5)
    return join(
        (
            line(x, frame.above, x, base, "guide"),
            label(name, x + shift, frame.above + 10, "halo", anchor=anchor),
        )
    )
