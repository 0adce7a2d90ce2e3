"""The rivals of the literature, with MCDL's interface, thresholds and metrics.

Every rival learns its thresholds from scores of training images that did not see the image
(``out_of_fold_scores_``), and chooses by them what its paper validates. Names are those of the
registry, loaded when first used.
"""

from typing import Any

from prototag.research.registry import baselines as _entries

__all__ = sorted(_entries())


def __getattr__(name: str) -> Any:
    if name in _entries():
        return _entries()[name].factory
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
