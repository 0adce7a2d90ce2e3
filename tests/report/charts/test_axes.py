"""Ticks are round, inside, apart; numbers are written as people write them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prototag.report.charts.axes import TICK_FONT_SIZE, Axis, number, shorten, text_width

ends = st.floats(-1e6, 1e6).map(lambda value: round(value, 4))
spans = st.floats(1e-3, 1e6)


@given(ends, spans, st.floats(60, 900))
def test_linear_ticks_are_round_inside_and_apart(low, span, room):
    axis = Axis(low, low + span)
    _check(axis, room)


@given(st.floats(-6, 6), st.floats(0.05, 12), st.floats(120, 900))
def test_logarithmic_ticks_are_inside_and_apart(start, decades, room):
    _check(Axis(10.0**start, 10.0 ** (start + decades), log=True), room)


def _check(axis: Axis, room: float) -> None:
    ticks = axis.ticks(room)
    assert len(ticks) >= 2
    places = axis.place([tick.value for tick in ticks])
    assert places.min() >= -0.01
    assert places.max() <= 1.01
    assert (np.diff(places) > 0).all()
    if len(ticks) > 2:  # two ends are the last resort
        half = [text_width(tick.label, TICK_FONT_SIZE) / 2 for tick in ticks]
        gaps = np.diff(places) * room
        assert all(g > a + b for g, a, b in zip(gaps, half, half[1:], strict=False))
        assert len({tick.label for tick in ticks}) == len(ticks)


def test_ticks_of_common_axes():
    def labels(axis, room=300):
        return [tick.label for tick in axis.ticks(room)]

    assert labels(Axis(0, 1, percent=True)) == ["0%", "20%", "40%", "60%", "80%", "100%"]
    assert labels(Axis(0, 0.1))[:3] == ["0.00", "0.02", "0.04"]
    assert labels(Axis(0, 10_000)) == ["0", "2,000", "4,000", "6,000", "8,000", "10,000"]
    assert labels(Axis(1, 1000, log=True)) == [
        "1", "3", "10", "30", "100", "300", "1,000",
    ]  # fmt: skip
    assert labels(Axis(1e-8, 1, log=True), 200) == ["10⁻⁸", "10⁻⁵", "0.01"]


def test_an_axis_around_values_ends_on_round_numbers_and_keeps_limits():
    axis = Axis.around([[0.13, np.nan], [0.87]])
    assert (axis.low, axis.high) == (0.0, 1.0)
    assert Axis.around([[3, 8]], (0, None)).low == 0
    assert Axis.around([[3.0]]).low < 3 < Axis.around([[3.0]]).high
    logarithmic = Axis.around([[0, -1, 5, 50]], log=True)
    assert (logarithmic.low, logarithmic.high) == (5, 50)
    empty = Axis.around([[np.nan]])
    assert empty.low < empty.high


def test_places():
    np.testing.assert_allclose(Axis(2, 4).place([2, 3, 4]), [0, 0.5, 1])
    np.testing.assert_allclose(Axis(1, 100, log=True).place([1, 10, 100]), [0, 0.5, 1])
    assert math.isnan(Axis(1, 100, log=True).place(0))


@pytest.mark.parametrize(("low", "high"), [(1, 1), (2, 1), (0, math.inf), (math.nan, 1)])
def test_an_axis_without_extent_is_refused(low, high):
    with pytest.raises(ValueError, match="two finite numbers, the lower first"):
        Axis(low, high)


def test_a_logarithmic_axis_from_zero_is_refused():
    with pytest.raises(ValueError, match=r"lower end above 0, or log=False"):
        Axis(0, 1, log=True)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0, "0"), (-0.0, "0"), (1234567, "1,234,567"), (0.5, "0.5"), (0.123456, "0.123"),
        (12.345, "12.3"), (99.99, "100.0"), (1e-6, "10⁻⁶"), (2.5e-6, "2.5×10⁻⁶"), (1e9, "10⁹"),
        (math.nan, "–"), (math.inf, "∞"), (-3.25, "-3.25"),
    ],
)  # fmt: skip
def test_numbers(value, words):
    assert number(value) == words


def test_numbers_follow_the_step():
    assert number(0.5, 0.25) == "0.50"
    assert number(3, 1) == "3"
    assert number(-0.0001, 0.1) == "0.0"


def test_long_text_is_cut_to_its_room():
    assert shorten("short", 100, 12) == "short"
    assert shorten("two\n words", 100, 12) == "two words"
    for words in ("a long name of a tag", "漢字" * 20, "🌊" * 30, "W" * 1000):
        cut = shorten(words, 60, 12)
        assert cut.endswith("…")
        assert text_width(cut, 12) <= 60
