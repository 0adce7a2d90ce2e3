"""Precision and recall, promise and outcome."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from prototag.report.charts.line_charts import Series
from prototag.report.charts.reliability_charts import precision_recall, reliability, wilson


def test_the_point_of_the_given_tags_lies_on_its_place():
    curve = Series("all", [0, 1], [1, 0])
    svg = precision_recall([curve, curve], title="t", point=(0.5, 0.5), point_name="as given")
    assert "as given: recall 50%, precision 50%" in svg
    assert svg.count("faint") == 4
    with pytest.raises(ValueError, match="no curves"):
        precision_recall([], title="t")


@pytest.mark.parametrize(("hits", "n"), [(0, 5), (3, 7), (90, 100), (4, 4)])
def test_intervals_are_those_of_scipy(hits, n):
    judge = binomtest(hits, n).proportion_ci(0.95, method="wilson")
    np.testing.assert_allclose(wilson(hits / n, n), judge, atol=1e-4)


def test_bins_without_pairs_are_skipped():
    svg = reliability([0.1, np.nan, 0.9], [0.2, np.nan, 0.8], [100, 0, 10], title="t")
    assert svg.count("<circle") == 2
    assert "estimated 90%, right 80% of 10" in svg
    assert "nan" not in svg
    assert "as estimated" in reliability([], [], [], title="t")


def test_arrays_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match="three arrays of one length"):
        reliability([0.1], [0.1, 0.2], [1], title="t")
