"""Model files back to models, whatever their kind."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from prototag.errors import ModelFileError
from prototag.storage import modelfile

# Where the class of a kind is; loaded when a file asks for it.
KINDS = {
    "annotator": "prototag.annotator.annotator:Annotator",
    "mcdl": "prototag.mcdl.estimator:MCDL",
    "exemplars": "prototag.mcdl.exemplars:ExemplarMCDL",
    "tagger": "prototag.tagging.tagger:Tagger",
}


def load(path: str | Path) -> Any:
    """Read a model that ``save`` wrote. Nothing in the file is executed."""
    kind = modelfile.read_header(path)["kind"]
    if kind not in KINDS:
        raise ModelFileError(f"{path} holds a {kind!r}, not a model: nothing to load.")
    module, _, name = KINDS[kind].partition(":")
    found = getattr(import_module(module), name)
    if kind == "annotator":
        return found.load(path)
    return found.from_state(*modelfile.read(path))
