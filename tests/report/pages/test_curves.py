"""The figures of an evaluation."""

from __future__ import annotations

import numpy as np

from prototag.evaluation.evaluate import evaluate
from prototag.report.pages import curves

from .judged import evaluation


def test_every_figure_is_there_and_has_no_hole():
    (block,) = curves.blocks(evaluation()[0])
    assert block.count('class="chart"') == 5
    assert "nan" not in block
    assert "Do its probabilities hold?" in block
    assert "The numbers" in block


def test_figures_without_data_are_left_out():
    result = evaluate(np.eye(2, dtype=int), np.eye(2), 0.5, tags=["a", "b"])
    (block,) = curves.blocks(result)
    assert block.count('class="chart"') == 2
