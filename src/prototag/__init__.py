"""Automatic image annotation by marginalized coupled dictionary learning.

Names are imported lazily: ``import prototag`` is fast, and annotation does not import the modules
that only training needs.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_MODULES = {
    "Annotator": "annotator.annotator",
    "Coder": "coding.coder",
    "ExemplarMCDL": "mcdl.exemplar_mcdl",
    "FeatureExtractor": "features.transformer",
    "Library": "library.library",
    "Lifting": "tagging.lifting",
    "MCDL": "mcdl.estimator",
    "Reduction": "tagging.reduction",
    "Tagger": "tagging.tagger",
    "load": "loading",
    "recommended": "tagging.tagger",
    "sparse_encode": "coding.encode",
    "tune": "tagging.tuning",
}

__all__ = [
    "MCDL",
    "Annotator",
    "Coder",
    "ExemplarMCDL",
    "FeatureExtractor",
    "Library",
    "Lifting",
    "Reduction",
    "Tagger",
    "__version__",
    "load",
    "recommended",
    "sparse_encode",
    "tune",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
