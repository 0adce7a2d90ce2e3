"""A network of one's own: what the JSON file beside it says is obeyed, or refused in words."""

import json
from pathlib import Path

import numpy as np
import pytest

from prototag.errors import BackboneError
from prototag.features import Extractor
from prototag.features.backbones import load

from ..pictures import scene

onnx = pytest.importorskip("onnx")


def write(path: Path, shape: list, *, about: object = None, tokens: bool = False) -> Path:
    """A network that gives its pixels back, as a mean and as a row of three tokens."""
    from onnx import TensorProto, helper, numpy_helper

    nodes = [helper.make_node("GlobalAveragePool", ["x"], ["pooled"])]
    nodes += [helper.make_node("Flatten", ["pooled"], ["mean"])]
    nodes += [helper.make_node("Mul", ["mean", "two"], ["double"])]
    nodes += [helper.make_node("Unsqueeze", ["mean", "axis"], ["one"])]
    nodes += [helper.make_node("Unsqueeze", ["double", "axis"], ["other"])]
    nodes += [helper.make_node("Concat", ["one", "other", "other"], ["tokens"], axis=1)]
    stored = [numpy_helper.from_array(np.float32(2), "two")]
    stored += [numpy_helper.from_array(np.array([1], np.int64), "axis")]
    names = ["tokens"] if tokens else ["mean", "double", "tokens"]
    puts = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names]
    entry = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    made = helper.make_graph(nodes, "mine", [entry], puts, stored)
    opset = [helper.make_opsetid("", 17)]
    path.write_bytes(helper.make_model(made, opset_imports=opset, ir_version=8).SerializeToString())
    if about is not None:
        path.with_suffix(".json").write_text(json.dumps(about))
    return path


PIXELS = np.random.default_rng(0).integers(0, 256, (2, 20, 30, 3), np.uint8)


def test_the_description_is_obeyed(tmp_path: Path) -> None:
    about = {
        "size": [30, 20],
        "mean": [0, 0, 0],
        "std": [1, 2, 4],
        "layout": "nchw",
        "interpolation": "bicubic",
        "output": "double",
    }
    network = load(write(tmp_path / "mine.onnx", ["n", 3, "h", "w"], about=about))
    assert (network.size, network.interpolation, network.width) == ((30, 20), "bicubic", 3)
    expected = 2 * PIXELS.mean(axis=(1, 2)) / 255 / [1, 2, 4]
    np.testing.assert_allclose(network(PIXELS), expected, rtol=1e-4)
    (tmp_path / "mine.json").unlink()
    with pytest.raises(BackboneError, match="leaves the size of its input open"):
        load(tmp_path / "mine.onnx")


@pytest.mark.parametrize(("pool", "times"), [("first", 1), ("mean", 5 / 3)])
def test_tokens_of_a_transformer(tmp_path: Path, pool: str, times: float) -> None:
    about = {"mean": [0, 0, 0], "std": [1, 1, 1], "output": "tokens", "pool": pool}
    network = load(write(tmp_path / "vit.onnx", [1, 3, 20, 30], about=about, tokens=True))
    np.testing.assert_allclose(network(PIXELS), times * PIXELS.mean(axis=(1, 2)) / 255, rtol=1e-4)


def test_a_network_of_open_size_keeps_the_shape_of_pictures(tmp_path: Path) -> None:
    about = {"size": [24, 24], "shapes": [[24, 24], [32, 20], [20, 32]]}
    path = write(tmp_path / "mine.onnx", ["n", 3, "h", "w"], about=about)
    made = Extractor(path, cache=None)
    assert made.feature_groups == [("last", 3)]
    seen = [made._plan(made._backbone()).view(size).size for size in ((90, 60), (60, 90), (9, 9))]
    assert seen == [(32, 20), (20, 32), (24, 24)]
    assert made.extract([scene(90, 60), scene(60, 90)]).vectors.shape == (2, 3)
    write(path, ["n", 3, 24, 24], about=about)
    with pytest.raises(BackboneError, match="no other shapes"):
        load(path)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", r"mine.json is not JSON"),
        ("[" * 100_000, r"mine.json (is not JSON|does not describe)"),
        ("[1]", "one JSON object is needed"),
        ('{"colour": 1}', "has 'colour'; it may have size, shapes, mean"),
        ('{"size": 224}', r"'size' is 224; give \[width, height\]"),
        ('{"size": [0, 224]}', r"give \[width, height\]"),
        ('{"size": [224, 1e9]}', r"give \[width, height\]"),
        ('{"shapes": []}', "a list of"),
        ('{"mean": [1, 2]}', "three numbers"),
        ('{"mean": [1, 2, true]}', "three numbers"),
        ('{"std": [1, 0, 1]}', "three numbers above 0"),
        ('{"layout": "chw"}', "give 'nchw' or 'nhwc'"),
        ('{"interpolation": "nearest"}', "give 'bilinear', 'bicubic', 'lanczos'"),
        ('{"output": ""}', "the name of an output"),
        ('{"output": "nothing"}', "has no output 'nothing'; it has mean, double, tokens"),
        ('{"pool": "max"}', "give 'first' or 'mean'"),
        ('{"layout": "nhwc"}', "n x h x w x 3 is needed"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    path = write(tmp_path / "mine.onnx", ["n", 3, 20, 30])
    path.with_suffix(".json").write_text(text)
    with pytest.raises(BackboneError, match=reason):
        load(path)


def test_a_model_finds_its_network_beside_itself(tmp_path: Path) -> None:
    about = {"mean": [0, 0, 0], "std": [1, 1, 1]}
    path = write(tmp_path / "mine.onnx", ["n", 3, 20, 30], about=about)
    config, arrays = Extractor(path, cache=None).to_state()
    expected = Extractor(path, cache=None).transform([scene()])
    (tmp_path / "moved").mkdir()
    for name in ("mine.onnx", "mine.json"):
        (tmp_path / name).rename(tmp_path / "moved" / name)
    with pytest.raises(BackboneError, match="cannot be read: No such file"):
        Extractor.from_state(config, arrays, cache=None).transform([scene()])
    again = Extractor.from_state(config, arrays, near=tmp_path / "moved", cache=None)
    assert np.array_equal(again.transform([scene()]), expected)
    (tmp_path / "moved" / "mine.json").write_text("{}")
    other = Extractor.from_state(config, arrays, near=tmp_path / "moved", cache=None)
    with pytest.raises(BackboneError, match="not the one that the model was trained with"):
        other.transform([scene()])
