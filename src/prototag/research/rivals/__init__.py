"""The rivals of the literature, with MCDL's interface, thresholds and metrics.

Every rival learns its thresholds from scores of training images that did not see the image
(``out_of_fold_scores_``), and chooses by them what its paper validates. Names are loaded when first
used.
"""

from importlib import import_module
from typing import Any

_HOME = {
    "CCAKNN": "correlation",
    "CDL": "coupled",
    "DKSVD": "ksvd",
    "FastTag": "fasttag",
    "JEC": "neighbours",
    "KCCA": "correlation",
    "KNN": "neighbours",
    "KernelRidge": "kernel",
    "LCKSVD": "ksvd",
    "Logistic": "linear",
    "MLDL": "mldl",
    "Ridge": "linear",
    "SLED": "sled",
    "SVM": "linear",
    "TagProp": "tagprop",
    "TwoPassKNN": "twopass",
    "UDL": "coupled",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
