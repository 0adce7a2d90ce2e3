"""Networks in ONNX files, the embedded one among them, and how a network is found by its name."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from prototag.arrays import Array, Floats
from prototag.engine import Threads, count_threads, run
from prototag.errors import BackboneError, ImageError
from prototag.images.decode import Pixels, read_bytes

MAX_BYTES = 2 << 30  # of a network; ONNX allows no more in one file
EMBEDDED = "efficientnet_lite0.onnx"
# Pictures that one thread takes through the network at once. More do not make it faster, but their
# activations no longer fit the caches and the memory grows.
BLOCK = 6
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
_DTYPES = {"tensor(uint8)": np.uint8, "tensor(float)": np.float32, "tensor(float16)": np.float16}


class Backbone(Protocol):
    """What the rest of the package asks of a network."""

    spec: str  # what :func:`load` finds it by
    fingerprint: str  # of weights and preprocessing: equal fingerprints give equal vectors
    size: tuple[int, int]  # width and height of the pictures it takes
    interpolation: str  # how pictures are brought to that size: a name of PIL.Image.Resampling
    width: int  # length of the vectors

    def __call__(self, pixels: Pixels) -> Floats:
        """Pixels (n x height x width x 3, uint8) -> vectors (n x width, float32)."""
        ...


def load(spec: str | os.PathLike[str] | Backbone, *, n_jobs: int | None = None) -> Backbone:
    """The network that ``spec`` names.

    Parameters
    ----------
    spec : "embedded", path of an ONNX file, "timm:NAME", or a backbone
        NAME is a model of timm, or one of the paper's four: vgg-16, resnet-101, densenet-161,
        efficientnet-b7.
    n_jobs : int or None
        Threads of the network; ignored when ``spec`` is a backbone already.
    """
    if callable(spec):
        return spec
    spec = os.fspath(spec)
    if spec == "embedded":
        return EmbeddedBackbone(n_jobs=n_jobs)
    if spec.startswith("timm:"):
        from prototag.features.backbones.timm import TimmBackbone

        return TimmBackbone(spec.removeprefix("timm:"), n_jobs=n_jobs)
    if spec.endswith(".onnx"):
        return OnnxBackbone(spec, n_jobs=n_jobs)
    raise BackboneError(
        f"backbone {spec!r} is unknown: give 'embedded', the path of a file that ends in .onnx, "
        "or 'timm:' and the name of a model."
    )


class OnnxBackbone:
    """A network in an ONNX file.

    Parameters
    ----------
    source : path or bytes
        The file. Its input takes pictures as n x 3 x h x w or n x h x w x 3. A uint8 input gets the
        pixels as they are; a float input gets ``(pixels / 255 - mean) / std``.
    mean, std : three floats
        Of the network's training pictures; ImageNet's usual ones if not given. Unused for uint8.
    size : (width, height), optional
        Needed only where the file leaves the size open.
    output : str, optional
        Name of the output to use; the first if not given. Feature maps (n x d x h x w) are averaged
        over the picture.
    interpolation : str, optional
        "bilinear", "bicubic" or "lanczos"; if not given, what the file's metadata says under
        "interpolation", else "bilinear".
    n_jobs : int or None
        Threads: None is one, -1 all cores.
    """

    def __init__(
        self,
        source: str | os.PathLike[str] | bytes,
        *,
        mean: Sequence[float] = IMAGENET_MEAN,
        std: Sequence[float] = IMAGENET_STD,
        size: tuple[int, int] | None = None,
        output: str | None = None,
        interpolation: str | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.spec = "onnx" if isinstance(source, bytes) else os.fspath(source)
        self.n_jobs = n_jobs
        data = source if isinstance(source, bytes) else _read(self.spec)
        self._session = _session(data, self.spec)
        self._mean, self._std = (255 * np.array(given, np.float32) for given in (mean, std))
        if self._mean.shape != (3,) or self._std.shape != (3,) or not (self._std > 0).all():
            raise BackboneError(f"mean={mean!r} and std={std!r}: three numbers each, std above 0.")
        inputs = self._session.get_inputs()
        if len(inputs) != 1 or inputs[0].type not in _DTYPES or len(inputs[0].shape) != 4:
            given = ", ".join(f"{put.name} {put.type} {put.shape}" for put in inputs)
            raise BackboneError(
                f"{self.spec} takes {given}; one input of n pictures, uint8 or float, is needed."
            )
        self._input, self._dtype = inputs[0].name, _DTYPES[inputs[0].type]
        self._one_by_one = inputs[0].shape[0] == 1
        self._channels_first, self.size = _layout(inputs[0].shape, size, self.spec)
        outputs = [put.name for put in self._session.get_outputs()]
        self._output = output or outputs[0]
        if self._output not in outputs:
            raise BackboneError(
                f"{self.spec} has no output {output!r}; it has {', '.join(outputs)}."
            )
        stated = self._session.get_modelmeta().custom_metadata_map.get("interpolation")
        self.interpolation = interpolation or stated or "bilinear"
        recipe = (
            self._mean.tolist(),
            self._std.tolist(),
            self.size,
            self._output,
            self.interpolation,
        )
        digest = hashlib.sha256(data)
        digest.update(repr(recipe).encode())
        self.fingerprint = digest.hexdigest()
        shape = self._session.get_outputs()[outputs.index(self._output)].shape
        # A file need not say how long its vectors are: then a blank picture does.
        self.width = (
            shape[1]
            if len(shape) in (2, 4) and isinstance(shape[1], int)
            else self(np.zeros((1, self.size[1], self.size[0], 3), np.uint8)).shape[1]
        )

    def __call__(self, pixels: Pixels) -> Floats:
        """Pixels (n x height x width x 3, uint8) -> vectors (n x width, float32)."""
        n, n_threads = len(pixels), count_threads(self.n_jobs)
        n_blocks = -(-n // (BLOCK * n_threads)) * n_threads  # as many for each thread
        size = 1 if self._one_by_one else -(-n // n_blocks)
        return run(Threads(self.n_jobs), _vectors, [pixels], [self], size=size)

    def forward(self, pixels: Pixels) -> Floats:
        """One block through the network, in the thread that asks."""
        values = pixels if self._dtype is np.uint8 else (pixels - self._mean) / self._std
        if self._channels_first:
            values = values.transpose(0, 3, 1, 2)
        given = {self._input: np.ascontiguousarray(values, self._dtype)}
        result: Array = self._session.run([self._output], given)[0]
        if result.ndim == 4:
            result = result.mean(axis=(2, 3))
        if result.ndim != 2 or len(result) != len(pixels):
            raise BackboneError(
                f"{self.spec} gives {self._output} of shape {result.shape} for {len(pixels)} "
                "pictures; one vector or one set of feature maps for each is needed."
            )
        return result.astype(np.float32, copy=False)


class EmbeddedBackbone(OnnxBackbone):
    """EfficientNet-Lite0 up to its pooled layer: 224 x 224 -> 1280, by onnxruntime alone.

    The file is made by tools/embed_lite0.py.
    """

    def __init__(self, *, n_jobs: int | None = None) -> None:
        super().__init__(Path(__file__).with_name(EMBEDDED).read_bytes(), n_jobs=n_jobs)
        self.spec = "embedded"


def _vectors(pixels: Pixels, network: OnnxBackbone) -> Floats:
    return network.forward(pixels)


def _read(path: str) -> bytes:
    try:
        return read_bytes(path, max_bytes=MAX_BYTES)
    except ImageError as error:  # which says only what is wrong with a file
        raise BackboneError(f"the network {path} {error}.") from None


def _runtime() -> Any:
    """onnxruntime, kept from calling home: from 1.29 on it tells its makers of every network.

    It reads the variable when it is loaded. Where a host program loaded it before, and on Windows,
    where the variable says nothing to it, the call stops what can still be stopped.
    """
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    import onnxruntime

    quiet = getattr(onnxruntime, "disable_telemetry_events", None)
    if quiet is not None:
        quiet()
    return onnxruntime


def _session(data: bytes, name: str) -> Any:
    onnxruntime = _runtime()
    options = onnxruntime.SessionOptions()
    # One thread a run, several runs at once: on few cores this wastes nothing on waiting, where
    # onnxruntime's own pool costs 15 % and, left alone, is as large as the host has cores.
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's exceptions share no public base
        raise BackboneError(f"onnxruntime cannot load {name}: {error}") from None


def _layout(
    shape: Sequence[int | str | None], size: tuple[int, int] | None, name: str
) -> tuple[bool, tuple[int, int]]:
    """Whether channels come first, and the (width, height) of the input."""
    channels_first = shape[1] == 3
    if not channels_first and shape[3] != 3:
        raise BackboneError(f"{name} takes {shape}; n x 3 x h x w or n x h x w x 3 is needed.")
    height, width = shape[2:] if channels_first else shape[1:3]
    fixed = (width, height) if isinstance(width, int) and isinstance(height, int) else None
    if fixed is None and size is None:
        raise BackboneError(f"{name} leaves the size of its input open: give size=(width, height).")
    if fixed and size and fixed != tuple(size):
        raise BackboneError(f"size={size}, but {name} takes only {fixed}.")
    return channels_first, fixed or (int(size[0]), int(size[1]))  # type: ignore[index]
