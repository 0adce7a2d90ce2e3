"""Colours can be read on their ground, by day and by night, and told apart by the colour-blind."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from prototag.report import theme

THEMES = pytest.mark.parametrize("colours", [theme.LIGHT, theme.DARK], ids=["light", "dark"])
# Machado, Oliveira and Fernandes (2009), severity 1: what is seen, in linear sRGB.
PROTAN = [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]  # fmt: skip  # noqa: E501
DEUTAN = [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]  # fmt: skip  # noqa: E501


def linear(colour: str) -> np.ndarray:
    value = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    """As WCAG 2 defines it."""
    low, high = sorted(float(linear(c) @ [0.2126, 0.7152, 0.0722]) for c in (one, other))
    return (high + 0.05) / (low + 0.05)


def lab(rgb: np.ndarray) -> np.ndarray:
    to_xyz = np.array(
        [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    )
    x, y, z = np.cbrt(np.clip(to_xyz @ np.clip(rgb, 0, 1), 0.009, None) / [0.9505, 1, 1.089])
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@THEMES
def test_letters_have_the_contrast_that_wcag_asks_for(colours):
    for ground in ("ground", "panel"):
        for ink in ("ink", "muted", "accent"):
            assert contrast(colours[ink], colours[ground]) >= 4.5, (ink, ground)
    for kind in ("right", "wrong", "missing"):
        assert contrast(colours[kind], colours["ground"]) >= 4.5
        assert contrast(colours[kind], colours[f"{kind}-ground"]) >= 4.5
    assert contrast(colours["ink"], colours["bar"]) >= 4.5


@THEMES
def test_lines_stand_out_and_their_names_can_be_read(colours):
    for number in range(theme.SERIES_COLOURS):
        assert contrast(colours[f"c{number}"], colours["ground"]) >= 4.5


@THEMES
@pytest.mark.parametrize("seen", [np.eye(3), PROTAN, DEUTAN], ids=["all", "protan", "deutan"])
def test_series_are_distinguished(colours, seen):
    shown = [lab(np.asarray(seen) @ linear(colours[f"c{n}"])) for n in range(theme.SERIES_COLOURS)]
    for one, other in combinations(range(3), 2):
        assert np.linalg.norm(shown[one] - shown[other]) > 20, (one, other)
    for one, other in combinations(range(theme.SERIES_COLOURS), 2):
        assert np.linalg.norm(shown[one] - shown[other]) > 10, (one, other)


def test_both_themes_name_the_same_colours_and_style_uses_no_other():
    assert theme.LIGHT.keys() == theme.DARK.keys()
    written = theme.inline_colours(theme.page_style().replace("var(--share)", ""), theme.LIGHT)
    assert "var(" not in written


def test_style_asks_for_nothing_from_elsewhere():
    for part in (theme.page_style(), theme.script()):
        assert "url(" not in part
        assert "@import" not in part
        assert "</" not in part  # would end the element it stands in
        assert "http" not in part
