"""Build the quick network of the package: EfficientNet-Lite0 with 8-bit arithmetic.

    pip install --group tools
    python -m tools.embed_int8

Starts from the graph of ``tools.embed_lite`` and lets onnxruntime's quantiser replace all
convolutions but the first three and the last: weights of 8 bits with a scale for each channel,
activations of 8 bits with a scale for each map. The scales come from clip art of the package and
photographs of scikit-image and scikit-learn, by percentiles: the outermost values of a map are cut
off.
"""

from __future__ import annotations

import hashlib
import io
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from PIL import Image

from prototag.research.datasets import clipart
from tools.embed_lite import FOLDER, LITE0, build, original_weights, photographs

TARGET = FOLDER / "efficientnet_lite0_int8.onnx"
SIDE = 288  # of the calibration images
DRAWINGS = 24
PERCENTILE = 99.99
KEPT_FIRST, KEPT_LAST = 3, 1  # convolutions that stay float, in order


def pictures() -> Iterator[np.ndarray]:
    """Return the calibration images, each 1 x side x side x 3."""
    drawings = clipart().images
    for number in np.random.default_rng(0).choice(len(drawings), DRAWINGS, replace=False):
        with Image.open(io.BytesIO(drawings[int(number)])) as image:
            small = image.convert("RGB").resize((SIDE, SIDE), Image.Resampling.BILINEAR)
        yield np.asarray(small)[None]
    for _, pixels in photographs(SIDE):
        yield pixels[None]


def quantise(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the network with 8-bit convolutions and the same description."""
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    from onnxruntime import quantization as q

    class Reader(q.CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.left = pictures()

        def get_next(self) -> dict[str, Any] | None:
            pixels = next(self.left, None)
            return None if pixels is None else {"pixels": pixels}

    for number, node in enumerate(model.graph.node):
        node.name = f"{node.op_type}_{number}"
    convolutions = [node.name for node in model.graph.node if node.op_type == "Conv"]
    with tempfile.TemporaryDirectory() as work:
        before, after = Path(work, "float.onnx"), Path(work, "int8.onnx")
        onnx.save(model, before)
        q.quantize_static(
            before,
            after,
            Reader(),
            quant_format=q.QuantFormat.QDQ,
            per_channel=True,
            activation_type=q.QuantType.QUInt8,
            weight_type=q.QuantType.QInt8,
            calibrate_method=q.CalibrationMethod.Percentile,
            nodes_to_exclude=convolutions[:KEPT_FIRST] + convolutions[-KEPT_LAST:],
            op_types_to_quantize=["Conv", "Clip", "Add"],
            extra_options={"CalibPercentile": PERCENTILE},
        )
        quantized = onnx.load(after)
    del quantized.metadata_props[:]
    quantized.metadata_props.extend(model.metadata_props)
    quantized.producer_name = "prototag tools/embed_int8.py"
    onnx.checker.check_model(quantized, full_check=True)
    return quantized


def main() -> None:
    model = quantise(build(original_weights(LITE0), dtype=np.float32))
    data = model.SerializeToString(deterministic=True)
    TARGET.write_bytes(data)
    print(f"{TARGET.name}: {len(data):,} bytes, sha256 {hashlib.sha256(data).hexdigest()}")


if __name__ == "__main__":
    main()
