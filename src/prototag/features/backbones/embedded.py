"""The network inside the package: EfficientNet-Lite0, made by tools/embed_lite0.py."""

from __future__ import annotations

from pathlib import Path

from prototag.features.backbones.onnx import OnnxBackbone

FILE = "efficientnet_lite0.onnx"


class EmbeddedBackbone(OnnxBackbone):
    """EfficientNet-Lite0 up to its pooled layer: 224 x 224 -> 1280, by onnxruntime alone."""

    def __init__(self, *, n_jobs: int | None = None) -> None:
        super().__init__(Path(__file__).with_name(FILE).read_bytes(), n_jobs=n_jobs)
        self.spec = "embedded"
