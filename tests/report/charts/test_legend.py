"""Names of series: apart, inside, and not by colour alone."""

from __future__ import annotations

import re

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from prototag.report.charts import legend


@given(st.lists(st.floats(0, 300), min_size=1, max_size=8))
def test_names_at_ends_keep_their_order_and_distance(heights):
    drawn = legend.at_ends([str(i) for i in range(len(heights))], heights, 100, range(20, 220))
    found = re.findall(r'y="([-\d.]+)"[^>]*>(\d)<', drawn)
    places = np.array([float(y) for y, _ in found])
    order = [int(name) for _, name in found]
    assert (np.diff(np.asarray(heights)[order]) >= 0).all()
    assert (np.diff(places) >= legend.NAME_SPACING - 0.05).all()
    assert places.max() <= 224


def test_a_legend_wraps_and_tells_its_height():
    one, low = legend.above(["a", "b"], 400)
    many, high = legend.above([f"a name of some length {i}" for i in range(6)], 400)
    assert low < high
    assert one.count("<text") == 2
    assert many.count("<text") == 6


def test_series_differ_in_more_than_colour():
    shapes = {re.sub(r"f\d", "", legend.marker(i, 0, 0)) for i in range(4)}
    assert len(shapes) == 4
    assert len({legend.dash(i) for i in range(6)}) == 6
