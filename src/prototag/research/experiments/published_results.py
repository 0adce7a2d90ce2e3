"""Published results: F1 of mean per-tag precision and recall in %, with protocol and vectors.

Most papers use other networks (or colours and gradients) and assign five tags per image, so their
figures are for orientation and not a comparison.
"""

from __future__ import annotations

from typing import NamedTuple


class Reported(NamedTuple):
    f1: float
    protocol: str  # "threshold" or "five tags"
    vectors: str
    precision: float | None = None
    recall: float | None = None


FIVE = "five tags"
_HAND = "hand-made features"
_NETWORK = "features of a network"
_DENSENET = "DenseNet-161, five crops"


def _quoted(precision: int, recall: int, f1: float, vectors: str, protocol: str = FIVE) -> Reported:
    return Reported(f1, protocol, vectors, precision, recall)


# From the MCDL paper's table of all methods, except F1 without precision and recall, which are from
# the papers of the methods. Systems that it describes without figures have no entry.
IAPRTC12: dict[str, Reported] = {
    "MCDL, paper, tuned": _quoted(49, 45, 46.9, _DENSENET, "threshold"),
    "SLED": Reported(48.6, FIVE, _NETWORK),
    "MLDL": _quoted(56, 40, 47.0, _HAND),
    "KSVM-VT (weights)": _quoted(47, 29, 36.0, _HAND),
    "Mvg-NMF on given columns": _quoted(47, 40, 43.0, _HAND),
    "2PKNN + metric": _quoted(54, 37, 44.0, _HAND),
    "2PKNN": _quoted(51, 29, 37.1, f"{_DENSENET} (run by MCDL's authors)"),
    "CCA-KNN": _quoted(45, 38, 41.0, "VGG-16"),
    "TagProp, distance": Reported(40.0, FIVE, _HAND),
    "FastTag": Reported(34.0, FIVE, _HAND),
    "JEC": Reported(28.5, FIVE, _HAND),
    "MVSAE on given vectors": _quoted(43, 38, 40.0, _NETWORK),
    "RPLRF by cells": _quoted(48, 29, 36.0, _NETWORK),
    "AHL (hyperedge weights)": _quoted(47, 35, 40.0, _NETWORK),
    "SEM on given vectors": _quoted(41, 39, 40.0, "AlexNet"),
    "positive means of VLAD on given vectors": _quoted(46, 33, 38.0, _NETWORK),
}
ESPGAME: dict[str, Reported] = {
    "MCDL, paper, tuned": _quoted(46, 39, 42.0, _DENSENET, "threshold"),
    "MLDL": _quoted(56, 31, 40.0, _HAND),
    "KSVM-VT (weights)": _quoted(33, 32, 33.0, _HAND),
    "Mvg-NMF on given columns": _quoted(41, 33, 37.0, _HAND),
    "2PKNN + metric": _quoted(53, 27, 36.0, _HAND),
    "2PKNN": _quoted(50, 31, 38.0, f"{_DENSENET} (run by MCDL's authors)"),
    "CCA-KNN": _quoted(46, 36, 41.0, "VGG-16"),
    "MVSAE on given vectors": _quoted(47, 28, 34.0, _NETWORK),
    "RPLRF by cells": _quoted(43, 27, 34.0, _NETWORK),
    "AHL (hyperedge weights)": _quoted(46, 23, 31.0, _NETWORK),
    "SEM on given vectors": _quoted(38, 42, 40.0, "AlexNet"),
    "positive means of VLAD on given vectors": _quoted(44, 33, 38.0, _NETWORK),
}
BY_COLLECTION: dict[str, dict[str, Reported]] = {"IAPRTC-12": IAPRTC12, "ESP-GAME": ESPGAME}

# F1 of MCDL and 2PKNN by network on IAPRTC-12, from the MCDL paper.
BY_NETWORK: dict[str, tuple[float, float]] = {
    "DenseNet-161": (46.9, 37.1),
    "ResNet-101": (45.8, 37.3),
    "VGG-16": (45.0, 37.6),
    "EfficientNet-B7": (40.2, 38.0),
}
# Milliseconds to annotate an image with MCDL and with 2PKNN, from the MCDL paper.
MILLISECONDS: dict[str, tuple[float, float]] = {
    "IAPRTC-12": (1.5, 27.5),
    "ESP-GAME": (1.2, 25.4),
    "FLICKR-60K": (1.8, 57.0),
    "FLICKR-125K": (10.0, 390.0),
}


def reported(collection: str, method: str) -> Reported | None:
    """Return the published result of a method on a collection, or None."""
    for name, figures in BY_COLLECTION.items():
        if collection.lower().startswith(name.lower()):
            return figures.get(method)
    return None
