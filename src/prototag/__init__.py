"""Automatic image annotation by marginalized coupled dictionary learning.

Names are imported lazily: ``import prototag`` is fast, and annotation does not import the modules
that only training needs.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the same names as in _MODULES
    from prototag.annotator.annotator import Annotator
    from prototag.coding.coder import Coder
    from prototag.coding.encode import sparse_encode
    from prototag.features.transformer import FeatureExtractor
    from prototag.library.library import Library
    from prototag.loading import load
    from prototag.mcdl.estimator import MCDL
    from prototag.mcdl.exemplar_mcdl import ExemplarMCDL
    from prototag.tagging.reduction import Reduction
    from prototag.tagging.tagger import Tagger, recommended
    from prototag.tagging.tuning import tune

    _kernels: Any  # the compiled module

__version__ = "0.1.0"

_MODULES = {
    "Annotator": "annotator.annotator",
    "Coder": "coding.coder",
    "ExemplarMCDL": "mcdl.exemplar_mcdl",
    "FeatureExtractor": "features.transformer",
    "Library": "library.library",
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
