"""Backbones of timm by name, including the four of the paper; needs ``prototag[timm]``."""

from __future__ import annotations

import hashlib
import os
from typing import Any

import numpy as np

from prototag.arrays import Floats
from prototag.engine import batch_slices, count_threads
from prototag.errors import BackboneError
from prototag.images.decode import Pixels

# The four networks of the paper, with their original weights if timm has them, and the width of the
# penultimate layer.
PAPER = {
    "vgg-16": ("vgg16.tv_in1k", 4096),
    "resnet-101": ("resnet101.tv_in1k", 2048),
    "densenet-161": ("densenet161.tv_in1k", 2208),
    "efficientnet-b7": ("tf_efficientnet_b7.aa_in1k", 2560),
}
BATCH_PICTURES = 8


class TimmBackbone:
    """Backbone of timm: a model without its classifier.

    Input size, interpolation, mean and standard deviation are those of the model's configuration.
    Its crop margin is ignored, because ``crops`` selects the crops.

    Parameters
    ----------
    name : str
        One of the paper's four (vgg-16, resnet-101, densenet-161, efficientnet-b7) or a name of
        timm.
    weights : "hub", "random" or path
        "hub" downloads the published weights or reads them from the hub's local cache; a path is a
        file of the same model; "random" is for tests.
    n_jobs : int or None
        Threads: None is one, -1 all cores.
    """

    def __init__(
        self, name: str, *, weights: str | os.PathLike[str] = "hub", n_jobs: int | None = None
    ) -> None:
        self.spec = f"timm:{name}"
        self.n_jobs = n_jobs
        self._model = _create(name, os.fspath(weights))
        settings = _timm().data.resolve_model_data_config(self._model)
        self.size = (int(settings["input_size"][2]), int(settings["input_size"][1]))
        self.interpolation = str(settings["interpolation"])
        self._mean, self._std = (
            np.array(settings[key], np.float32).reshape(3, 1, 1) for key in ("mean", "std")
        )
        self.fingerprint = _fingerprint(self._model, settings)
        self.width = self(np.zeros((1, self.size[1], self.size[0], 3), np.uint8)).shape[1]

    def normalize(self, pixels: Pixels) -> Floats:
        """Convert pixels (n x height x width x 3, uint8) to input (n x 3 x height x width)."""
        values = pixels.transpose(0, 3, 1, 2).astype(np.float32) / 255
        return np.ascontiguousarray((values - self._mean) / self._std)

    def __call__(self, pixels: Pixels) -> Floats:
        """Compute vectors (n x width, float32) of pixels (n x height x width x 3, uint8)."""
        import torch

        before = torch.get_num_threads()
        torch.set_num_threads(count_threads(self.n_jobs))
        try:
            with torch.inference_mode():
                parts = [
                    self._model(torch.from_numpy(self.normalize(pixels[rows]))).numpy()
                    for rows in batch_slices(len(pixels), BATCH_PICTURES)
                ]
        finally:
            torch.set_num_threads(before)
        return np.concatenate(parts)


def _timm() -> Any:
    try:
        import timm
    except ImportError as error:
        raise BackboneError(
            f"networks of timm need {error.name or 'timm'}, which is not installed: "
            "pip install 'prototag[timm]'."
        ) from None
    except RuntimeError as error:  # torchvision was built for another version of torch
        raise BackboneError(
            f"timm is installed but does not load: {error}. Install a torchvision built for the "
            "installed torch."
        ) from None
    return timm


def _create(name: str, weights: str) -> Any:
    timm = _timm()
    model, width = PAPER.get(name, (name, None))
    if not timm.is_model(model):
        similar = timm.list_models(f"*{name.split('.')[0]}*")[:5]
        raise BackboneError(
            f"timm has no model {name!r}. The paper's four are {', '.join(PAPER)}"
            + (f"; similar names: {', '.join(similar)}." if similar else ".")
        )
    overlay = {"file": weights} if weights not in ("hub", "random") else None
    if overlay and not os.path.isfile(weights):
        raise BackboneError(f"weights={weights!r} is not a file: give a path, 'hub' or 'random'.")
    try:
        # With the classifier timm checks that all weights are present; without it, it does not.
        network = timm.create_model(
            model, pretrained=weights != "random", pretrained_cfg_overlay=overlay
        )
    except Exception as error:
        if overlay:
            raise BackboneError(f"{weights} does not hold weights of {model}: {error}") from None
        raise BackboneError(
            f"the weights of {model} could not be fetched ({type(error).__name__}: {error}). On a "
            f"machine with network access download 'timm/{model}' from the Hugging Face hub, bring "
            f"its model.safetensors here and give TimmBackbone({name!r}, weights=PATH); or use the "
            "embedded network."
        ) from None
    network.reset_classifier(0)
    network.eval()
    head = getattr(network, "head_hidden_size", None) or network.num_features
    if width not in (None, head):
        raise BackboneError(f"timm's {model} has {head} features before its classes, not {width}.")
    return network


def _fingerprint(model: Any, settings: dict[str, Any]) -> str:
    digest = hashlib.sha256(repr(sorted(settings.items())).encode())
    for name, tensor in model.state_dict().items():
        digest.update(name.encode())
        digest.update(tensor.contiguous().numpy().tobytes())
    return digest.hexdigest()
