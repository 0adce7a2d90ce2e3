"""Baselines of the literature, with MCDL's interface, thresholds and metrics.

Every baseline selects its thresholds, and the hyperparameters that its paper validates, on held-out
scores of the training images (``out_of_fold_scores_``). The exported classes are those of the
registry; they are imported at first use.
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
