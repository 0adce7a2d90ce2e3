"""Several networks that look at the same pixels, their blocks side by side: the choice "best"."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np

from prototag.arrays import Floats
from prototag.engine import Threads, batch_slices, map_rows
from prototag.features.backbones.onnx import EmbeddedBackbone, OnnxBackbone, Output
from prototag.images.decode import Pixels


class SeveralBackbones:
    """Networks of one size and one way of resizing, as if they were one.

    Parameters
    ----------
    networks : mapping of str to OnnxBackbone
        By the prefix that the names of their blocks get; the first has ``""``. Only those of which
        a block is wanted are run.
    spec : str
        What the whole is called.
    n_jobs : int or None
        Threads: None is one, -1 all cores.
    """

    def __init__(
        self, networks: Mapping[str, OnnxBackbone], spec: str, *, n_jobs: int | None = None
    ) -> None:
        self.spec = spec
        self.n_jobs = n_jobs
        self._networks = dict(networks)
        first = self._networks[""]
        self.size = first.size
        self.shapes = first.shapes
        self.interpolation = first.interpolation
        self.width = first.width
        self._place = {
            prefix + name: (prefix, name)
            for prefix, network in self._networks.items()
            for name in network.outputs
        }
        self.outputs: dict[str, Output] = {
            block: self._networks[prefix].outputs[name]
            for block, (prefix, name) in self._place.items()
        }
        marks = [(prefix, network.fingerprint) for prefix, network in self._networks.items()]
        self.fingerprint = hashlib.sha256(repr(marks).encode()).hexdigest()

    def __call__(self, pixels: Pixels, names: Sequence[str] = ("last",)) -> Floats:
        """Pixels (n x height x width x 3, uint8) -> vectors (n x width, float32)."""
        return map_rows(Threads(self.n_jobs), _vectors, [pixels], [self, names], size=1)

    def alone(self, pixels: Pixels, names: Sequence[str]) -> Floats:
        """The same in the thread that asks; several may ask at once."""
        found: dict[str, Floats] = {}
        for prefix, network in self._networks.items():
            wanted = [name for name in names if self._place[name][0] == prefix]
            if wanted:
                inner = [self._place[name][1] for name in wanted]
                ends = np.cumsum([network.outputs[name].width for name in inner])[:-1]
                parts = np.split(network.alone(pixels, inner), ends, axis=1)
                found.update(zip(wanted, parts, strict=True))
        return np.concatenate([found[name] for name in names], axis=1)

    def release(self) -> None:
        """Free the buffers of earlier runs."""
        for network in self._networks.values():
            network.release()


def best(*, n_jobs: int | None = None) -> SeveralBackbones:
    """EfficientNet-Lite0 and EfficientNet-Lite2; the blocks of the second begin with ``lite2.``"""
    networks = {prefix: EmbeddedBackbone(number, n_jobs=1) for prefix, number in _BEST.items()}
    return SeveralBackbones(networks, "best", n_jobs=n_jobs)


_BEST = {"": "0", "lite2.": "2"}


def _vectors(pixels: Pixels, network: SeveralBackbones, names: Sequence[str]) -> Floats:
    parts = [network.alone(pixels[rows], names) for rows in batch_slices(len(pixels), 1)]
    return np.concatenate(parts)
