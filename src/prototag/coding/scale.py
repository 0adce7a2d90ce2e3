"""Vectors of any length, brought to about unit length: what tolerances are made for."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from prototag.arrays import Doubles, Floats

Exponents = npt.NDArray[np.int32]
NEAR = 4.0  # lengths between 1 / NEAR and NEAR are left as they are
BRIDGE = 96  # powers of two that float32 codes can bridge


def exponents(rows: Floats) -> Exponents | None:
    """The powers of two next to the lengths of the rows; None where all lengths are about one.

    Rows of zeros have 0. Numbers that are not finite are never about one.
    """
    with np.errstate(over="ignore"):
        squared = np.einsum("ij,ij->i", rows, rows)
    if squared.min() >= NEAR**-2 and squared.max() <= NEAR**2:
        return None
    most = np.frexp(max(float(rows.max()), -float(rows.min())))[1]
    # Squares of what is far from 1 leave the range of float32.
    near = np.ldexp(rows.astype(np.float64), -most)
    length = np.sqrt(np.einsum("ij,ij->i", near, near))
    found = np.frexp(length * np.sqrt(2))[1] - 1 + most
    return np.where(length > 0, found, 0).astype(np.int32)


def scaled(rows: Floats, exponent: int | Exponents) -> Floats:
    """The rows divided by powers of two."""
    by = exponent if isinstance(exponent, int) else exponent[:, None]
    return np.ldexp(rows, np.negative(by)) if np.any(exponent) else rows


def ratios(exponent: Exponents, longest: int) -> Doubles:
    """How long vectors are beside the longest prototype, in powers of two."""
    apart = exponent - longest
    worst = int(apart[np.argmax(np.abs(apart))])
    if abs(worst) >= BRIDGE:
        raise ValueError(
            f"X has vectors about {2.0**worst:.0e} times as long as the longest prototype: float32 "
            "codes cannot bridge that. Scale both, for example to unit length."
        )
    return np.asarray(np.exp2(apart.astype(np.float64)))
