"""A pair of image and text side: a network whose vectors are mean colors, and words of colors."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper
from PIL import Image

from prototag import Annotator
from prototag.errors import BackboneError
from prototag.knowledge.word_file import word_prior

COLORS = {"rot": (1.0, 0.0, 0.0), "grün": (0.0, 1.0, 0.0), "blau": (0.0, 0.0, 1.0)}


@pytest.fixture
def network(tmp_path):
    """An ONNX file with words beside it."""
    FLOAT = onnx.TensorProto.FLOAT
    node = helper.make_node("GlobalAveragePool", ["x"], ["color"])
    flat = helper.make_node("Flatten", ["color"], ["vectors"])
    shape = helper.make_tensor_value_info("x", FLOAT, ["n", 3, 16, 16])
    output = helper.make_tensor_value_info("vectors", FLOAT, ["n", 3])
    graph = helper.make_graph([node, flat], "colors", [shape], [output])
    opset = [helper.make_opsetid("", 17)]
    path = tmp_path / "pair.onnx"
    path.write_bytes(
        helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString()
    )
    write(tmp_path, COLORS)
    return path


def write(folder, words, **changed):
    arrays = {"names": np.array([*words]), "vectors": np.array([*words.values()], np.float32)}
    np.savez(folder / "pair.words.npz", **{**arrays, **changed})


def test_names_are_found_whole_or_by_their_last_level(network):
    prior = word_prior(str(network), ["Rot", "Farbe|grün", "Rex"], [3])
    np.testing.assert_array_equal(prior.coef.T, [[1, 0, 0], [0, 1, 0], [0, 0, 0]])
    twice = word_prior(str(network), ["blau"], [3, 3])
    np.testing.assert_allclose(twice.coef[:, 0], [0, 0, 0.5, 0, 0, 0.5])
    network.with_suffix(".words.npz").unlink()
    assert word_prior(str(network), ["rot"], [3]) is None
    assert word_prior("embedded", ["rot"], [3]) is None
    assert word_prior("", ["rot"], [3]) is None


def test_damaged_words_are_refused(network, tmp_path):
    for changed in (
        {"names": np.array(["a"])},
        {"vectors": np.full((3, 3), np.nan)},
        {"vectors": np.ones(3)},
        {"names": np.array([["a"], ["b"], ["c"]])},
        {"names": np.array([{}, {}, {}], object)},
    ):
        write(tmp_path, COLORS, **changed)
        with pytest.raises(BackboneError, match="has no words"):
            word_prior(str(network), ["rot"], [3])
    network.with_suffix(".words.npz").write_bytes(b"no archive")
    with pytest.raises(BackboneError, match="has no words"):
        word_prior(str(network), ["rot"], [3])
    write(tmp_path, COLORS)
    with pytest.raises(BackboneError, match="have 3 numbers"):
        word_prior(str(network), ["rot"], [4])


def pictures(count, rng):
    images, tags = [], []
    for number in range(count):
        name = [*COLORS][number % 3]
        pixels = rng.normal(110, 50, (20, 20, 3)) + rng.normal(0, 25, 3)
        pixels += 25 * np.array(COLORS[name])
        images.append(Image.fromarray(pixels.clip(0, 255).astype(np.uint8)))
        tags.append([name])
    return images, tags


def test_training_weighs_the_words_of_the_pair(network, tmp_path):
    images, tags = pictures(30, np.random.default_rng(0))
    said = []

    def fitted():
        said.clear()
        annotator = Annotator(
            backbone=str(network),
            crops="whole",
            cache=None,
            progress=lambda event: said.append(event.message),
        )
        return annotator.fit(images, tags)

    with_words = fitted()
    assert with_words.choices["names"] > 0.1
    assert not any("Knowledge of words" in message for message in said)
    permuted = dict(zip(COLORS, [*COLORS.values()][1:] + [*COLORS.values()][:1], strict=True))
    write(tmp_path, permuted)
    assert fitted().choices["names"] < 0.5 * with_words.choices["names"]
    network.with_suffix(".words.npz").unlink()
    assert fitted().choices["names"] == 0
    assert sum("Knowledge of words is off" in message for message in said) == 1
