"""Pictures -> network vectors: decode ahead, infer in batches, remember in the cache.

Plain Python and NumPy, so that a tool that only annotates need not load scikit-learn.
"""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from prototag.arrays import Array, Arrays, Floats, Rows
from prototag.engine.threads import ahead, blocks, count_threads
from prototag.errors import BackboneError, CacheError, ImageError, PrototagError
from prototag.events import Progress
from prototag.features import backbones
from prototag.features.cache import VectorCache, default_path
from prototag.features.decoding import Decoder, Picture
from prototag.features.tally import Tally
from prototag.images import crops
from prototag.images.crops import Album
from prototag.images.decode import MAX_PIXELS, VERSION

if TYPE_CHECKING:
    from prototag.images.decode import Source


@dataclass(frozen=True)
class Skipped:
    """A source that gave no vector, and why."""

    index: int
    source: str
    reason: str

    def __str__(self) -> str:
        # A file may be called anything; what a terminal cannot show, or would obey, is escaped.
        text = f"{self.source}: {self.reason}"
        return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


@dataclass(frozen=True)
class Features:
    """Vectors of the sources that could be read, and a word on each that could not.

    Attributes
    ----------
    vectors : array, kept x width
    kept : int array
        ``vectors[i]`` belongs to source number ``kept[i]``.
    skipped : list of Skipped
    n_cached : int
        How many of the vectors came from the cache.
    digests : list of bytes
        What each picture with a vector is known by: :func:`prototag.images.decode.digest`.
    thumbnails : list of bytes
        Small WebP files of the pictures with a vector; b"" where there is none.
    """

    vectors: Floats
    kept: Rows
    skipped: list[Skipped]
    n_cached: int
    digests: list[bytes]
    thumbnails: list[bytes]

    def summary(self) -> str:
        """How many were read, and each skipped source with its reason."""
        total = len(self.kept) + len(self.skipped)
        head = f"{len(self.kept):,} of {total:,} pictures read, {self.n_cached:,} from the cache"
        return "\n".join([head, *(f"skipped {skipped}" for skipped in self.skipped)])


class Extractor:
    """What :class:`prototag.FeatureExtractor` does, and says, without scikit-learn."""

    def __init__(
        self,
        backbone: str | os.PathLike[str] | backbones.Backbone = "embedded",
        *,
        crops: str = "whole+five",
        n_jobs: int | None = None,
        batch_size: int = 16,
        cache: str | os.PathLike[str] | VectorCache | None = "user",
        max_pixels: int = MAX_PIXELS,
        progress: Progress | None = None,
    ) -> None:
        self.backbone = backbone
        self.crops = crops
        self.n_jobs = n_jobs
        self.batch_size = batch_size
        self.cache = cache
        self.max_pixels = max_pixels
        self.progress = progress

    _loaded: tuple[object, backbones.Backbone] | None = None
    _opened: VectorCache | None = None
    _expected: str | None = None  # fingerprint that a model file asks for

    def transform(self, X: Sequence[Source]) -> Floats:
        """Vectors of all pictures, one row each; an error names each one that cannot be read."""
        features = self.extract(X)
        if features.skipped:
            raise ImageError(
                f"{len(features.skipped)} pictures cannot be read (extract skips them):\n"
                + "\n".join(map(str, features.skipped))
            )
        return features.vectors

    def extract(self, sources: Iterable[Source], *, thumbnails: bool = False) -> Features:
        """Vectors of the pictures that can be read; the others are listed with their reasons.

        Parameters
        ----------
        sources : iterable of paths, bytes, PIL images or arrays
        thumbnails : bool
            Make small copies too, of what is decoded anyway, until all take 16 MB.
        """
        pictures = [Picture(index, source) for index, source in enumerate(_listed(sources))]
        network, album = self._network(), Album() if thumbnails else None
        decoder = self._decoder(network, self._vector_cache(), album)
        vectors = np.empty((len(pictures), network.width * len(decoder.crops.groups)), np.float32)
        tally = Tally(self.progress, len(pictures))
        waiting = _recall(decoder, pictures, vectors, tally)
        stream, storing = self._stream(decoder, waiting), decoder.cache is not None
        while batch := list(islice(stream, self.batch_size)):
            _infer(network, decoder.crops, batch)
            storing = storing and _stored(decoder, batch)
            for picture in batch:
                if picture.vector is not None:
                    vectors[picture.index] = picture.vector
                    picture.vector = picture.pixels = None
                if album is not None:
                    picture.thumbnail = album.take(picture.thumbnail)
            tally.count(batch, free=not decoder.wants_thumbnails)
        kept = [picture for picture in pictures if picture.reason is None]
        rows = np.array([picture.index for picture in kept], np.intp)
        skipped = [Skipped(p.index, _name(p), p.reason) for p in pictures if p.reason is not None]
        return Features(
            vectors[rows] if skipped else vectors,
            rows,
            skipped,
            tally.cached,
            [picture.digest for picture in kept],
            [picture.thumbnail for picture in kept],
        )

    def to_state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """What decides the vectors, for a model file; threads and cache are the reader's matter."""
        network = self._network()
        config = {
            "backbone": network.spec,
            "fingerprint": network.fingerprint,
            "crops": self.crops,
            "images_version": VERSION,
            "max_pixels": self.max_pixels,
        }
        return config, {}

    @classmethod
    def from_state(cls, config: dict[str, Any], arrays: Arrays, **settings: Any) -> Self:
        """The extractor of a model file; ``settings`` are parameters such as n_jobs or cache."""
        del arrays  # the network is found by its name; its weights are not copied into models
        if config["images_version"] != VERSION:
            raise BackboneError(
                f"the model was learned on pictures of version {config['images_version']}; this "
                f"program prepares them by version {VERSION}: fit the model again."
            )
        stored = {name: config[name] for name in ("backbone", "crops", "max_pixels")}
        extractor = cls(**{**stored, **settings})
        extractor._expected = config["fingerprint"]
        return extractor

    def recipe(self) -> bytes:
        """What the cache keeps vectors under, beside a file's content."""
        return self._decoder(self._network(), None).recipe

    def prepare(self) -> None:
        """Load the network now; what is wrong with it is said where it is first used."""
        with suppress(PrototagError):
            self._network()

    def _network(self) -> backbones.Backbone:
        asked = (self.backbone, self.n_jobs)
        if self._loaded is None or self._loaded[0] != asked:
            network = backbones.load(self.backbone, n_jobs=self.n_jobs)
            if self._expected not in (None, network.fingerprint):
                raise BackboneError(
                    f"the network {network.spec} is not the one that the model was learned with: "
                    "give the original as backbone=, or fit the model again."
                )
            self._loaded = (asked, network)
        return self._loaded[1]

    def _vector_cache(self) -> VectorCache | None:
        if self.cache is None or isinstance(self.cache, VectorCache):
            return self.cache
        path = default_path() if self.cache == "user" else Path(self.cache)
        if self._opened is None or self._opened.path != path:
            self._opened = VectorCache(path)
        return self._opened

    def _decoder(
        self, network: backbones.Backbone, cache: VectorCache | None, album: Album | None = None
    ) -> Decoder:
        regions = crops.named(self.crops)
        parts = (VERSION, network.fingerprint, network.size, network.interpolation, regions)
        recipe = hashlib.blake2b(repr(parts).encode(), digest_size=16).digest()
        shape = regions, network.size, network.interpolation
        return Decoder(*shape, self.max_pixels, recipe, cache, album)

    def _stream(self, decoder: Decoder, pictures: list[Picture]) -> Iterator[Picture]:
        if self.batch_size < 1:
            raise ValueError(f"batch_size={self.batch_size}: give at least 1.")
        workers = min(count_threads(self.n_jobs), len(pictures) - 1)  # one picture needs no thread
        return ahead(
            decoder.decode, pictures, workers=workers, window=2 * self.batch_size + workers
        )

    def __getstate__(self) -> dict[str, Any]:
        # Networks and connections do not travel between processes; each opens its own.
        state: Any = super().__getstate__()
        return {**state, "_loaded": None, "_opened": None}


def _listed(sources: Iterable[Source]) -> list[Source]:
    if isinstance(sources, str | bytes | os.PathLike) or hasattr(sources, "convert"):
        raise TypeError(
            f"give a list of pictures, not a single {type(sources).__name__}: [picture]."
        )
    return list(sources)


def _recall(
    decoder: Decoder, pictures: list[Picture], vectors: Floats, tally: Tally
) -> list[Picture]:
    """Fill in what the cache knows of untouched files; return the pictures that wait for more."""
    waiting: list[Picture] = []
    for rows in blocks(len(pictures), 1024):
        decoder.recall(pictures[rows])
        for picture in pictures[rows]:
            if picture.vector is not None:
                vectors[picture.index] = picture.vector
                picture.vector = None
        if decoder.wants_thumbnails:
            waiting += pictures[rows]
        else:
            waiting += [picture for picture in pictures[rows] if not picture.known]
            tally.count([picture for picture in pictures[rows] if picture.known])
    return waiting


def _infer(network: backbones.Backbone, regions: crops.Crops, batch: list[Picture]) -> None:
    """Take the crops of all pictures that have some through the network as one batch."""
    fresh = [picture for picture in batch if picture.pixels is not None]
    if not fresh:
        return
    pixels = np.concatenate([picture.pixels for picture in fresh if picture.pixels is not None])
    vectors = network(pixels).reshape(len(fresh), len(regions.regions), -1)
    for picture, vector in zip(fresh, regions.pool(vectors), strict=True):
        picture.vector = vector


def _stored(decoder: Decoder, batch: list[Picture]) -> bool:
    """Store a batch; a cache that cannot be written (a full disk) must not end a long run."""
    files = [p for p in batch if p.is_file and p.vector is not None]
    fresh = [picture for picture in files if not picture.known]
    stamps = [(picture.stamp, picture.digest) for picture in files if picture.stamp]
    if decoder.cache is not None and (fresh or stamps):
        rows = np.array([picture.vector for picture in fresh])
        try:
            decoder.cache.store(decoder.recipe, [p.digest for p in fresh], rows, stamps)
        except CacheError as error:
            warnings.warn(f"{error} The run goes on without it.", stacklevel=3)
            return False
    return True


def _name(picture: Picture) -> str:
    if isinstance(picture.source, str | os.PathLike):
        return os.fspath(picture.source)
    return f"{type(picture.source).__name__} number {picture.index}"
