"""Where values lie on the paper, and figures as files."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np

from prototag.report.charts.axes import Axis
from prototag.report.charts.frame import Frame, path, standalone


def frame(**options) -> Frame:
    return Frame(Axis(0, 10), Axis(0, 1, percent=True), "x", "y", **options)


def test_values_lie_inside_with_room_for_ticks():
    f = frame()
    np.testing.assert_allclose(f.across([0, 10]), [f.left, f.width - f.right])
    top, bottom = f.down([1, 0])
    assert f.above == top < bottom < f.height - 30


def test_a_path_breaks_where_a_point_has_no_place():
    drawn = path([0, 1, 2, 3, np.nan], [0, 1, np.nan, 3, 4], "line")
    assert 'd="M0.0 0.0L1.0 1.0M3.0 3.0"' in drawn


def test_a_figure_alone_is_xml_with_colours_written_out():
    for dark in (False, True):
        svg = standalone(frame().draw("a <title> > & more"), dark=dark)
        root = ElementTree.fromstring(svg)
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert root.get("aria-label") == "a <title> > & more"
        assert "var(" not in svg
    assert "#12161b" in svg
