"""Model files back to models, whatever their kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prototag.annotator.annotator import KIND, Annotator
from prototag.errors import ModelFileError
from prototag.mcdl.estimator import MCDL
from prototag.storage import modelfile
from prototag.tagging.tagger import Tagger

_KINDS: dict[str, Any] = {"mcdl": MCDL, "tagger": Tagger}


def load(path: str | Path) -> Any:
    """Read a model that ``save`` wrote. Nothing in the file is executed."""
    if modelfile.read_header(path)["kind"] == KIND:
        return Annotator.load(path)
    header, arrays = modelfile.read(path)
    if header["kind"] not in _KINDS:
        raise ModelFileError(f"{path} holds a {header['kind']!r}, not a model: nothing to load.")
    return _KINDS[header["kind"]].from_state(header, arrays)
