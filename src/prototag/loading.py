"""Reads model files of every kind: annotators, estimators and baselines."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from prototag.errors import ModelFileError
from prototag.storage import modelfile

ANNOTATOR = "annotator"
# Imported when a file needs them; the registry of ``research`` has the classes of baselines.
CLASSES_BY_KIND = {
    ANNOTATOR: "prototag.annotator.annotator:Annotator",
    "mcdl": "prototag.mcdl.estimator:MCDL",
    "exemplars": "prototag.mcdl.exemplar_mcdl:ExemplarMCDL",
    "tagger": "prototag.tagging.tagger:Tagger",
}


def load(path: str | Path) -> Any:
    """Read a model that ``save`` wrote. Nothing in the file is executed."""
    kind = modelfile.read_header(path)["kind"]
    found = class_of(kind)
    if found is None:
        raise ModelFileError(f"{path} holds a {kind!r}, not a model: nothing to load.")
    if kind == ANNOTATOR:
        return found.load(path)
    return found.from_state(*modelfile.read(path))


def class_of(kind: str) -> Any:
    """Return the class of a kind of model file; None if there is none."""
    if kind not in CLASSES_BY_KIND:
        from prototag.research import registry

        return registry.baseline_of_kind(kind)
    module, _, name = CLASSES_BY_KIND[kind].partition(":")
    return getattr(import_module(module), name)
