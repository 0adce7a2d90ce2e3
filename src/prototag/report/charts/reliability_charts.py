"""Precision-recall curves and reliability diagrams."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from prototag.report.charts import legend
from prototag.report.charts.axes import Axis, number
from prototag.report.charts.frame import Floats, Frame, label, line, path
from prototag.report.charts.line_charts import Series
from prototag.report.html import Markup, element, join

# Both axes go from 0 to 100%, so charts are nearly square.
_WIDTH = 400.0
_HEIGHT = 320.0
_STRIP = 46.0


def precision_recall(
    curves: Sequence[Series],
    *,
    title: str,
    point: tuple[float, float] | None = None,
    point_name: str = "",
) -> Markup:
    """Draw precision (y) by recall (x), over lines of equal F1.

    ``point`` is (recall, precision) of the tags as they are given.
    """
    if not curves:
        raise ValueError("no curves to draw: give at least one.")
    drawn = Markup()
    top = 0.0
    if len(curves) > 1:
        drawn, top = legend.above([curve.name for curve in curves], _WIDTH)
    share = Axis(0.0, 1.0, percent=True)
    frame = Frame(share, share, "Recall", "Precision", _WIDTH, _HEIGHT, right=44.0, top=top)
    inside = [_equal_f1(frame, f1) for f1 in (0.2, 0.4, 0.6, 0.8)]
    for index, curve in enumerate(curves):
        kind = f"line s{legend.colour(index)}"
        x = frame.across(curve.x)
        y = frame.down(curve.y)
        inside.append(path(x, y, kind, dashes=legend.dash(index)))
    note = Markup() if point is None else _point(frame, *point, point_name)
    edge = frame.left + frame.inner_width
    names = [
        label(f"F1 {f1:.0%}".replace("%", "").strip(), edge + 3, _f1_height(frame, f1), "muted")
        for f1 in (0.2, 0.4, 0.6, 0.8)
    ]
    return frame.draw(title, frame.inside(*inside), *names, drawn, note)


def _point(frame: Frame, recall: float, precision: float, name: str) -> Markup:
    x = float(frame.across(recall))
    y = float(frame.down(precision))
    title = f"{name}: recall {recall:.0%}, precision {precision:.0%}"
    side, anchor = (-9, "end") if recall > 0.55 else (9, "start")
    words = label(name, x + side, max(y - 7, frame.above + 9), "halo", anchor=anchor)
    return join((legend.marker(0, x, y, size=5.0, title=title), words))


def _equal_f1(frame: Frame, f1: float) -> Markup:
    recall = np.linspace(f1 / (2 - f1), 1.0, 60)
    return path(frame.across(recall), frame.down(f1 * recall / (2 * recall - f1)), "faint")


def _f1_height(frame: Frame, f1: float) -> float:
    return float(frame.down(f1 / (2 - f1))) + 3.8


def reliability(
    predicted: npt.ArrayLike,
    observed: npt.ArrayLike,
    pairs: npt.ArrayLike,
    *,
    title: str,
) -> Markup:
    """Draw the share of correct tags by estimated probability, with 95% intervals.

    A strip below shows the number of pairs of image and tag in each bin, on a logarithmic scale.
    Bins without pairs (NaN) are not drawn.
    """
    x, y, n = (np.asarray(values, np.float64) for values in (predicted, observed, pairs))
    if not x.shape == y.shape == n.shape or x.ndim != 1:
        raise ValueError(
            f"predicted, observed and pairs have shapes {x.shape}, {y.shape}, {n.shape}: give "
            "three arrays of one length."
        )
    used = np.isfinite(x) & np.isfinite(y) & (n > 0)
    x, y, n = x[used], y[used], n[used]
    share = Axis(0.0, 1.0, percent=True)
    frame = Frame(
        share,
        share,
        "Estimated probability",
        "Share that was right",
        _WIDTH,
        _HEIGHT + 30,
        right=18.0,
        bottom=_STRIP,
    )
    px = frame.across(x)
    py = frame.down(y)
    low, high = wilson(y, n)
    ideal = path(frame.across([0, 1]), frame.down([0, 1]), "guide")
    whiskers = [
        line(a, float(frame.down(b)), a, float(frame.down(c)), "whisker s0")
        for a, b, c in zip(px, low, high, strict=True)
    ]
    dots = [
        legend.marker(0, a, b, size=4.2, title=f"estimated {u:.0%}, right {v:.0%} of {c:,.0f}")
        for a, b, u, v, c in zip(px, py, x, y, n, strict=True)
    ]
    words = label("as estimated", *_beside_diagonal(frame), "muted halo", anchor="end")
    inside = frame.inside(ideal, path(px, py, "line s0"), *whiskers)
    return frame.draw(title, inside, words, *dots, _strip(px, n, _HEIGHT + 26.0))


def _beside_diagonal(frame: Frame) -> tuple[float, float]:
    return float(frame.across(0.84)), float(frame.down(0.89))


def _strip(px: Floats, n: Floats, base: float) -> Markup:
    room = _STRIP - 18
    largest = np.log10(max(float(n.max(initial=1.0)), 10.0))
    parts = [label("Pairs of image and tag", 2.0, base - room - 4, "muted")]
    for x, count in zip(px, n, strict=True):
        high = max(1.5, room * float(np.log10(max(count, 1.0)) / largest))
        title = element("title", f"{number(float(count))} pairs")
        parts.append(
            element(
                "rect", title, x=float(x) - 8, y=base - high, width=16.0, height=high, class_="f5"
            )
        )
    return join(parts)


def wilson(share: npt.ArrayLike, n: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Return the 95% Wilson interval of a share."""
    z = 1.96
    p, n = np.asarray(share, np.float64), np.asarray(n, np.float64)
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * np.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return np.maximum(middle - half, 0.0), np.minimum(middle + half, 1.0)
