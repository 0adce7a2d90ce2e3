"""Networks that turn pixels into vectors: the embedded one, any ONNX file, any timm model.

A backbone is called with pixels as they are (n x height x width x 3, uint8) and does its own
scaling, so that a crop cannot meet the wrong one.
"""

from __future__ import annotations

import os
from typing import Protocol

from prototag.arrays import Floats
from prototag.errors import BackboneError
from prototag.images.decode import Pixels


class Backbone(Protocol):
    """What the rest of the package asks of a network."""

    spec: str  # what :func:`load` finds it by
    fingerprint: str  # of weights and preprocessing: equal fingerprints give equal vectors
    size: tuple[int, int]  # width and height of the pictures it takes
    interpolation: str  # how pictures are brought to that size: a name of PIL.Image.Resampling
    width: int  # length of the vectors

    def __call__(self, pixels: Pixels) -> Floats:
        """Pixels (n x height x width x 3, uint8) -> vectors (n x width, float32)."""
        ...


def load(spec: str | os.PathLike[str] | Backbone, *, n_jobs: int | None = None) -> Backbone:
    """The network that ``spec`` names.

    Parameters
    ----------
    spec : "embedded", path of an ONNX file, "timm:NAME", or a backbone
        NAME is a model of timm, or one of the paper's four: vgg-16, resnet-101, densenet-161,
        efficientnet-b7.
    n_jobs : int or None
        Threads of the network; ignored when ``spec`` is a backbone already.
    """
    if callable(spec):
        return spec
    spec = os.fspath(spec)
    if spec == "embedded":
        from prototag.features.backbones.embedded import EmbeddedBackbone

        return EmbeddedBackbone(n_jobs=n_jobs)
    if spec.startswith("timm:"):
        from prototag.features.backbones.timm import TimmBackbone

        return TimmBackbone(spec.removeprefix("timm:"), n_jobs=n_jobs)
    if spec.endswith(".onnx"):
        from prototag.features.backbones.onnx import OnnxBackbone

        return OnnxBackbone(spec, n_jobs=n_jobs)
    raise BackboneError(
        f"backbone {spec!r} is unknown: give 'embedded', the path of a file that ends in .onnx, "
        "or 'timm:' and the name of a model."
    )
