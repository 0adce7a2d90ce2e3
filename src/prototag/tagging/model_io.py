"""Deserialization of a TagModel from an untrusted file.

Dtypes, shapes, ranges and finiteness are validated, so that every accepted model computes finite
scores.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from prototag.arrays import Array, Arrays, SparseRows
from prototag.errors import ModelFileError
from prototag.storage import modelfile
from prototag.tagging.model import Calibration, Kernel, Projection, TagModel

MAX_NONZEROS = 10_000  # more would let a file demand any amount of memory
MAX_MAGNITUDE = 1e9  # of numbers in arrays: products of larger ones might not be finite
MAX_PROTOTYPE_NORM = (
    1e6  # and 1 / it the shortest: codes of unit vectors over others are not accurate
)


def read(config: Mapping[str, Any], arrays: Arrays) -> TagModel:
    """Build a model from the values and arrays of a file."""

    def array(name: str, *shape: int | None, kind: str = "f4") -> Array:
        return modelfile.expect_array(arrays, name, shape, kind, largest=MAX_MAGNITUDE)

    def number(name: str, low: float, high: float) -> float:
        return modelfile.expect_number(config, name, low, high)

    tag_scale = array("tag_scale", None)
    t = len(tag_scale)
    linear_map = array("projection/map", None, None)
    m, columns = linear_map.shape
    scale = array("projection/scale", m) if "projection/scale" in arrays else None
    columns += 0 if scale is None else m
    width = modelfile.expect_count(config, "width", columns)
    prototypes = array("prototypes", None, width)
    k = len(prototypes)
    squared = np.einsum("ij,ij->i", prototypes, prototypes, dtype=np.float64)
    longest = np.sqrt(squared.max(initial=0.0))
    landmarks = prototypes
    if "kernel/landmarks" in arrays:
        landmarks = array("kernel/landmarks", None, width)
    array("semantics/data", None)
    knots = array("calibration/knots", None, kind="f8")
    rates = array("calibration/rates", len(knots), kind="f8")
    offset = array("calibration/offset", t, kind="f8")
    consistent = t and m and k and len(landmarks) and len(knots)
    consistent = consistent and 1 / MAX_PROTOTYPE_NORM < longest < MAX_PROTOTYPE_NORM
    if not consistent or columns - width not in (0, t):
        raise ModelFileError("the parts of the model do not fit each other: it is damaged.")
    increasing = (np.diff(knots) >= 0).all() and (np.diff(rates) >= 0).all() and rates[0] > 0
    if not increasing or rates[-1] >= 1 or np.abs(offset).max() >= 100 or (tag_scale <= 0).any():
        raise ModelFileError("the probabilities of the model make no sense: it is damaged.")
    return TagModel(
        projection=Projection(linear_map, array("projection/constant", columns), width, scale),
        prototypes=prototypes,
        semantics=_semantics(arrays, k, t),
        max_nonzeros=modelfile.expect_count(config, "max_nonzeros", MAX_NONZEROS),
        kernel=Kernel(
            landmarks,
            array("kernel/dual", len(landmarks), t),
            number("gamma", 1e-30, 1e30),
            number("strength", 1e-30, 1e30),
        ),
        kernel_share=number("kernel_share", 0, 1),
        tag_scale=tag_scale,
        threshold=array("threshold", t, kind="f8"),
        calibration=Calibration(knots, rates, offset),
    )


def _semantics(arrays: Arrays, k: int, t: int) -> SparseRows:
    value, column, start = modelfile.unpack_rows(arrays, "semantics", (k, t))
    return SparseRows(start.astype(np.int64), column.astype(np.int32, copy=False), value, t)
