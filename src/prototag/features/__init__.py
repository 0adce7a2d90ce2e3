"""Pictures -> vectors of a network.

``extractor`` does it: it opens pictures ahead of the network and tells how far it is. ``backbones``
holds the networks, ``vector_cache`` keeps vectors from one run to the next, ``types`` has the
results. ``transformer`` is the extractor for scikit-learn. Names are loaded when first used, so
that a tool that only annotates does not load scikit-learn.
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
