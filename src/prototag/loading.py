"""Reads model files of every kind: annotators, estimators and baselines."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from prototag.errors import ModelFileError
from prototag.storage import modelfile

ANNOTATOR = "annotator"
# Imported on demand. The registry of ``research`` has the classes of baselines.
CLASSES_BY_KIND = {
    ANNOTATOR: "prototag.annotator.annotator:Annotator",
    "mcdl": "prototag.mcdl.estimator:MCDL",
    "exemplars": "prototag.mcdl.exemplar_mcdl:ExemplarMCDL",
    "tagger": "prototag.tagging.tagger:Tagger",
}


def load(path: str | Path) -> Any:
    """Load a model that ``save`` wrote; nothing in the file is executed."""
    kind = modelfile.read_header(path)["kind"]
    model_class = class_of(kind)
    if model_class is None:
        raise ModelFileError(f"{path} contains a {kind!r}, not a model: give a model file.")
    if kind == ANNOTATOR:
        return model_class.load(path)
    return model_class.from_state(*modelfile.read(path))


def class_of(kind: str) -> Any:
    """Return the class of a kind of model file; None if there is none."""
    if kind not in CLASSES_BY_KIND:
        from prototag.research import registry

        return registry.baseline_of_kind(kind)
    module, _, name = CLASSES_BY_KIND[kind].partition(":")
    return getattr(import_module(module), name)
