"""Estimates of memory grow with every size, and the paper's largest collection fits a laptop."""

from __future__ import annotations

import pytest

from prototag.mcdl.memory_estimates import estimate_mcdl

PAPER = {"n": 87_388, "m": 200, "t": 568, "k": 20_000, "nonzeros": 20}


def test_the_largest_collection_of_the_paper_fits_six_gigabytes():
    assert estimate_mcdl(**PAPER).peak < 6 * 2**30


@pytest.mark.parametrize("name", PAPER)
def test_more_of_anything_needs_more(name):
    assert estimate_mcdl(**{**PAPER, name: 2 * PAPER[name]}).peak > estimate_mcdl(**PAPER).peak
