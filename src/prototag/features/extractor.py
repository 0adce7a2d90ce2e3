"""Feature extraction: decoding ahead in threads, inference in batches, and the vector cache.

Each picture is decoded once for its vector, digest and thumbnail. Pillow decodes and resizes
without the interpreter lock, so threads suffice. The module does not import scikit-learn, so that
annotating starts fast.
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
from prototag.events import ProgressOption, Tally, resolve_progress
from prototag.features import backbones
from prototag.features.backbones.onnx import compute, outputs
from prototag.features.remote import run_remote
from prototag.features.types import FeatureGroup, Features, Picture, Skipped
from prototag.features.vector_cache import VectorCache, default_path, stamp_of
from prototag.images.crops import (
    THUMBNAIL_SIDE,
    InputSpec,
    Plan,
    ThumbnailBudget,
    crops_by_name,
    thumbnail,
)
from prototag.images.decode import MAX_PIXELS, VERSION, digest, open_image, read_bytes
from prototag.storage import modelfile

if TYPE_CHECKING:
    from PIL import Image

    from prototag.images.decode import Size, Source

__all__ = ["Extractor", "Features", "Skipped"]
_CACHED_SOURCES = (str, bytes, os.PathLike)  # files and their content; arrays rarely recur
_LOOKUP_BATCH = 1024  # pictures per lookup in the cache


class Extractor:
    """Feature extractor; :class:`prototag.FeatureExtractor` is its scikit-learn wrapper."""

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
        progress: ProgressOption | None = None,
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
    _expected_fingerprint: str | None = None  # fingerprint of the backbone in a model file

    def transform(self, X: Sequence[Source]) -> Floats:
        """Compute the vectors of all pictures; an error lists those that cannot be read."""
        features = self.extract(X)
        if features.skipped:
            raise ImageError(
                f"{len(features.skipped)} pictures cannot be read (extract skips them):\n"
                + "\n".join(map(str, features.skipped))
            )
        return features.vectors

    def extract(
        self,
        sources: Iterable[Source],
        *,
        thumbnails: bool = False,
        side: int = THUMBNAIL_SIDE,
        report: bool = True,
    ) -> Features:
        """Compute the vectors of all readable pictures, and list the others with reasons.

        Parameters
        ----------
        sources : iterable of paths, bytes, PIL images or arrays
        thumbnails : bool
            Also make thumbnails, up to 16 MB together.
        side : int
            Maximum width and height of a thumbnail.
        report : bool
            Whether to call ``progress``.
        """
        pictures = [Picture(index, source) for index, source in enumerate(_listed(sources))]
        backbone = self._backbone()
        budget = ThumbnailBudget(side=side) if thumbnails else None
        decoder = Decoder(self._plan(backbone), self.max_pixels, self.vector_cache, budget)
        width = sum(group.width for group in decoder.plan.groups)
        vectors = np.empty((len(pictures), width), np.float32)
        progress = resolve_progress(self.progress) if report else None
        tally = Tally(progress, len(pictures))
        remaining = _look_up(decoder, pictures, vectors, tally)
        stream = self._stream(backbone, decoder, remaining)
        is_storing = decoder.cache is not None
        while batch := list(islice(stream, self.batch_size)):
            _infer(backbone, decoder.plan, batch)
            _reject_non_finite(batch)
            is_storing = is_storing and _try_to_store(decoder, batch)
            for picture in batch:
                if picture.vector is not None:
                    vectors[picture.index] = picture.vector
                    picture.vector = None
                    picture.crops = None
                if budget is not None:
                    picture.thumbnail = budget.accept(picture.thumbnail)
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

    def look_up(self, paths: Sequence[str | os.PathLike[str]]) -> list[tuple[bytes, Floats] | None]:
        """Look up digest and vector of unchanged files in the cache; no file is opened."""
        cache = self.vector_cache
        if cache is None:
            return [None] * len(paths)
        pictures = [Picture(index, path) for index, path in enumerate(paths)]
        Decoder(self._plan(self._backbone()), self.max_pixels, cache).look_up(pictures)
        return [(p.digest, p.vector) if p.vector is not None else None for p in pictures]

    @property
    def feature_groups(self) -> list[FeatureGroup]:
        """Name and width of each feature group, in the order of the columns."""
        plan = self._plan(self._backbone())
        return [FeatureGroup(group.name, group.width) for group in plan.groups]

    @property
    def recipe(self) -> bytes:
        """Digest of backbone, crops and preprocessing: equal recipes give equal vectors."""
        groups = self._plan(self._backbone()).groups
        return hashlib.blake2b(b"".join(one.recipe for one in groups), digest_size=16).digest()

    @property
    def fingerprint(self) -> str:
        """Digest of the backbone."""
        return self._backbone().fingerprint

    def to_state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return the settings that the vectors depend on, for a model file."""
        backbone = self._backbone()
        config = {
            "backbone": backbone.spec,
            "fingerprint": backbone.fingerprint,
            "crops": crops_by_name(self.crops).name,
            "feature_groups": [group.name for group in self.feature_groups],
            "images_version": VERSION,
            "max_pixels": self.max_pixels,
        }
        return config, {}

    @classmethod
    def from_state(
        cls, config: dict[str, Any], arrays: Arrays, *, near: Path | None = None, **settings: Any
    ) -> Self:
        """Build the extractor of a model file; ``settings`` are parameters such as n_jobs or cache.

        If the file of the backbone does not exist, it is searched for in the folder ``near``.
        """
        del arrays  # models store the name of a backbone, and not its weights
        if config["images_version"] != VERSION:
            raise BackboneError(
                f"the model was trained with preprocessing {config['images_version']}; this "
                f"program has version {VERSION}: fit the model again."
            )
        stored: dict[str, Any] = {
            name: modelfile.expect_text(config, name) for name in ("backbone", "crops")
        }
        stored["selected_groups"] = [
            modelfile.expect_text({"feature_groups": name}, "feature_groups")
            for name in config["feature_groups"]
        ]
        # A model file cannot raise the limit.
        pixels = modelfile.expect_count(config, "max_pixels", 1 << 62)
        stored["max_pixels"] = min(pixels, MAX_PIXELS)
        file = stored["backbone"]
        if near is not None and file.endswith(".onnx") and not os.path.exists(file):
            stored["backbone"] = os.fspath(near / os.path.basename(file))
        extractor = cls(**{**stored, **settings})
        extractor._expected_fingerprint = config["fingerprint"]
        return extractor

    def prepare(self) -> None:
        """Load the backbone now; errors are raised on first use."""
        if str(self.backbone).startswith("timm:") or str(self.backbone).endswith(".onnx"):
            return  # loading a model from an untrusted source opens no file that it names
        with suppress(PrototagError):
            self._backbone()

    def release(self) -> None:
        """Free the buffers of the backbone, if it supports this."""
        if self._loaded_backbone is not None and hasattr(self._loaded_backbone[1], "release"):
            self._loaded_backbone[1].release()

    def _backbone(self) -> backbones.Backbone:
        key = (self.backbone, self.n_jobs)
        if self._loaded_backbone is None or self._loaded_backbone[0] != key:
            backbone = backbones.load(self.backbone, n_jobs=self.n_jobs)
            if self._expected_fingerprint not in (None, backbone.fingerprint):
                raise BackboneError(
                    f"the network {backbone.spec} is not the one that the model was trained with: "
                    "give the original as backbone=, or fit the model again."
                )
            self._loaded_backbone = (key, backbone)
        return self._loaded_backbone[1]

    @property
    def vector_cache(self) -> VectorCache | None:
        """The cache of vectors; None if there is none."""
        if self.cache is None or isinstance(self.cache, VectorCache):
            return self.cache
        path = default_path() if self.cache == "user" else Path(self.cache)
        if self._opened is None or self._opened.path != path:
            self._opened = VectorCache(path)
        return self._opened

    def _plan(self, backbone: backbones.Backbone) -> Plan:
        shapes = getattr(backbone, "shapes", ())
        input_spec = InputSpec(backbone.size, shapes, backbone.interpolation)
        crops = crops_by_name(self.crops)
        return Plan.build(crops, input_spec, outputs(backbone), self.selected_groups)

    def _stream(
        self, backbone: backbones.Backbone, decoder: Decoder, pictures: list[Picture]
    ) -> Iterator[Picture]:
        if self.batch_size < 1:
            raise ValueError(f"batch_size={self.batch_size}: give at least 1.")
        if self.engine is not None:
            return run_remote(self.engine, self, decoder, pictures)
        workers = min(count_threads(self.n_jobs), len(pictures))
        if workers < 2:
            workers = 0  # decode and infer in turn, in the calling thread
        window = 2 * self.batch_size + workers
        stream = map_in_order(decoder.decode, pictures, workers=workers, window=window)
        if not hasattr(backbone, "alone"):
            return stream
        # Inference runs in threads as well, so the slower of the two stages sets the pace.
        infer = partial(_infer_alone, backbone, decoder.plan)
        return map_in_order(infer, stream, workers=workers, window=2 * workers)

    def __getstate__(self) -> dict[str, Any]:
        # Backbones and connections cannot be pickled; each process opens its own.
        state: Any = super().__getstate__()
        return {**state, "_loaded_backbone": None, "_opened": None}


def _listed(sources: Iterable[Source]) -> list[Source]:
    if isinstance(sources, _CACHED_SOURCES) or hasattr(sources, "convert"):
        raise TypeError(
            f"give a list of pictures, not a single {type(sources).__name__}: [picture]."
        )
    return list(sources)


def _look_up(
    decoder: Decoder, pictures: list[Picture], vectors: Floats, tally: Tally
) -> list[Picture]:
    """Set the vectors of unchanged files from the cache, and return the remaining pictures."""
    remaining: list[Picture] = []
    for rows in batch_slices(len(pictures), _LOOKUP_BATCH):
        decoder.look_up(pictures[rows])
        for picture in pictures[rows]:
            if picture.vector is not None:
                vectors[picture.index] = picture.vector
                picture.vector = None
        if decoder.wants_thumbnails:
            remaining += pictures[rows]
        else:
            remaining += [picture for picture in pictures[rows] if not picture.is_cached]
            tally.count([picture for picture in pictures[rows] if picture.is_cached])
    return remaining


def _infer_alone(backbone: Any, plan: Plan, picture: Picture) -> Picture:
    """Compute the vector of one picture in the calling thread."""
    if picture.crops is not None:
        view, pixels = picture.crops
        picture.vector = plan.join(view.pool(backbone.alone(pixels, plan.outputs)))
        picture.crops = None
    return picture


def _infer(backbone: backbones.Backbone, plan: Plan, batch: list[Picture]) -> None:
    """Compute the vectors of the pictures that have crops."""
    decoded = [(picture, *picture.crops) for picture in batch if picture.crops is not None]
    if decoded:
        results = compute(backbone, [pixels for *_, pixels in decoded], plan.outputs)
        for (picture, view, _), vectors in zip(decoded, results, strict=True):
            picture.vector = plan.join(view.pool(vectors))


def _reject_non_finite(batch: list[Picture]) -> None:
    """Skip pictures whose vector is not finite, instead of ending the run."""
    for picture in batch:
        if picture.vector is not None and not np.isfinite(picture.vector).all():
            picture.vector = None
            picture.crops = None
            picture.reason = "the network gives NaN or infinity for it"


def _try_to_store(decoder: Decoder, batch: list[Picture]) -> bool:
    """Store a batch in the cache; warn and return False if the cache is not writable."""
    files = [p for p in batch if isinstance(p.source, _CACHED_SOURCES) and p.vector is not None]
    new = [picture for picture in files if not picture.is_cached]
    stamps = [(picture.stamp, picture.digest) for picture in files if picture.stamp]
    if decoder.cache is not None and (new or stamps):
        digests = [p.digest for p in new]
        rows = np.array([p.vector for p in new])
        try:
            for group, columns in decoder.plan.split(rows):
                decoder.cache.store(group.recipe, digests, columns, stamps)
        except CacheError as error:
            warnings.warn(f"{error} The run continues without the cache.", stacklevel=3)
            return False
    return True


def _name(picture: Picture) -> str:
    if isinstance(picture.source, str | os.PathLike):
        return os.fspath(picture.source)
    return f"{type(picture.source).__name__} number {picture.index}"


@dataclass(frozen=True)
class Decoder:
    """Decoder of the crops of a plan, which looks up vectors in the cache first."""

    plan: Plan
    max_pixels: int
    cache: VectorCache | None
    thumbnails: ThumbnailBudget | None = None  # None for no thumbnails

    @property
    def wants_thumbnails(self) -> bool:
        """Whether thumbnails are requested and within their budget."""
        return self.thumbnails is not None and not self.thumbnails.is_full

    def look_up(self, pictures: Sequence[Picture]) -> None:
        """Set the vectors of files that are unchanged since they were cached."""
        if self.cache is None:
            return
        for picture in pictures:
            if isinstance(picture.source, str | os.PathLike):
                picture.stamp = stamp_of(picture.source)
        digests = self.cache.contents(picture.stamp for picture in pictures if picture.stamp)
        vectors = self._cached_vectors(digests.values())
        for picture in pictures:
            digest = digests.get(picture.stamp) if picture.stamp else None
            if digest in vectors:
                picture.digest = digest
                picture.vector = vectors[digest]
                picture.is_cached = True
                picture.stamp = None

    def decode(self, picture: Picture) -> Picture:
        """Set the crops of a picture, or its cached vector, or the reason for neither.

        A cached picture is opened only if a thumbnail is wanted.
        """
        try:
            if picture.is_cached and not self.wants_thumbnails:
                return picture
            source = self._read(picture)
            if picture.is_cached:
                if self.thumbnails is not None and self.wants_thumbnails:
                    side = self.thumbnails.side
                    picture.thumbnail = thumbnail(self._open(source, (side, side)), side)
                return picture
            image = self._open(source, self.plan.at_least)
            picture.digest = picture.digest or digest(source)
            view = self.plan.view(image.size)
            picture.crops = view, view.cut(image, self.plan.input_spec.interpolation)
            if self.thumbnails is not None and self.wants_thumbnails:
                picture.thumbnail = thumbnail(image, self.thumbnails.side)
        except ImageError as error:
            if not picture.is_cached:
                picture.reason = str(error)
        return picture

    def _read(self, picture: Picture) -> Source:
        """Read a file and look up its content in the cache; return other sources unchanged."""
        source = picture.source
        if isinstance(source, str | os.PathLike):
            path = source
            source = read_bytes(path)
            if picture.stamp != stamp_of(path):
                picture.stamp = None  # the file changed during the read
        if isinstance(source, bytes) and not picture.is_cached:
            picture.digest = digest(source)
            if self.cache is not None:
                picture.vector = self._cached_vectors([picture.digest]).get(picture.digest)
                picture.is_cached = picture.vector is not None
        return source

    def _cached_vectors(self, digests: Iterable[bytes]) -> dict[bytes, Floats]:
        """Look up the vectors of pictures whose feature groups are all cached."""
        assert self.cache is not None
        complete = list(digests)
        rows: dict[bytes, list[Floats]] = {content: [] for content in complete}
        for group in self.plan.groups:
            vectors = self.cache.vectors(complete, group.recipe)
            complete = [content for content in vectors if len(vectors[content]) == group.width]
            for content in complete:
                rows[content].append(vectors[content])
        return {content: np.concatenate(rows[content]) for content in complete}

    def _open(self, source: Source, at_least: Size | Callable[[Size], Size]) -> Image.Image:
        return open_image(source, at_least=at_least, max_pixels=self.max_pixels)
