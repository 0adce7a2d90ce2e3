"""Axes of charts: scales, tick positions and number formatting."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

TICK_FONT_SIZE = 12.0  # in the units of a figure
_STEPS = (1.0, 2.0, 2.5, 5.0)
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_NARROW = frozenset("fijlrtI.,:;'|!()[] ")
_WIDE = frozenset("mwMW%@")


class Tick(NamedTuple):
    value: float
    label: str


@dataclass(frozen=True)
class Axis:
    """A linear or logarithmic range of values; with ``percent``, 0.5 is written as 50%."""

    low: float
    high: float
    log: bool = False
    percent: bool = False

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise ValueError(
                f"an axis from {self.low} to {self.high}: give two finite numbers, the lower first."
            )
        if self.log and self.low <= 0:
            raise ValueError(
                f"a logarithmic axis from {self.low}: give a lower end above 0, or log=False."
            )

    @classmethod
    def around(
        cls,
        values: Iterable[Any],
        limits: tuple[float | None, float | None] | None = None,
        *,
        log: bool = False,
        percent: bool = False,
    ) -> Axis:
        """Return an axis that contains all finite values, with round or given limits."""
        every = np.concatenate([np.asarray(v, np.float64).ravel() for v in values] or [np.empty(0)])
        every = every[np.isfinite(every) & (every > 0 if log else True)]
        low, high = (float(every.min()), float(every.max())) if every.size else (1.0, 2.0)
        fixed = limits or (None, None)
        low = low if fixed[0] is None else fixed[0]
        high = high if fixed[1] is None else fixed[1]
        if log:
            low, high = (low, high) if low < high else (low / 2, low * 2)
            return cls(low, high, log=True, percent=percent)
        if low >= high:
            room = abs(low) / 2 or 0.5
            low, high = (
                low if fixed[0] is not None else high - room,
                high if fixed[1] is not None else low + room,
            )
        step = _step((high - low) / 5)
        if fixed[0] is None:
            low = math.floor(low / step + 1e-9) * step
        if fixed[1] is None:
            high = math.ceil(high / step - 1e-9) * step
        return cls(low, high, percent=percent)

    def place(self, values: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Map values to 0 at the lower limit and 1 at the upper; NaN if their log is undefined."""
        x = np.asarray(values, np.float64)
        if not self.log:
            return (x - self.low) / (self.high - self.low)
        with np.errstate(divide="ignore", invalid="ignore"):
            where = np.log(np.where(x > 0, x, np.nan) / self.low)
        return where / math.log(self.high / self.low)

    def ticks(self, room: float, *, upright: bool = False) -> list[Tick]:
        """Return round tick values whose labels fit into ``room`` without overlap."""
        gap = 3.2 * TICK_FONT_SIZE if upright else 1.6 * TICK_FONT_SIZE
        for values, step in self._candidates():
            ticks = [Tick(value, self.label(value, step)) for value in values]
            places = [float(self.place(tick.value)) * room for tick in ticks]
            sizes = [gap if upright else text_width(t.label, TICK_FONT_SIZE) + gap for t in ticks]
            fits = all(
                right - left >= (a + b) / 2
                for left, right, a, b in zip(places, places[1:], sizes, sizes[1:], strict=False)
            )
            if fits:
                return ticks
        return [Tick(end, self.label(end)) for end in (self.low, self.high)]

    def _candidates(self) -> Iterable[tuple[list[float], float]]:
        """Yield ever fewer round values, with the step between them (0 on a logarithmic axis)."""
        decades = math.log10(self.high / self.low) if self.log else 0.0
        if decades >= 1:
            first = math.floor(math.log10(self.low))
            last = math.ceil(math.log10(self.high))
            for skip, parts in ((1, (1, 2, 5)), (1, (1, 3)), *((s, (1,)) for s in range(1, 40))):
                values = [p * 10.0**e for e in range(first, last + 1, skip) for p in parts]
                inside = [v for v in values if self.low * 0.999 <= v <= self.high * 1.001]
                if len(inside) >= 2:
                    yield inside, 0.0
            return
        step = _step((self.high - self.low) / 10)
        for _ in range(12):
            first = math.ceil(self.low / step - 1e-9)
            last = math.floor(self.high / step + 1e-9)
            if last > first:
                yield [number * step for number in range(first, last + 1)], step
            step = _step(step * 1.01)

    def label(self, value: float, step: float = 0.0) -> str:
        if self.percent:
            return number(100 * value, 100 * step) + "%"
        return number(value, step)


def _step(least: float) -> float:
    """Round up to 1, 2, 2.5 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(s * power for s in (*_STEPS, 10.0) if s * power >= least * (1 - 1e-9))


def number(value: float, step: float = 0.0) -> str:
    """Format a number with the precision of ``step`` (0: three significant digits)."""
    if not math.isfinite(value):
        return "–" if math.isnan(value) else ("∞" if value > 0 else "-∞")
    size = abs(value)
    if size and (size < 1e-4 or size >= 1e9):
        exponent = math.floor(math.log10(size) + 1e-9)
        factor = value / 10.0**exponent
        power = "10" + str(exponent).translate(_SUPERSCRIPT)
        return power if math.isclose(factor, 1) else f"{factor:.3g}×{power}"
    if step:
        digits = max(0, -math.floor(math.log10(step) + 1e-9))
        digits += not math.isclose(round(step, digits), step, rel_tol=1e-6)
    else:
        digits = max(0, 2 - math.floor(math.log10(size))) if 0 < size < 100 else 0
        digits = next((d for d in range(digits) if math.isclose(round(value, d), value)), digits)
    written = f"{value:,.{digits}f}"
    return written.lstrip("-") if not written.strip("-0.,") else written


def text_width(text: str, size: float) -> float:
    """Estimate the width of a text in a sans-serif font, from above."""
    return size * sum(map(_letter_width, text))


def _letter_width(letter: str) -> float:
    if letter in _NARROW:
        return 0.36
    if letter in _WIDE:
        return 0.92
    if unicodedata.combining(letter):
        return 0.0
    if unicodedata.east_asian_width(letter) in "WF" or ord(letter) > 0x1F000:
        return 1.1
    return 0.68 if letter.isupper() else 0.6


def shorten(text: str, width: float, size: float) -> str:
    """Truncate a text to a width, with an ellipsis."""
    text = " ".join(text.split())
    if text_width(text, size) <= width:
        return text
    room = width - text_width("…", size)
    kept = 0
    while kept < len(text) and (room := room - text_width(text[kept], size)) >= 0:
        kept += 1
    return text[:kept].rstrip() + "…"
