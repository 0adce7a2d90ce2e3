"""Bars and distributions."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from prototag.report.charts.bar_charts import bars, histogram
from prototag.report.charts.frame import standalone


def widths(svg: str) -> list[float]:
    return [float(w) for w in re.findall(r'<rect x="[\d.]+" y="[\d.]+" width="([\d.]+)"', svg)]


def test_bars_are_as_long_as_their_values():
    svg = bars(["a", "b", "c"], [1.0, 0.5, np.nan], title="t", percent=True)
    long, half = widths(svg)
    assert np.isclose(half, long / 2, atol=0.02)
    assert "100%" in svg
    assert "nan" not in svg


def test_groups_have_a_legend_and_one_scale():
    svg = bars(["a"], {"one": [0.2], "two": [0.4]}, title="t")
    assert ">one<" in svg
    first, second = widths(svg)[-2:]
    assert np.isclose(second, 2 * first, atol=0.02)


def test_a_long_name_is_truncated_with_a_full_title():
    name = "<i>" + "long " * 200
    svg = bars([name], [1], title="t")
    assert "…" in svg
    title = ElementTree.fromstring(standalone(svg)).find(".//{*}title")
    assert title.text == name


def test_a_histogram_shows_shares_of_each_group():
    svg = histogram(
        [0, 1, 2], {"few": [1, 1], "many": [0, 900]}, title="t", mark=1.5, mark_name="threshold"
    )
    assert "100%" in svg
    assert ">threshold<" in svg
    assert svg.count('class="area') == 2
    assert ">far away<" not in histogram(
        [0, 1], {"a": [1]}, title="t", mark=7, mark_name="far away"
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bars([], [], title="t"), "0 names"),
        (lambda: bars(["a"], [1, 2], title="t"), "give one for each"),
        (lambda: bars(["a"], [-1], title="t"), "at least 0"),
        (lambda: histogram([0, 1], {"a": [1, 2]}, title="t"), "one count between each two edges"),
    ],
)
def test_what_does_not_fit_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
