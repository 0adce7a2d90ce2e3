"""The figures of an evaluation."""

from __future__ import annotations

import re

import numpy as np

from prototag.evaluation.evaluate import evaluate
from prototag.report.pages import evaluation_charts

from .judged import evaluation


def test_every_figure_is_there_and_has_no_hole():
    (block,) = evaluation_charts.blocks(evaluation()[0])
    assert block.count('class="chart"') == 5
    assert "nan" not in block
    assert "Are its probabilities right?" in block
    assert "The numbers" in block


def test_the_mean_over_tags_begins_at_its_best_precision():
    """At the first cuts one tag of four is given, rightly: a mean of 25 % would say otherwise."""
    result = evaluate(np.eye(4), np.eye(4) + np.arange(4) / 10, 0.5, tags=list("abcd"))
    assert result.curve.precision[0] == 0.25
    (block,) = evaluation_charts.blocks(result)
    together, mean = re.findall(r'<path d="([^"]*)" class="line s[01]"', block)[:2]
    top = together.split()[1].partition("L")[0]
    assert mean.split()[1].partition("L")[0] == top


def test_figures_without_data_are_skipped():
    result = evaluate(np.eye(2, dtype=int), np.eye(2), 0.5, tags=["a", "b"])
    (block,) = evaluation_charts.blocks(result)
    assert block.count('class="chart"') == 2
