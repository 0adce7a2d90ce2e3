"""Pictures -> network vectors: decode ahead, infer in batches, remember in the cache.

Each picture is decoded once, for its vector, its identity and its thumbnail; Pillow decodes and
resizes without the interpreter lock, so threads suffice. Plain Python and NumPy, so that a tool
that only annotates need not load scikit-learn.
"""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from prototag.arrays import Array, Arrays, Floats
from prototag.engine import Engine, batch_slices, count_threads
from prototag.engine.threads import map_in_order
from prototag.errors import BackboneError, CacheError, ImageError, PrototagError
from prototag.events import Progress, Tally
from prototag.features import backbones
from prototag.features.backbones.onnx import compute, outputs
from prototag.features.remote import run_remote
from prototag.features.types import FeatureGroup, Features, Picture, Skipped
from prototag.features.vector_cache import VectorCache, default_path, stamp_of
from prototag.images.crops import SIDE, Album, Plan, Sight, named, thumbnail
from prototag.images.decode import MAX_PIXELS, VERSION, digest, open_image, read_bytes
from prototag.storage import modelfile

if TYPE_CHECKING:
    from PIL import Image

    from prototag.images.decode import Size, Source

__all__ = ["Extractor", "Features", "Skipped"]
_FILES = (str, bytes, os.PathLike)


class Extractor:
    """What :class:`prototag.FeatureExtractor` does, and says, without scikit-learn."""

    def __init__(
        self,
        backbone: str | os.PathLike[str] | backbones.Backbone = "embedded",
        *,
        crops: str = "large",
        selected_groups: Sequence[str] | None = None,
        n_jobs: int | None = None,
        engine: Engine | None = None,
        batch_size: int = 16,
        cache: str | os.PathLike[str] | VectorCache | None = "user",
        max_pixels: int = MAX_PIXELS,
        progress: Progress | None = None,
    ) -> None:
        self.backbone = backbone
        self.crops = crops
        self.selected_groups = selected_groups
        self.n_jobs = n_jobs
        self.engine = engine
        self.batch_size = batch_size
        self.cache = cache
        self.max_pixels = max_pixels
        self.progress = progress

    _loaded_backbone: tuple[object, backbones.Backbone] | None = None
    _opened: VectorCache | None = None
    _expected_fingerprint: str | None = None  # fingerprint that a model file asks for

    def transform(self, X: Sequence[Source]) -> Floats:
        """Vectors of all pictures, one row each; an error names each one that cannot be read."""
        features = self.extract(X)
        if features.skipped:
            raise ImageError(
                f"{len(features.skipped)} pictures cannot be read (extract skips them):\n"
                + "\n".join(map(str, features.skipped))
            )
        return features.vectors

    def extract(
        self, sources: Iterable[Source], *, thumbnails: bool = False, side: int = SIDE
    ) -> Features:
        """Vectors of the pictures that can be read; the others are listed with their reasons.

        Parameters
        ----------
        sources : iterable of paths, bytes, PIL images or arrays
        thumbnails : bool
            Make small copies too, of what is decoded anyway, until all take 16 MB.
        side : int
            Width and height of these, at most.
        """
        pictures = [Picture(index, source) for index, source in enumerate(_listed(sources))]
        network = self._backbone()
        album = Album(side=side) if thumbnails else None
        decoder = Decoder(self._plan(network), self.max_pixels, self._vector_cache(), album)
        width = sum(part.width for part in decoder.plan.parts)
        vectors = np.empty((len(pictures), width), np.float32)
        tally = Tally(self.progress, len(pictures))
        waiting = _recall(decoder, pictures, vectors, tally)
        stream = self._stream(network, decoder, waiting)
        storing = decoder.cache is not None
        while batch := list(islice(stream, self.batch_size)):
            _infer(network, decoder.plan, batch)
            _refuse_what_is_not_finite(batch)
            storing = storing and _stored(decoder, batch)
            for picture in batch:
                if picture.vector is not None:
                    vectors[picture.index] = picture.vector
                    picture.vector = picture.crops = None
                if album is not None:
                    picture.thumbnail = album.take(picture.thumbnail)
            tally.count(batch, cached_cost_nothing=not decoder.wants_thumbnails)
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
            self.feature_groups,
        )

    def recall(self, paths: Sequence[str | os.PathLike[str]]) -> list[tuple[bytes, Floats] | None]:
        """Digest and vector of each file that the cache knows and nobody touched; opens none."""
        cache = self._vector_cache()
        if cache is None:
            return [None] * len(paths)
        pictures = [Picture(index, path) for index, path in enumerate(paths)]
        Decoder(self._plan(self._backbone()), self.max_pixels, cache).recall(pictures)
        return [(p.digest, p.vector) if p.vector is not None else None for p in pictures]

    @property
    def feature_groups(self) -> list[FeatureGroup]:
        """What the columns of the vectors are, in their order: (name, width) of each block."""
        return [FeatureGroup(part.name, part.width) for part in self._plan(self._backbone()).parts]

    @property
    def recipe(self) -> bytes:
        """Equal for extractors that give the same vectors: network, regions, preparation."""
        parts = self._plan(self._backbone()).parts
        return hashlib.blake2b(b"".join(part.recipe for part in parts), digest_size=16).digest()

    def to_state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """What decides the vectors, for a model file; threads and cache are the reader's matter."""
        network = self._backbone()
        config = {
            "backbone": network.spec,
            "fingerprint": network.fingerprint,
            "crops": named(self.crops).name,
            "feature_groups": [group.name for group in self.feature_groups],
            "images_version": VERSION,
            "max_pixels": self.max_pixels,
        }
        return config, {}

    @classmethod
    def from_state(
        cls, config: dict[str, Any], arrays: Arrays, *, near: Path | None = None, **settings: Any
    ) -> Self:
        """The extractor of a model file; ``settings`` are parameters such as n_jobs or cache.

        The file of a network that is no longer where it was is looked for in the folder ``near``.
        """
        del arrays  # the network is found by its name; its weights are not copied into models
        if config["images_version"] != VERSION:
            raise BackboneError(
                f"the model was learned on pictures of version {config['images_version']}; this "
                f"program prepares them by version {VERSION}: fit the model again."
            )
        stored: dict[str, Any] = {
            name: modelfile.expect_text(config, name) for name in ("backbone", "crops")
        }
        stored["selected_groups"] = [
            modelfile.expect_text({"feature_groups": name}, "feature_groups")
            for name in config["feature_groups"]
        ]
        # No file lifts the limit of pixels.
        pixels = modelfile.expect_count(config, "max_pixels", 1 << 62)
        stored["max_pixels"] = min(pixels, MAX_PIXELS)
        file = stored["backbone"]
        if near is not None and file.endswith(".onnx") and not os.path.exists(file):
            stored["backbone"] = os.fspath(near / os.path.basename(file))
        extractor = cls(**{**stored, **settings})
        extractor._expected_fingerprint = config["fingerprint"]
        return extractor

    def prepare(self) -> None:
        """Load the network now; what is wrong with it is said where it is first used."""
        if str(self.backbone).startswith("timm:") or str(self.backbone).endswith(".onnx"):
            return  # to look at a stranger's model opens no file that it names
        with suppress(PrototagError):
            self._backbone()

    def release(self) -> None:
        """Free the buffers that the network keeps for its next run, where it can do so."""
        if self._loaded_backbone is not None and hasattr(self._loaded_backbone[1], "release"):
            self._loaded_backbone[1].release()

    def _backbone(self) -> backbones.Backbone:
        asked = (self.backbone, self.n_jobs)
        if self._loaded_backbone is None or self._loaded_backbone[0] != asked:
            network = backbones.load(self.backbone, n_jobs=self.n_jobs)
            if self._expected_fingerprint not in (None, network.fingerprint):
                raise BackboneError(
                    f"the network {network.spec} is not the one that the model was learned with: "
                    "give the original as backbone=, or fit the model again."
                )
            self._loaded_backbone = (asked, network)
        return self._loaded_backbone[1]

    def _vector_cache(self) -> VectorCache | None:
        if self.cache is None or isinstance(self.cache, VectorCache):
            return self.cache
        path = default_path() if self.cache == "user" else Path(self.cache)
        if self._opened is None or self._opened.path != path:
            self._opened = VectorCache(path)
        return self._opened

    def _plan(self, network: backbones.Backbone) -> Plan:
        shapes = getattr(network, "shapes", ())
        seen = Sight(network.size, shapes, network.interpolation)
        return Plan.of(named(self.crops), seen, outputs(network), self.selected_groups)

    def _stream(
        self, network: backbones.Backbone, decoder: Decoder, pictures: list[Picture]
    ) -> Iterator[Picture]:
        if self.batch_size < 1:
            raise ValueError(f"batch_size={self.batch_size}: give at least 1.")
        if self.engine is not None:
            return run_remote(self.engine, self, decoder, pictures)
        workers = min(count_threads(self.n_jobs), len(pictures))
        if workers < 2:
            workers = 0  # decoding and network take turns: one thread is not two
        window = 2 * self.batch_size + workers
        stream = map_in_order(decoder.decode, pictures, workers=workers, window=window)
        if not hasattr(network, "alone"):
            return stream
        # Each goes through the network as soon as it is decoded: the slower decides alone.
        see = partial(_see, network, decoder.plan)
        return map_in_order(see, stream, workers=workers, window=2 * workers)

    def __getstate__(self) -> dict[str, Any]:
        # Networks and connections do not travel between processes; each opens its own.
        state: Any = super().__getstate__()
        return {**state, "_loaded_backbone": None, "_opened": None}


def _listed(sources: Iterable[Source]) -> list[Source]:
    if isinstance(sources, _FILES) or hasattr(sources, "convert"):
        raise TypeError(
            f"give a list of pictures, not a single {type(sources).__name__}: [picture]."
        )
    return list(sources)


def _recall(
    decoder: Decoder, pictures: list[Picture], vectors: Floats, tally: Tally
) -> list[Picture]:
    """Fill in what the cache knows of untouched files; return the pictures that wait for more."""
    waiting: list[Picture] = []
    for rows in batch_slices(len(pictures), 1024):
        decoder.recall(pictures[rows])
        for picture in pictures[rows]:
            if picture.vector is not None:
                vectors[picture.index] = picture.vector
                picture.vector = None
        if decoder.wants_thumbnails:
            waiting += pictures[rows]
        else:
            waiting += [picture for picture in pictures[rows] if not picture.is_cached]
            tally.count([picture for picture in pictures[rows] if picture.is_cached])
    return waiting


def _see(network: Any, plan: Plan, picture: Picture) -> Picture:
    """Take one picture through the network, in this thread."""
    if picture.crops is not None:
        view, pixels = picture.crops
        picture.vector = plan.join(view.pool(network.alone(pixels, plan.outputs)))
        picture.crops = None
    return picture


def _infer(network: backbones.Backbone, plan: Plan, batch: list[Picture]) -> None:
    """Take the pictures that still have pixels through the network."""
    fresh = [(picture, *picture.crops) for picture in batch if picture.crops is not None]
    if fresh:
        found = compute(network, [pixels for *_, pixels in fresh], plan.outputs)
        for (picture, view, _), vectors in zip(fresh, found, strict=True):
            picture.vector = plan.join(view.pool(vectors))


def _refuse_what_is_not_finite(batch: list[Picture]) -> None:
    """One picture that a network makes nothing of must not end a run."""
    for picture in batch:
        if picture.vector is not None and not np.isfinite(picture.vector).all():
            picture.vector = picture.crops = None
            picture.reason = "the network gives NaN or infinity for it"


def _stored(decoder: Decoder, batch: list[Picture]) -> bool:
    """Store a batch; a cache that cannot be written (a full disk) must not end a long run."""
    # Files and their content are kept; pictures in memory come and go.
    files = [p for p in batch if isinstance(p.source, _FILES) and p.vector is not None]
    fresh = [picture for picture in files if not picture.is_cached]
    stamps = [(picture.stamp, picture.digest) for picture in files if picture.stamp]
    if decoder.cache is not None and (fresh or stamps):
        digests = [p.digest for p in fresh]
        rows = np.array([p.vector for p in fresh])
        try:
            for part, columns in decoder.plan.split(rows):
                decoder.cache.store(part.recipe, digests, columns, stamps)
        except CacheError as error:
            warnings.warn(f"{error} The run goes on without it.", stacklevel=3)
            return False
    return True


def _name(picture: Picture) -> str:
    if isinstance(picture.source, str | os.PathLike):
        return os.fspath(picture.source)
    return f"{type(picture.source).__name__} number {picture.index}"


@dataclass(frozen=True)
class Decoder:
    """Makes the pixels that a plan needs, unless the cache knows the vectors."""

    plan: Plan
    max_pixels: int
    cache: VectorCache | None
    album: Album | None = None  # that thumbnails are made for

    @property
    def wants_thumbnails(self) -> bool:
        return self.album is not None and not self.album.full

    def recall(self, pictures: Sequence[Picture]) -> None:
        """Fill in the vectors of files that were not touched since the cache saw them."""
        if self.cache is None:
            return
        for picture in pictures:
            if isinstance(picture.source, str | os.PathLike):
                picture.stamp = stamp_of(picture.source)
        digests = self.cache.contents(picture.stamp for picture in pictures if picture.stamp)
        vectors = self._known(digests.values())
        for picture in pictures:
            found = digests.get(picture.stamp) if picture.stamp else None
            if found in vectors:
                picture.digest = found
                picture.vector = vectors[found]
                picture.is_cached = True
                picture.stamp = None

    def decode(self, picture: Picture) -> Picture:
        """Fill in the pixels, or the vector if the content is known, or the reason why neither.

        A known picture is opened for its thumbnail alone, and not at all if none is wanted.
        """
        try:
            if picture.is_cached and not self.wants_thumbnails:
                return picture
            source = self._read(picture)
            if picture.is_cached:
                if self.album is not None and self.wants_thumbnails:
                    side = self.album.side
                    picture.thumbnail = thumbnail(self._open(source, (side, side)), side)
                return picture
            image = self._open(source, self.plan.at_least)
            picture.digest = picture.digest or digest(source)
            view = self.plan.view(image.size)
            picture.crops = view, view.cut(image, self.plan.sight.interpolation)
            if self.album is not None and self.wants_thumbnails:
                picture.thumbnail = thumbnail(image, self.album.side)
        except ImageError as error:
            if not picture.is_cached:
                picture.reason = str(error)
        return picture

    def _read(self, picture: Picture) -> Source:
        """The content of a file, and its vector where the cache has it; other sources as given."""
        source = picture.source
        if isinstance(source, str | os.PathLike):
            path, source = source, read_bytes(source)
            if picture.stamp != stamp_of(path):
                picture.stamp = None  # it changed while it was read
        if isinstance(source, bytes) and not picture.is_cached:
            picture.digest = digest(source)
            if self.cache is not None:
                picture.vector = self._known([picture.digest]).get(picture.digest)
                picture.is_cached = picture.vector is not None
        return source

    def _known(self, digests: Iterable[bytes]) -> dict[bytes, Floats]:
        """Vectors of the pictures of which the cache has every block."""
        assert self.cache is not None
        left = list(digests)
        rows: dict[bytes, list[Floats]] = {content: [] for content in left}
        for part in self.plan.parts:
            found = self.cache.vectors(left, part.recipe)
            left = [content for content in found if len(found[content]) == part.width]
            for content in left:
                rows[content].append(found[content])
        return {content: np.concatenate(rows[content]) for content in left}

    def _open(self, source: Source, at_least: Size | Callable[[Size], Size]) -> Image.Image:
        return open_image(source, at_least=at_least, max_pixels=self.max_pixels)
