"""Networks in ONNX files, the embedded one among them, and how a network is found by its name."""

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

MAX_BYTES = 2 << 30  # of a network; ONNX allows no more in one file
EMBEDDED = "efficientnet_lite{}.onnx"
# Pixels that one thread takes through the network at once: one large pass, or three pictures of
# 224 x 224. More do not make it faster, but their activations no longer fit the caches.
AT_ONCE = 448 * 336
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
_DTYPES = {"tensor(uint8)": np.uint8, "tensor(float)": np.float32, "tensor(float16)": np.float16}


class Backbone(Protocol):
    """What the rest of the package asks of a network.

    One that has more to give says so by further attributes. ``shapes``: sizes, ``size`` among them
    or not, of which a picture is shown in the nearest. ``outputs``: an :class:`Output` by the name
    of each block that it can give; it is then called with their names as well, and lays them side
    by side. ``alone``: the same call, computed in the thread that asks, of several threads at once.
    """

    spec: str  # what :func:`load` finds it by
    fingerprint: str  # of weights and preprocessing: equal fingerprints give equal vectors
    size: Size  # width and height of the pictures it takes
    interpolation: str  # how pictures are brought to that size: a name of PIL.Image.Resampling
    width: int  # length of the vectors

    def __call__(self, pixels: Pixels) -> Floats:
        """Pixels (n x height x width x 3, uint8) -> vectors (n x width, float32)."""
        ...


class Output(NamedTuple):
    """One block of vectors that a network gives."""

    width: int
    fingerprint: str  # of what computes it


def outputs(network: Backbone) -> dict[str, Output]:
    """The blocks that a network can give, by name; a plain one gives ``last`` alone."""
    given: dict[str, Output] | None = getattr(network, "outputs", None)
    return given or {"last": Output(network.width, network.fingerprint)}


def compute(network: Backbone, stacks: Sequence[Pixels], names: Sequence[str]) -> list[Floats]:
    """Vectors of pictures that are given in stacks, each stack of one shape."""
    found: list[Any] = [None] * len(stacks)
    more = [names] if hasattr(network, "outputs") else []
    for shape in {stack.shape[1:] for stack in stacks}:  # by shape, for it takes one at a time
        rows = [row for row, stack in enumerate(stacks) if stack.shape[1:] == shape]
        vectors = network(np.concatenate([stacks[row] for row in rows]), *more)
        ends = np.cumsum([len(stacks[row]) for row in rows])[:-1]
        for row, part in zip(rows, np.split(vectors, ends), strict=True):
            found[row] = part
    return found


def load(spec: str | os.PathLike[str] | Backbone, *, n_jobs: int | None = None) -> Backbone:
    """The network that ``spec`` names.

    Parameters
    ----------
    spec : "embedded", "quick", "best", path of an ONNX file, "timm:NAME", or a backbone
        "quick" is the embedded network with 8-bit arithmetic, "best" the embedded one and a second.
        A JSON file beside an ONNX file says what that does not say of itself:
        docs/reference/networks.md.
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
    if spec == "quick":
        return EmbeddedBackbone("0_int8", n_jobs=n_jobs)
    if spec == "best":
        from prototag.features.backbones.ensemble import best

        return best(n_jobs=n_jobs)
    if spec.startswith("timm:"):
        from prototag.features.backbones.timm import TimmBackbone

        return TimmBackbone(spec.removeprefix("timm:"), n_jobs=n_jobs)
    if spec.endswith(".onnx"):
        from prototag.features.backbones.onnx_settings import described

        return OnnxBackbone(spec, **described(Path(spec)), n_jobs=n_jobs)
    raise BackboneError(
        f"backbone {spec!r} is unknown: give 'embedded', 'quick', 'best', the path of a file that "
        "ends in .onnx, or 'timm:' and the name of a model."
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
    shapes : sequence of (width, height), optional
        Where it does: sizes of which a large pass takes the nearest to the shape of a picture.
    layout : {"nchw", "nhwc"}, optional
        Where the file does not say which side is the colours.
    output : str, optional
        Name of the output to use; the first if not given. Feature maps (n x d x h x w) are averaged
        over the picture.
    pool : {"first", "mean"}
        What is taken of an output of tokens (n x tokens x d).
    interpolation : str, optional
        "bilinear", "bicubic" or "lanczos"; if not given, what the file's metadata says under
        "interpolation", else "bilinear".
    n_jobs : int or None
        Threads: None is one, -1 all cores.
    """

    _is_of_the_package = False  # a file that need not be searched for the names of others

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
        if not self._is_of_the_package:
            refuse_external_data(data, self.spec)
        content = hashlib.sha256(data)
        self._session = _shared_session(content.digest(), data, self.spec)
        self._mean, self._std = (255 * np.array(given, np.float32) for given in (mean, std))
        if self._mean.shape != (3,) or self._std.shape != (3,) or not (self._std > 0).all():
            raise BackboneError(f"mean={mean!r} and std={std!r}: three numbers each, std above 0.")
        image_input = _image_input(self._session, self.spec)
        self._input = image_input.name
        self._dtype = _DTYPES[image_input.type]
        self._one_by_one = image_input.shape[0] == 1
        about = self._session.get_modelmeta()
        stated = about.custom_metadata_map
        if about.producer_name.startswith("prototag"):  # what others mean by these words is unknown
            size = size or _sizes(stated["size"])[0]
            shapes = shapes or _sizes(stated["shapes"])
            outputs = stated["outputs"].split()
        else:
            outputs = []
        self._channels_first, self.size = _layout(image_input.shape, size, layout, self.spec)
        self.shapes = tuple(shapes or [self.size])
        if isinstance(image_input.shape[2], int) and {*self.shapes} != {self.size}:
            raise BackboneError(f"{self.spec} takes pictures of {self.size} only, no other shapes.")
        self._pool = pool
        self.interpolation = interpolation or stated.get("interpolation") or "bilinear"
        found = {put.name: put.shape for put in self._session.get_outputs()}
        names = [output] if output else outputs or [next(iter(found))]
        for name in names:
            if name not in found:
                raise BackboneError(
                    f"{self.spec} has no output {name!r}; it has {', '.join(found)}."
                )
        self._names = dict(zip(["last", *names[1:]], names, strict=True))
        scaling = self._mean.tolist(), self._std.tolist()
        recipe = (*scaling, self.size, self.shapes, names, pool, self.interpolation)
        content.update(repr(recipe).encode())
        self.fingerprint = content.hexdigest()
        self.outputs = {
            block: Output(self._measure(block, found[name]), self.fingerprint)
            for block, name in self._names.items()
        }
        self.width = self.outputs["last"].width

    def _measure(self, block: str, shape: Sequence[int | str | None]) -> int:
        """Length of a block. A file need not say it: then a blank picture does."""
        if len(shape) in (2, 4) and isinstance(shape[1], int):
            return shape[1]
        blank = np.zeros((1, self.size[1], self.size[0], 3), np.uint8)
        return int(self.forward(blank, [block]).shape[1])

    def __call__(self, pixels: Pixels, names: Sequence[str] = ("last",)) -> Floats:
        """Pixels (n x height x width x 3, uint8) -> vectors (n x width, float32).

        The blocks called ``names`` lie side by side.
        """
        size = self._at_once(pixels)
        return map_rows(Threads(self.n_jobs), _vectors, [pixels], [self, names], size=size)

    def alone(self, pixels: Pixels, names: Sequence[str]) -> Floats:
        """The same in the thread that asks; several may ask at once."""
        parts = batch_slices(len(pixels), self._at_once(pixels))
        return np.concatenate([self.forward(pixels[part], names) for part in parts])

    def _at_once(self, pixels: Pixels) -> int:
        room = AT_ONCE // max(1, pixels.shape[1] * pixels.shape[2])
        return 1 if self._one_by_one else max(1, room)

    def release(self) -> None:
        """Free the buffers of earlier runs, 20 MB for each thread; the next run makes new ones.

        onnxruntime frees them only at the end of a run, so a blank picture is run.
        """
        options = _runtime().RunOptions()
        options.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
        blank = np.zeros((1, self.size[1], self.size[0], 3), np.uint8)
        self._session.run([self._names["last"]], self._fed(blank), options)

    def _fed(self, pixels: Pixels) -> dict[str, Array]:
        values = pixels if self._dtype is np.uint8 else (pixels - self._mean) / self._std
        if self._channels_first:
            values = values.transpose(0, 3, 1, 2)
        return {self._input: np.ascontiguousarray(values, self._dtype)}

    def forward(self, pixels: Pixels, names: Sequence[str]) -> Floats:
        """One block through the network, in the thread that asks."""
        asked = [self._names[name] for name in names]
        results: list[Array] = self._session.run(asked, self._fed(pixels))
        for place, result in enumerate(results):
            if result.ndim == 4:
                results[place] = result.mean(axis=(2, 3))
            elif result.ndim == 3:  # tokens of a transformer
                results[place] = result[:, 0] if self._pool == "first" else result.mean(axis=1)
            if results[place].ndim != 2 or len(result) != len(pixels):
                raise BackboneError(
                    f"{self.spec} gives {asked[place]} of shape {result.shape} for {len(pixels)} "
                    "pictures; one vector, set of feature maps or row of tokens for each is needed."
                )
        return np.concatenate(results, axis=1, dtype=np.float32)


class EmbeddedBackbone(OnnxBackbone):
    """EfficientNet-Lite0 (number "0", with 8-bit arithmetic "0_int8") or Lite2, up to its classes.

    Takes pictures of any size. Gives the average of its last map (``last``, 1280) and of two maps
    on the way (``inner``, 992). The file is made by tools/embed_lite.py.
    """

    _is_of_the_package = True

    def __init__(self, number: str = "0", *, n_jobs: int | None = None) -> None:
        file = Path(__file__).with_name(EMBEDDED.format(number))
        super().__init__(file.read_bytes(), n_jobs=n_jobs)
        self.spec = "quick" if number == "0_int8" else "embedded"


def _vectors(pixels: Pixels, network: OnnxBackbone, names: Sequence[str]) -> Floats:
    return network.forward(pixels, names)


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


# Sessions in use by the digests of their files. A library and its model use the same network, which
# with its buffers takes 100 MB; any number of threads may run one session.
_sessions: WeakValueDictionary[bytes, Any] = WeakValueDictionary()
_loading = threading.Lock()


def _image_input(session: Any, name: str) -> Any:
    """Return the one input of a network; raise BackboneError if it does not take images."""
    inputs = session.get_inputs()
    if len(inputs) != 1 or inputs[0].type not in _DTYPES or len(inputs[0].shape) != 4:
        given = ", ".join(f"{put.name} {put.type} {put.shape}" for put in inputs)
        raise BackboneError(
            f"{name} takes {given}; one input of n pictures, uint8 or float, is needed."
        )
    return inputs[0]


def _shared_session(content: bytes, data: bytes, name: str) -> Any:
    """The session of a network, loaded once as long as somebody uses it."""
    with _loading:
        session = _sessions.get(content)
        if session is None:
            session = _sessions[content] = _session(data, name)
        return session


def _session(data: bytes, name: str) -> Any:
    onnxruntime = _runtime()
    options = onnxruntime.SessionOptions()
    # One thread a run, several runs at once: on few cores this wastes nothing on waiting, where
    # onnxruntime's own pool costs 15 % and, left alone, is as large as the host has cores.
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    # A pattern is one block for all of a run, per shape of pictures: 20 MB more, and not faster.
    options.enable_mem_pattern = False
    try:
        return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's exceptions share no public base
        raise BackboneError(f"onnxruntime cannot load {name}: {error}") from None


def _sizes(text: str) -> list[Size]:
    """Sizes that a file of ours states, such as "448x336 336x448"."""
    sizes = (size.split("x") for size in text.split())
    return [(int(width), int(height)) for width, height in sizes]


def _layout(
    shape: Sequence[int | str | None], size: Size | None, layout: str | None, name: str
) -> tuple[bool, Size]:
    """Whether channels come first, and the (width, height) of the input."""
    channels_first = shape[1] == 3 if layout is None else layout == "nchw"
    colours = shape[1] if channels_first else shape[3]
    if colours != 3 and (layout is None or isinstance(colours, int)):
        raise BackboneError(f"{name} takes {shape}; n x 3 x h x w or n x h x w x 3 is needed.")
    height, width = shape[2:] if channels_first else shape[1:3]
    fixed = (width, height) if isinstance(width, int) and isinstance(height, int) else None
    if fixed is None and size is None:
        raise BackboneError(f"{name} leaves the size of its input open: give size=(width, height).")
    if fixed and size and fixed != tuple(size):
        raise BackboneError(f"size={size}, but {name} takes only {fixed}.")
    return channels_first, fixed or (int(size[0]), int(size[1]))  # type: ignore[index]
