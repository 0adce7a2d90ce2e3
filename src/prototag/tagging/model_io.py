"""A model from what a file says of it, which may be anything: everything is checked.

Types, shapes, finiteness and ranges: what gets through can be computed with, and gives numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from prototag.arrays import Array, Arrays, SparseRows
from prototag.errors import ModelFileError
from prototag.storage import modelfile
from prototag.tagging.model import (
    USES,
    Calibration,
    Kernel,
    Linear,
    Projection,
    Relations,
    TagModel,
)

MAX_NONZEROS = 10_000  # that a file may ask for
LARGEST = 1e9  # number in its arrays: products of larger ones might not be finite
LONGEST = 1e6  # prototype beside vectors of length 1; codes cannot bridge any difference


def read(config: Mapping[str, Any], arrays: Arrays) -> TagModel:
    """A model from a file that may hold anything."""

    def array(name: str, *shape: int | None, kind: str = "f4") -> Array:
        return modelfile.expect_array(arrays, name, shape, kind, largest=LARGEST)

    def number(name: str, low: float, high: float) -> float:
        return modelfile.expect_number(config, name, low, high)

    tag_scale = array("tag_scale", None)
    t = len(tag_scale)
    relations = array("relations/coef", None, t)
    linear_map = array("projection/map", None, None)
    m, width = linear_map.shape
    scale = array("projection/scale", m) if "projection/scale" in arrays else None
    width += 0 if scale is None else m
    columns = {name: _columns(config["columns"][name], width) for name in USES}
    short, predicted, kernel_columns, linear = (c.stop - c.start for c in columns.values())
    prototypes = array("prototypes", None, None)
    k, depth = prototypes.shape
    squared = np.einsum("ij,ij->i", prototypes, prototypes, dtype=np.float64)
    longest = np.sqrt(squared.max(initial=0.0))
    axes = array("axes", short + predicted, depth) if "axes" in arrays else None
    landmarks = array("kernel/landmarks", None, kernel_columns)
    array("semantics/data", None)
    knots = array("calibration/knots", None, kind="f8")
    rates = array("calibration/rates", len(knots), kind="f8")
    offset = array("calibration/offset", t, kind="f8")
    sound = t and m and k and len(landmarks) and len(knots)
    factors = 0 < len(relations) < t and len(relations) % 2 == 0
    sound = sound and (len(relations) == t or factors) and 1 / LONGEST < longest < LONGEST
    if not sound or linear != t or (axes is None and depth != short + predicted):
        raise ModelFileError("the parts of the model do not fit each other: it is damaged.")
    rising = (np.diff(knots) >= 0).all() and (np.diff(rates) >= 0).all() and rates[0] > 0
    if not rising or rates[-1] >= 1 or np.abs(offset).max() >= 100 or (tag_scale <= 0).any():
        raise ModelFileError("the probabilities of the model make no sense: it is damaged.")
    return TagModel(
        projection=Projection(
            linear_map,
            array("projection/constant", width),
            columns["short"],
            columns["predicted"],
            columns["kernel"],
            columns["linear"],
            scale,
        ),
        lift_weight=number("lift_weight", 0, 1e6),
        axes=axes,
        prototypes=prototypes,
        semantics=_semantics(arrays, k, t),
        max_nonzeros=modelfile.expect_count(config, "max_nonzeros", MAX_NONZEROS),
        kernel=Kernel(
            landmarks,
            array("kernel/dual", len(landmarks), t),
            number("gamma", 1e-30, 1e30),
            number("strength", 1e-30, 1e30),
        ),
        linear=Linear(array("linear/scale", t), array("linear/offset", t)),
        share=number("share", 0, 1),
        linear_share=number("linear_share", 0, 1),
        relations=Relations(relations, array("relations/offset", t)),
        tag_scale=tag_scale,
        threshold=array("threshold", t, kind="f8"),
        calibration=Calibration(knots, rates, offset),
    )


def _semantics(arrays: Arrays, k: int, t: int) -> SparseRows:
    value, column, start = modelfile.unpack_rows(arrays, "semantics", (k, t))
    return SparseRows(start.astype(np.int64), column.astype(np.int32, copy=False), value, t)


def _columns(given: Any, width: int) -> slice:
    start, stop = given
    if type(start) is not int or type(stop) is not int or not 0 <= start < stop <= width:
        raise ModelFileError(f"columns {given!r} of {width}: the model is damaged.")
    return slice(start, stop)
