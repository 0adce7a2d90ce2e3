"""Small scored collections for Hypothesis, and the measures of one cut counted cell by cell."""

from __future__ import annotations

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

# The same examples in every run, and no clock: the machine may be busy.
steady = settings(deadline=None, derandomize=True)


@st.composite
def collections(draw, max_n=12, max_t=5):
    """Tags and scores with many ties, absent tags, zeros and negative numbers."""
    n, t = draw(st.integers(1, max_n)), draw(st.integers(1, max_t))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    Y = rng.random((n, t)) < draw(st.sampled_from([0.0, 0.1, 0.4, 1.0]))
    levels = draw(st.sampled_from([1, 2, 4, 1000]))
    scores = rng.integers(-(levels // 2), levels + 1, (n, t)) / levels
    return Y, scores.astype(draw(st.sampled_from([np.float32, np.float64])))


def count_by_hand(Y, predicted):
    """Mean precision and mean recall over tags."""
    precision, recall = [], []
    for true, guess in zip(Y.T, predicted.T, strict=True):
        hits = sum(bool(a and b) for a, b in zip(true, guess, strict=True))
        precision.append(hits / sum(guess) if any(guess) else 0.0)
        recall.append(hits / sum(true) if any(true) else 0.0)
    return np.mean(precision), np.mean(recall)
