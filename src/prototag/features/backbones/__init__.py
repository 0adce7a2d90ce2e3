"""Backbones: the embedded networks, any ONNX file, any timm model.

A backbone is called with uint8 pixels (n x height x width x 3) and normalizes them itself, so that
crops and normalization always match.
"""

from prototag.features.backbones.onnx import Backbone, EmbeddedBackbone, OnnxBackbone, load

__all__ = ["Backbone", "EmbeddedBackbone", "OnnxBackbone", "load"]
