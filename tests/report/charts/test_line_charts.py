"""Lines and points: what is drawn, where, and what is refused."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from prototag.report.charts.axes import text_width
from prototag.report.charts.frame import LABEL, standalone
from prototag.report.charts.line_charts import Series, lines, scatter


def texts(svg: str) -> list[tuple[str, float, float, str]]:
    root = ElementTree.fromstring(standalone(svg))
    return [
        (node.text, float(node.get("x")), float(node.get("y")), node.get("text-anchor") or "start")
        for node in root.iter("{http://www.w3.org/2000/svg}text")
    ]


def boxes(svg: str) -> list[tuple[float, ...]]:
    shift = {"start": 0.0, "middle": 0.5, "end": 1.0}
    found = []
    for words, x, y, anchor in texts(svg):
        wide = text_width(words, LABEL)
        found.append((x - shift[anchor] * wide, y - 9, x + (1 - shift[anchor]) * wide, y))
    return found


def clash(svg: str) -> list[tuple[str, str]]:
    every, words = boxes(svg), [t[0] for t in texts(svg)]
    return [
        (words[i], words[j])
        for i, a in enumerate(every)
        for j, b in enumerate(every[:i])
        if a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
    ]


k = np.array([250, 1000, 4000, 12000])


def test_names_stand_at_the_ends_of_lines_and_apart():
    svg = lines(
        [Series(f"name {i}", k, 40 + np.log(k) + i / 10) for i in range(5)],
        title="t",
        x_label="prototypes",
        y_label="F1",
        x_log=True,
    )
    assert not clash(svg)
    named = [t for t in texts(svg) if t[0].startswith("name")]
    assert [words for words, *_ in sorted(named, key=lambda t: -t[2])] == [
        f"name {i}" for i in range(5)
    ]
    assert all(x + text_width(words, LABEL) <= 400 for words, x, *_ in named)


def test_long_names_go_into_a_legend():
    svg = lines(
        [Series(f"a rather long name of a method, {i}", k, k + i) for i in range(4)],
        title="t",
        y_label="F1",
    )
    assert not clash(svg)
    assert svg.count("<polygon") == (1 + len(k)) * 3  # in legend and plot; the first has circles


def test_points_and_bands_are_drawn_where_they_belong():
    svg = lines([Series("a", [0, 10], [0.0, 1.0], [0.0, 0.5], [0.0, 1.0])], title="t")
    (line,) = re.findall(r'd="M([\d.]+) ([\d.]+)L([\d.]+) ([\d.]+)" class="line', svg)
    circles = re.findall(r'cx="([\d.]+)" cy="([\d.]+)"', svg)
    assert np.allclose(np.float64(circles).ravel(), np.float64(line), atol=0.06)
    assert 'class="band f0"' in svg
    assert "<title>a: 10, 1</title>" in svg


def test_points_that_have_no_place_are_skipped():
    svg = lines([Series("a", [0, 1, 2], [1, np.nan, 3])], title="t")
    assert svg.count("<circle") == 2
    svg = lines([Series("a", [1, 10, 100], [1, 0, 3])], title="t", y_log=True)
    assert svg.count("<circle") == 2
    assert "nan" not in svg


def test_scatter_names_as_many_as_find_room_without_touching():
    rng = np.random.default_rng(0)
    names = [f"tag {i}" for i in range(80)]
    svg = scatter(rng.random(80), rng.random(80), names=names, title="t", x_label="x", y_label="y")
    assert svg.count("<circle") == 80
    assert not clash(svg)
    assert 5 < sum(words.startswith("tag") for words, *_ in texts(svg)) <= 40


def test_hostile_names_are_text():
    hostile = "</svg><script>alert(1)</script>"
    for svg in (
        lines([Series(hostile, k, k), Series("b", k, k)], title=hostile, x_label=hostile),
        scatter(k, k, names=[hostile] * 4, title=hostile, y_label=hostile),
    ):
        assert "<script" not in svg
        ElementTree.fromstring(standalone(svg))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: lines([], title="t"), "no series to draw"),
        (lambda: Series("a", [1, 2], [1]), "'a' has shapes .* arrays of one length"),
        (lambda: Series("a", [1], [1], low=[0]), "half a band: give both"),
        (lambda: scatter([1, 2], [1], title="t"), "two arrays of one length"),
        (lambda: scatter([], [], title="t"), "not empty"),
        (lambda: scatter([1], [1], names=["a", "b"], title="t"), "2 names for 1 points"),
    ],
)
def test_what_does_not_fit_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
