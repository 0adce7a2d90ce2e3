"""What block functions are called where people watch them run: on the dashboard of a cluster."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

NAMES = {  # by module below prototag and name; all others are called by their docstring
    "annotator.blocks.annotate_block": "Annotate pictures",
    "arrays.kernel": "Compare with landmarks",
    "coding.coder._encode_block": "Code images",
    "features.blocks.extract_block": "Compute vectors of pictures",
    "mcdl.coupled._code_block": "Code images with their tags",
    "mcdl.kmeans._nearer_block": "Find nearer centres",
    "mcdl.kmeans._nearest_block": "Find nearest centres",
    "mcdl.kmeans._sum_block": "Sum clusters",
    "mcdl.steps._objective_block": "Add up the objective",
    "mcdl.steps._semantic_block": "Learn semantic prototypes",
    "mcdl.steps._sums_block": "Sum products of codes",
    "tagging.model._smooth_block": "Score by the kernel",
    "tagging.onward._product": "Multiply",
    "tagging.ridge._squares": "Sum squares",
    "tagging.streamed.finish.count_tags": "Count scores of tags",
    "tagging.streamed.landmarks.normal_rows": "Sum the kernel's normal equations",
    "tagging.streamed.means.assign": "Sum clusters",
    "tagging.streamed.means.closest": "Find nearest means",
    "tagging.streamed.prototypes.code_rows": "Code images",
    "tagging.streamed.scores.lever_rows": "Measure levers",
    "tagging.streamed.scores.mixed_rows": "Score images that were left out",
    "tagging.streamed.scores.part_rows": "Score a sample",
    "tagging.streamed.scores.relation_sums": "Sum products of scores",
    "tagging.streamed.vectors.lift_rows": "Lift vectors",
    "tagging.streamed.vectors.sums": "Sum products of vectors",
}
LONGEST = 48


def label(function: Callable[..., Any]) -> str:
    """A few words without hyphens, which Dask would take for the end of a name."""
    module = getattr(function, "__module__", None) or ""
    name = getattr(function, "__qualname__", type(function).__name__)
    told = NAMES.get(f"{module.removeprefix('prototag.')}.{name}")
    if told is None:
        spoken = (getattr(function, "__doc__", None) or "").strip() if _is_ours(module) else ""
        first = re.split(r"[.;:,(`\n]", spoken)[0]
        told = first.strip() or name.strip("_").removesuffix("_block").replace("_", " ")
    words = re.sub(r"[^\w ]+", " ", told).strip() or "block"
    return (words[0].upper() + words[1:])[:LONGEST].rstrip()


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] == "prototag"
