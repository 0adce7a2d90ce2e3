"""Backbones in ONNX files, including the embedded ones, and the loader of all backbones."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from weakref import WeakValueDictionary

import numpy as np

from prototag.arrays import Array, Floats
from prototag.engine import Threads, batch_slices, map_rows
from prototag.errors import BackboneError, ImageError
from prototag.features.backbones.onnx_external import refuse_external_data
from prototag.images.decode import Pixels, Size, read_bytes

MAX_BYTES = 2 << 30  # limit of ONNX for one file
EMBEDDED = "efficientnet_lite{}.onnx"
# Pixels per inference of a thread: one large crop, or three of 224 x 224. Larger batches are not
# faster, because their activations no longer fit the processor caches.
BATCH_PIXELS = 448 * 336
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
_DTYPES = {"tensor(uint8)": np.uint8, "tensor(float)": np.float32, "tensor(float16)": np.float16}


class Backbone(Protocol):
    """Interface of a backbone.

    Optional attributes: ``shapes``, input sizes of which the nearest to the aspect ratio of a
    picture is used. ``outputs``, an :class:`Output` for the name of each feature group; the
    backbone is then called with names, and concatenates these groups. ``alone``, the same call in
    the calling thread, safe for several threads.
    """

    spec: str  # name for :func:`load`
    fingerprint: str  # of weights and preprocessing: equal fingerprints give equal vectors
    size: Size  # width and height of the input
    interpolation: str  # for resizing to that size: a name of PIL.Image.Resampling
    width: int  # length of the vectors

    def __call__(self, pixels: Pixels) -> Floats:
        """Compute vectors (n x width, float32) of pixels (n x height x width x 3, uint8)."""
        ...


class Output(NamedTuple):
    """One feature group that a backbone computes."""

    width: int
    fingerprint: str  # of the weights and preprocessing that it depends on


def outputs(network: Backbone) -> dict[str, Output]:
    """Return the feature groups of a backbone by name; a minimal backbone has only ``last``."""
    named: dict[str, Output] | None = getattr(network, "outputs", None)
    return named or {"last": Output(network.width, network.fingerprint)}


def compute(network: Backbone, stacks: Sequence[Pixels], names: Sequence[str]) -> list[Floats]:
    """Compute the vectors of stacks of crops; stacks of one shape form a batch."""
    results: list[Any] = [None] * len(stacks)
    more = [names] if hasattr(network, "outputs") else []
    for shape in {stack.shape[1:] for stack in stacks}:
        rows = [row for row, stack in enumerate(stacks) if stack.shape[1:] == shape]
        vectors = network(np.concatenate([stacks[row] for row in rows]), *more)
        ends = np.cumsum([len(stacks[row]) for row in rows])[:-1]
        for row, part in zip(rows, np.split(vectors, ends), strict=True):
            results[row] = part
    return results


def load(spec: str | os.PathLike[str] | Backbone, *, n_jobs: int | None = None) -> Backbone:
    """Load a backbone.

    Parameters
    ----------
    spec : "embedded", "quick", "best", path of an ONNX file, "timm:NAME", or a backbone
        "quick" is the embedded network with 8-bit arithmetic, "best" an ensemble of it and a
        second. A JSON file beside an ONNX file has settings that the ONNX file lacks:
        docs/reference/networks.md.
        NAME is a model of timm, or one of the paper's four: vgg-16, resnet-101, densenet-161,
        efficientnet-b7.
    n_jobs : int or None
        Threads of the backbone; ignored if ``spec`` is a backbone already.
    """
    if callable(spec):
        return spec
    spec = os.fspath(spec)
    if spec == "embedded":
        return EmbeddedBackbone(n_jobs=n_jobs)
    if spec == "quick":
        return EmbeddedBackbone("0_int8", n_jobs=n_jobs)
    if spec == "best":
        from prototag.features.backbones.ensemble import best

        return best(n_jobs=n_jobs)
    if spec.startswith("timm:"):
        from prototag.features.backbones.timm import TimmBackbone

        return TimmBackbone(spec.removeprefix("timm:"), n_jobs=n_jobs)
    if spec.endswith(".onnx"):
        from prototag.features.backbones.onnx_settings import read_settings

        return OnnxBackbone(spec, **read_settings(Path(spec)), n_jobs=n_jobs)
    raise BackboneError(
        f"backbone {spec!r} is unknown: give 'embedded', 'quick', 'best', the path of a file that "
        "ends in .onnx, or 'timm:' and the name of a model."
    )


class OnnxBackbone:
    """Backbone in an ONNX file.

    Parameters
    ----------
    source : path or bytes
        The file. Its input is n x 3 x h x w or n x h x w x 3. A uint8 input receives unchanged
        pixels; a float input receives ``(pixels / 255 - mean) / std``.
    mean, std : three floats
        Normalization; by default that of ImageNet. Unused for uint8.
    size : (width, height), optional
        Input size, if it is not fixed in the file.
    shapes : sequence of (width, height), optional
        Input sizes for ``crops="large"``, if the size is not fixed in the file.
    layout : {"nchw", "nhwc"}, optional
        Axis order, if the file leaves it open.
    output : str, optional
        Name of the output; by default the first. Feature maps (n x d x h x w) are averaged over the
        picture.
    pool : {"first", "mean"}
        Pooling of an output of tokens (n x tokens x d).
    interpolation : str, optional
        "bilinear", "bicubic" or "lanczos"; by default from the metadata of the file, else
        "bilinear".
    n_jobs : int or None
        Threads: None is one, -1 all cores.
    """

    _is_embedded = False  # embedded files are not searched for external data

    def __init__(
        self,
        source: str | os.PathLike[str] | bytes,
        *,
        mean: Sequence[float] = IMAGENET_MEAN,
        std: Sequence[float] = IMAGENET_STD,
        size: Size | None = None,
        shapes: Sequence[Size] | None = None,
        layout: str | None = None,
        output: str | None = None,
        pool: str = "first",
        interpolation: str | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.spec = "onnx" if isinstance(source, bytes) else os.fspath(source)
        self.n_jobs = n_jobs
        data = source if isinstance(source, bytes) else _read(self.spec)
        if not self._is_embedded:
            refuse_external_data(data, self.spec)
        content = hashlib.sha256(data)
        self._session = _shared_session(content.digest(), data, self.spec)
        self._mean, self._std = (255 * np.array(values, np.float32) for values in (mean, std))
        if self._mean.shape != (3,) or self._std.shape != (3,) or not (self._std > 0).all():
            raise BackboneError(f"mean={mean!r} and std={std!r}: three numbers each, std above 0.")
        image_input = _image_input(self._session, self.spec)
        self._input = image_input.name
        self._dtype = _DTYPES[image_input.type]
        self._has_batch_size_1 = image_input.shape[0] == 1
        modelmeta = self._session.get_modelmeta()
        metadata = modelmeta.custom_metadata_map
        if modelmeta.producer_name.startswith("prototag"):  # other producers have other keys
            size = size or _parse_sizes(metadata["size"])[0]
            shapes = shapes or _parse_sizes(metadata["shapes"])
            outputs = metadata["outputs"].split()
        else:
            outputs = []
        self._channels_first, self.size = _layout(image_input.shape, size, layout, self.spec)
        self.shapes = tuple(shapes or [self.size])
        if isinstance(image_input.shape[2], int) and {*self.shapes} != {self.size}:
            raise BackboneError(f"{self.spec} takes pictures of {self.size} only, no other shapes.")
        self._pool = pool
        self.interpolation = interpolation or metadata.get("interpolation") or "bilinear"
        shape_of = {node.name: node.shape for node in self._session.get_outputs()}
        names = [output] if output else outputs or [next(iter(shape_of))]
        for name in names:
            if name not in shape_of:
                raise BackboneError(
                    f"{self.spec} has no output {name!r}; it has {', '.join(shape_of)}."
                )
        self._names = dict(zip(["last", *names[1:]], names, strict=True))
        scaling = self._mean.tolist(), self._std.tolist()
        recipe = (*scaling, self.size, self.shapes, names, pool, self.interpolation)
        content.update(repr(recipe).encode())
        self.fingerprint = content.hexdigest()
        self.outputs = {
            group: Output(self._width(group, shape_of[name]), self.fingerprint)
            for group, name in self._names.items()
        }
        self.width = self.outputs["last"].width

    def _width(self, group: str, shape: Sequence[int | str | None]) -> int:
        """Return the width of a feature group, by a test run if the file leaves it open."""
        if len(shape) in (2, 4) and isinstance(shape[1], int):
            return shape[1]
        blank = np.zeros((1, self.size[1], self.size[0], 3), np.uint8)
        return int(self.forward(blank, [group]).shape[1])

    def __call__(self, pixels: Pixels, names: Sequence[str] = ("last",)) -> Floats:
        """Compute vectors (n x width, float32) of pixels (n x height x width x 3, uint8).

        The feature groups ``names`` are concatenated.
        """
        size = self._batch_size(pixels)
        return map_rows(Threads(self.n_jobs), _vectors, [pixels], [self, names], size=size)

    def alone(self, pixels: Pixels, names: Sequence[str]) -> Floats:
        """Compute vectors in the calling thread; safe for several threads."""
        parts = batch_slices(len(pixels), self._batch_size(pixels))
        return np.concatenate([self.forward(pixels[part], names) for part in parts])

    def _batch_size(self, pixels: Pixels) -> int:
        size = BATCH_PIXELS // max(1, pixels.shape[1] * pixels.shape[2])
        return 1 if self._has_batch_size_1 else max(1, size)

    def release(self) -> None:
        """Free the buffers of earlier runs, 20 MB for each thread.

        onnxruntime frees them only at the end of a run, so this runs a blank picture.
        """
        options = _runtime().RunOptions()
        options.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
        blank = np.zeros((1, self.size[1], self.size[0], 3), np.uint8)
        self._session.run([self._names["last"]], self._inputs(blank), options)

    def _inputs(self, pixels: Pixels) -> dict[str, Array]:
        values = pixels if self._dtype is np.uint8 else (pixels - self._mean) / self._std
        if self._channels_first:
            values = values.transpose(0, 3, 1, 2)
        return {self._input: np.ascontiguousarray(values, self._dtype)}

    def forward(self, pixels: Pixels, names: Sequence[str]) -> Floats:
        """Run one batch in the calling thread."""
        output_names = [self._names[name] for name in names]
        results: list[Array] = self._session.run(output_names, self._inputs(pixels))
        for position, result in enumerate(results):
            if result.ndim == 4:
                results[position] = result.mean(axis=(2, 3))
            elif result.ndim == 3:  # tokens of a transformer
                results[position] = result[:, 0] if self._pool == "first" else result.mean(axis=1)
            if results[position].ndim != 2 or len(result) != len(pixels):
                raise BackboneError(
                    f"{self.spec} returns {output_names[position]} of shape {result.shape} for "
                    f"{len(pixels)} pictures; one vector, set of feature maps or row of tokens for "
                    "each is needed."
                )
        return np.concatenate(results, axis=1, dtype=np.float32)


class EmbeddedBackbone(OnnxBackbone):
    """EfficientNet-Lite0 (number "0", with 8-bit arithmetic "0_int8") or Lite2, without classifier.

    The input may have any size. The feature groups are the average of the last map (``last``, 1280
    columns) and of two inner maps (``inner``, 992). tools/embed_lite.py writes the files.
    """

    _is_embedded = True

    def __init__(self, number: str = "0", *, n_jobs: int | None = None) -> None:
        file = Path(__file__).with_name(EMBEDDED.format(number))
        super().__init__(file.read_bytes(), n_jobs=n_jobs)
        self.spec = "quick" if number == "0_int8" else "embedded"


def _vectors(pixels: Pixels, network: OnnxBackbone, names: Sequence[str]) -> Floats:
    return network.forward(pixels, names)


def _read(path: str) -> bytes:
    try:
        return read_bytes(path, max_bytes=MAX_BYTES)
    except ImageError as error:  # its message lacks the subject
        raise BackboneError(f"the network {path} {error}.") from None


def _runtime() -> Any:
    """Import onnxruntime with telemetry disabled, which version 1.29 and later send by default.

    onnxruntime reads the environment variable on import. The call disables telemetry if a host
    program has imported it before, and on Windows, where the variable has no effect.
    """
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    import onnxruntime

    disable = getattr(onnxruntime, "disable_telemetry_events", None)
    if disable is not None:
        disable()
    return onnxruntime


# Sessions by the digests of their files. A library and its model share the session of a network,
# which needs 100 MB with its buffers. Sessions are thread-safe.
_sessions: WeakValueDictionary[bytes, Any] = WeakValueDictionary()
_loading = threading.Lock()


def _image_input(session: Any, name: str) -> Any:
    """Return the one input of a network; raise BackboneError if it does not take images."""
    inputs = session.get_inputs()
    if len(inputs) != 1 or inputs[0].type not in _DTYPES or len(inputs[0].shape) != 4:
        signature = ", ".join(f"{node.name} {node.type} {node.shape}" for node in inputs)
        raise BackboneError(
            f"{name} takes {signature}; one input of n pictures, uint8 or float, is needed."
        )
    return inputs[0]


def _shared_session(content: bytes, data: bytes, name: str) -> Any:
    """Return the session of a network; it is shared while it is in use."""
    with _loading:
        session = _sessions.get(content)
        if session is None:
            session = _sessions[content] = _session(data, name)
        return session


def _session(data: bytes, name: str) -> Any:
    onnxruntime = _runtime()
    options = onnxruntime.SessionOptions()
    # One thread per run and several runs at once: with few cores, onnxruntime's own thread pool is
    # 15% slower, and by default it uses all cores of the host.
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    # Memory patterns need 20 MB more for each input shape, and are not faster.
    options.enable_mem_pattern = False
    try:
        return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's exceptions share no public base
        raise BackboneError(f"onnxruntime cannot load {name}: {error}") from None


def _parse_sizes(text: str) -> list[Size]:
    """Parse sizes in the metadata of an embedded file, such as "448x336 336x448"."""
    sizes = (size.split("x") for size in text.split())
    return [(int(width), int(height)) for width, height in sizes]


def _layout(
    shape: Sequence[int | str | None], size: Size | None, layout: str | None, name: str
) -> tuple[bool, Size]:
    """Return whether channels come first, and the (width, height) of the input."""
    channels_first = shape[1] == 3 if layout is None else layout == "nchw"
    channels = shape[1] if channels_first else shape[3]
    if channels != 3 and (layout is None or isinstance(channels, int)):
        raise BackboneError(f"{name} takes {shape}; n x 3 x h x w or n x h x w x 3 is needed.")
    height, width = shape[2:] if channels_first else shape[1:3]
    fixed = (width, height) if isinstance(width, int) and isinstance(height, int) else None
    if fixed is None and size is None:
        raise BackboneError(f"{name} leaves the size of its input open: give size=(width, height).")
    if fixed and size and fixed != tuple(size):
        raise BackboneError(f"size={size}, but {name} takes only {fixed}.")
    return channels_first, fixed or (int(size[0]), int(size[1]))  # type: ignore[index]
