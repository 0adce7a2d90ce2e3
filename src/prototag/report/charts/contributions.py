"""Chart of a score as the sum of its contributions, with the threshold."""

from __future__ import annotations

import math
from collections.abc import Sequence

from prototag.report.charts.axes import Axis, text_width
from prototag.report.charts.frame import LABEL, WIDTH, figure, label, line
from prototag.report.html import Markup, element

_TOP = 22.0
_HIGH = 20.0
_EDGE = 6.0


def shares(
    parts: Sequence[tuple[str, float]],
    rest: float,
    threshold: float,
    *,
    title: str,
    rest_name: str = "the rest",
    longest: float = 0.0,
) -> Markup:
    """Draw contributions as a stacked bar; negative ones are on the other side of zero.

    Parameters
    ----------
    parts : names and what they give (less than 0: take)
    rest : what no part gives, drawn lighter
    threshold : an upright line, if finite
    longest : the largest of several scores that are to be compared
    """
    every = [*((name, value, "f0") for name, value in parts), (rest_name, rest, "area f0")]
    above = sum(value for _, value, _ in every if value > 0)
    below = sum(value for _, value, _ in every if value < 0)
    limit = [threshold] if math.isfinite(threshold) else []
    low = min(below, 0.0, *limit)
    high = max(above, longest, *limit)
    axis = Axis(low, high if high > low else low + 1.0)

    def across(value: float) -> float:
        return _EDGE + float(axis.place(value)) * (WIDTH - 2 * _EDGE)

    drawn = []
    right = 0.0
    left = 0.0
    for name, value, kind in every:
        start = right if value > 0 else left + value
        if value > 0:
            right += value
        else:
            left += value
        drawn.append(
            element(
                "rect",
                element("title", f"{name}: {value:.2f}"),
                x=across(start),
                y=_TOP,
                width=across(start + abs(value)) - across(start),
                height=_HIGH,
                class_=f"segment {kind}",
            )
        )
    base = _TOP + _HIGH
    drawn.append(line(across(0), _TOP - 3, across(0), base + 3, "axis"))
    score = above + below
    words = f"score {score:.2f}"
    drawn.append(line(across(score), base, across(score), base + 4, "axis"))
    drawn.append(label(words, _kept(across(score), words), base + 16, anchor="middle"))
    for value in limit:
        words = f"threshold {value:.2f}"
        drawn.append(line(across(value), _TOP, across(value), base, "gap"))
        drawn.append(line(across(value), _TOP - 4, across(value), base + 4, "cut"))
        place = _kept(across(value), words)
        drawn.append(label(words, place, _TOP - 8, "muted", anchor="middle"))
    return figure(title, WIDTH, base + 20, *drawn)


def _kept(x: float, words: str) -> float:
    """Return the position of a label that stays inside the figure."""
    half = text_width(words, LABEL) / 2 + 1
    return min(max(x, half), WIDTH - half)
