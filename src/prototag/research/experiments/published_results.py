"""Published results: F1 of mean per-tag precision and recall in %, with protocol and vectors.

Most papers use other networks (or colours and gradients) and assign five tags per image, so their
figures are for orientation and not a comparison.
"""

from __future__ import annotations

from typing import NamedTuple


class Reported(NamedTuple):
    f1: float
    n_plus: int | None
    protocol: str  # "threshold" or "five tags"
    vectors: str


_HAND = "15 hand-made features"
_VGG = "VGG-16"
IAPRTC12: dict[str, Reported] = {
    "MCDL, paper, tuned": Reported(46.9, None, "threshold", "DenseNet-161, five crops"),
    "SLED": Reported(48.6, None, "five tags", "deep features"),
    "MLDL": Reported(47.0, None, "five tags", "deep features"),
    "2PKNN + metric": Reported(44.0, None, "five tags", _HAND),
    "2PKNN": Reported(37.1, None, "five tags", "DenseNet-161, five crops (run by MCDL's authors)"),
    "CCA-KNN": Reported(41.0, None, "five tags", _VGG),
    "TagProp, distance": Reported(40.0, None, "five tags", _HAND),
    "FastTag": Reported(34.0, None, "five tags", _HAND),
    "JEC": Reported(28.5, None, "five tags", _HAND),
}
BY_COLLECTION: dict[str, dict[str, Reported]] = {"IAPRTC-12": IAPRTC12}

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
