"""Feature extraction: pictures to vectors by pretrained backbones.

``extractor`` decodes pictures and runs a backbone, ``vector_cache`` keeps computed vectors,
``types`` has the result types, and ``transformer`` is the scikit-learn wrapper. Names are imported
on first use, so that annotating does not import scikit-learn.
"""

from importlib import import_module
from typing import Any

_HOME = {
    "Extractor": "extractor",
    "FeatureExtractor": "transformer",
    "Features": "types",
    "Skipped": "types",
    "VectorCache": "vector_cache",
}

__all__ = ["Extractor", "FeatureExtractor", "Features", "Skipped", "VectorCache"]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
