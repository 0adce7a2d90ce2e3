"""Line charts and scatter plots as SVG with the colours of the page.

Every function takes arrays and gives one figure; ``title`` is what a screen reader says of it.
:func:`~prototag.report.standalone` makes a file of its own of any of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from prototag.report.charts import legend
from prototag.report.charts.axes import Axis, number, text_width
from prototag.report.charts.frame import HEIGHT, LABEL, WIDTH, Floats, Frame, label, path
from prototag.report.html import Markup, join

_MAX_NAME_SHARE = 0.3  # of the width, for names at the ends of lines
_MAX_LABELS = 40  # labelled points


@dataclass(frozen=True)
class Series:
    """A line with its name, points and an optional confidence band."""

    name: str
    x: npt.ArrayLike
    y: npt.ArrayLike
    low: npt.ArrayLike | None = None
    high: npt.ArrayLike | None = None

    def __post_init__(self) -> None:
        sizes = {
            field: np.shape(values)
            for field, values in vars(self).items()
            if field != "name" and values is not None
        }
        if len(set(sizes.values())) != 1 or len(sizes["x"]) != 1:
            raise ValueError(
                f"the series {self.name!r} has shapes {sizes}: give arrays of one length."
            )
        if (self.low is None) != (self.high is None):
            raise ValueError(f"the series {self.name!r} has half a band: give both low and high.")


def lines(
    series: Sequence[Series],
    *,
    title: str,
    x_label: str = "",
    y_label: str = "",
    x_log: bool = False,
    y_log: bool = False,
    y_percent: bool = False,
) -> Markup:
    """Draw lines through points, with names at their ends or, if these are long, in a legend."""
    _some(series, "series")
    x = Axis.around((s.x for s in series), log=x_log)
    heights = [v for s in series for v in (s.y, s.low, s.high) if v is not None]
    y = Axis.around(heights, log=y_log, percent=y_percent)
    names = [s.name for s in series]
    longest = max(text_width(name, LABEL) for name in names) + 9
    direct = len(series) > 1 and longest <= _MAX_NAME_SHARE * WIDTH and len(series) <= 8
    drawn = Markup()
    top = 0.0
    if len(series) > 1 and not direct:
        drawn, top = legend.above(names, WIDTH, markers=True)
    frame = Frame(x, y, x_label, y_label, WIDTH, HEIGHT, right=longest if direct else 14.0, top=top)
    plotted = [_line(frame, index, one) for index, one in enumerate(series)]
    dots = [_markers(frame, index, one) for index, one in enumerate(series)]
    if direct:
        ends = [_last(frame.down(s.y)) for s in series]
        span = range(round(frame.above), round(frame.above + frame.inner_height))
        drawn = legend.at_ends(names, ends, frame.left + frame.inner_width, span)
    return frame.draw(title, frame.inside(*plotted), *dots, drawn)


def _line(frame: Frame, index: int, series: Series) -> Markup:
    across = frame.across(series.x)
    parts = []
    if series.low is not None and series.high is not None:
        low = frame.down(series.low)
        high = frame.down(series.high)
        solid = np.isfinite(across + low + high)
        around = np.concatenate((across[solid], across[solid][::-1]))
        edge = np.concatenate((low[solid], high[solid][::-1]))
        parts.append(path(around, edge, f"band f{legend.colour(index)}", close=True))
    parts.append(path(across, frame.down(series.y), f"line s{legend.colour(index)}"))
    return join(parts)


def _markers(frame: Frame, index: int, series: Series) -> Markup:
    x = np.asarray(series.x, np.float64)
    y = np.asarray(series.y, np.float64)
    within = _within(frame, x, y)
    points = zip(x[within], y[within], frame.across(x)[within], frame.down(y)[within], strict=True)
    return join(
        legend.marker(index, a, b, title=_title(frame, series.name, u, v)) for u, v, a, b in points
    )


def _title(frame: Frame, name: str, x: float, y: float) -> str:
    """Return the tooltip of a point, with three significant digits."""
    return f"{name}: {_value(frame.x, x)}, {_value(frame.y, y)}".lstrip(": ")


def _value(axis: Axis, value: float) -> str:
    return f"{number(round(100 * value, 1))}%" if axis.percent else number(value)


def _within(frame: Frame, x: Floats, y: Floats) -> npt.NDArray[np.bool_]:
    places = np.array([frame.x.place(x), frame.y.place(y)])
    with np.errstate(invalid="ignore"):
        return np.asarray(((places > -1e-6) & (places < 1 + 1e-6)).all(axis=0))


def _last(values: Floats) -> float:
    finite = values[np.isfinite(values)]
    return float(finite[-1]) if finite.size else 0.0


def _some(values: Sequence[Any], name: str) -> None:
    if not len(values):
        raise ValueError(f"no {name} to draw: give at least one.")


def scatter(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    *,
    title: str,
    names: Sequence[str] | None = None,
    x_label: str = "",
    y_label: str = "",
    x_log: bool = False,
    y_percent: bool = False,
    y_limits: tuple[float, float] | None = None,
) -> Markup:
    """Draw points and as many of their names, in order of importance, as fit."""
    across = np.asarray(x, np.float64)
    down = np.asarray(y, np.float64)
    if across.shape != down.shape or across.ndim != 1 or not across.size:
        raise ValueError(
            f"x has shape {across.shape}, y {down.shape}: give two arrays of one length, not empty."
        )
    if names is not None and len(names) != len(across):
        raise ValueError(f"{len(names)} names for {len(across)} points: give one for each.")
    frame = Frame(
        Axis.around([across], log=x_log),
        Axis.around([down], y_limits, percent=y_percent),
        x_label,
        y_label,
        WIDTH,
        HEIGHT,
    )
    shown = np.flatnonzero(_within(frame, across, down)).tolist()
    px = frame.across(across)
    py = frame.down(down)
    called = names or [""] * len(across)
    titles = [_title(frame, called[i], across[i], down[i]) for i in shown]
    dots = [
        legend.marker(0, px[i], py[i], size=3.2, title=words)
        for i, words in zip(shown, titles, strict=True)
    ]
    # Background points are drawn first, important ones on top.
    named = _names_apart(frame, px, py, shown, names) if names is not None else Markup()
    return frame.draw(title, *reversed(dots), named)


def _names_apart(
    frame: Frame, px: Floats, py: Floats, shown: list[int], names: Sequence[str]
) -> Markup:
    """Place names beside their points, each on the first free side of four."""
    right = frame.left + frame.inner_width
    base = frame.above + frame.inner_height
    taken = [(px[i] - 3, py[i] - 3, px[i] + 3, py[i] + 3) for i in shown]
    drawn: list[Markup] = []
    for i in shown:
        wide = text_width(names[i], LABEL)
        if len(drawn) >= _MAX_LABELS or wide > frame.inner_width / 2:
            continue
        sides = (
            (px[i] + 6, py[i] + 4),
            (px[i] - 6 - wide, py[i] + 4),
            (px[i] - wide / 2, py[i] - 7),
            (px[i] - wide / 2, py[i] + 15),
        )
        for left, bottom in sides:
            box = (left - 2, bottom - 9, left + wide + 2, bottom + 2)
            inside = box[0] >= frame.left and box[2] <= right and box[1] >= 0 and box[3] <= base
            if inside and not any(_overlap(box, other) for other in taken):
                taken.append(box)
                drawn.append(label(names[i], left, bottom, "halo"))
                break
    return join(drawn)


def _overlap(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
