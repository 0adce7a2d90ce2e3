"""Figures as SVG that follow the theme of their page: arrays in, markup out.

``axes`` places values and writes numbers, ``frame`` draws what surrounds a figure, ``legend`` tells
lines apart. The figures are in ``charts`` (lines, points), ``bars``, ``curves`` and ``shares``.
"""
