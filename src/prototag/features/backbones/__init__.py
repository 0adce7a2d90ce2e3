"""Networks that turn pixels into vectors: the embedded one, any ONNX file, any timm model.

A backbone is called with pixels as they are (n x height x width x 3, uint8) and does its own
scaling, so that a crop cannot meet the wrong one.
"""

from prototag.features.backbones.onnx import Backbone, EmbeddedBackbone, OnnxBackbone, load

__all__ = ["Backbone", "EmbeddedBackbone", "OnnxBackbone", "load"]
