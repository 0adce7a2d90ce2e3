"""Ensemble of backbones with concatenated feature groups: the backbone "best"."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np

from prototag.arrays import Floats
from prototag.engine import Threads, batch_slices, map_rows
from prototag.features.backbones.onnx import EmbeddedBackbone, OnnxBackbone, Output
from prototag.images.decode import Pixels


class EnsembleBackbone:
    """Ensemble of backbones with the same input size and interpolation.

    Parameters
    ----------
    networks : mapping of str to OnnxBackbone
        Backbones by the prefix of their feature groups; the first has ``""``. Only backbones with a
        requested feature group are run.
    spec : str
        Name of the ensemble.
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
        self._member_of = {
            prefix + name: (prefix, name)
            for prefix, network in self._networks.items()
            for name in network.outputs
        }
        self.outputs: dict[str, Output] = {
            group: self._networks[prefix].outputs[name]
            for group, (prefix, name) in self._member_of.items()
        }
        fingerprints = [(prefix, network.fingerprint) for prefix, network in self._networks.items()]
        self.fingerprint = hashlib.sha256(repr(fingerprints).encode()).hexdigest()

    def __call__(self, pixels: Pixels, names: Sequence[str] = ("last",)) -> Floats:
        """Compute vectors (n x width, float32) of pixels (n x height x width x 3, uint8)."""
        return map_rows(Threads(self.n_jobs), _vectors, [pixels], [self, names], size=1)

    def alone(self, pixels: Pixels, names: Sequence[str]) -> Floats:
        """Compute vectors in the calling thread; safe for several threads."""
        results: dict[str, Floats] = {}
        for prefix, network in self._networks.items():
            own = [name for name in names if self._member_of[name][0] == prefix]
            if own:
                inner = [self._member_of[name][1] for name in own]
                ends = np.cumsum([network.outputs[name].width for name in inner])[:-1]
                parts = np.split(network.alone(pixels, inner), ends, axis=1)
                results.update(zip(own, parts, strict=True))
        return np.concatenate([results[name] for name in names], axis=1)

    def release(self) -> None:
        """Free the buffers of earlier runs."""
        for network in self._networks.values():
            network.release()


def best(*, n_jobs: int | None = None) -> EnsembleBackbone:
    """Load EfficientNet-Lite0 and Lite2; the feature groups of Lite2 begin with ``lite2.``."""
    networks = {prefix: EmbeddedBackbone(number, n_jobs=1) for prefix, number in _MEMBERS.items()}
    return EnsembleBackbone(networks, "best", n_jobs=n_jobs)


_MEMBERS = {"": "0", "lite2.": "2"}


def _vectors(pixels: Pixels, network: EnsembleBackbone, names: Sequence[str]) -> Floats:
    parts = [network.alone(pixels[rows], names) for rows in batch_slices(len(pixels), 1)]
    return np.concatenate(parts)
