"""Parts of a score, end to end."""

from __future__ import annotations

import math
import re

import numpy as np

from prototag.report.charts.contributions import shares

RECT = re.compile(r'<rect x="([\d.]+)" y="[\d.]+" width="([\d.]+)".*?<title>(.*?)</title>')


def segments(svg: str) -> dict[str, tuple[float, float]]:
    return {name: (float(x), float(x) + float(wide)) for x, wide, name in RECT.findall(svg)}


def test_parts_are_laid_end_to_end_in_proportion():
    svg = shares([("a", 0.4), ("b", 0.2)], 0.2, 0.5, title="t")
    (a, b, rest) = segments(svg).values()
    assert np.isclose(a[1], b[0], atol=0.02)
    assert np.isclose(b[1], rest[0], atol=0.02)
    assert np.isclose(a[1] - a[0], 2 * (b[1] - b[0]), atol=0.05)
    assert "score 0.80" in svg
    assert "threshold 0.50" in svg


def test_what_speaks_against_lies_on_the_other_side_of_zero():
    svg = shares([("for", 0.5), ("against", -0.2)], 0.0, 0.1, title="t")
    found = segments(svg)
    assert np.isclose(found["against: -0.20"][1], found["for: 0.50"][0], atol=0.02)
    assert "score 0.30" in svg


def test_bars_of_several_scores_can_be_compared():
    (alone, _), (beside, _) = (
        segments(shares([("a", 0.4)], 0.0, 0.1, title="t", longest=longest)).values()
        for longest in (0.0, 0.8)
    )
    assert np.isclose(beside[1] - beside[0], (alone[1] - alone[0]) / 2, atol=0.02)


def test_odd_numbers_make_a_figure():
    for parts, rest, threshold in (([], 0.0, 0.0), ([("a", 1.0)], -2.0, math.inf), ([], 0, -1)):
        svg = shares(parts, rest, threshold, title="t")
        assert "nan" not in svg
        assert ("threshold" in svg) == math.isfinite(threshold)
