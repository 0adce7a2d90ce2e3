"""Images in, tags out: network, model, thresholds and vocabulary as one object."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from prototag.annotator.gallery import Gallery
from prototag.annotator.input_validation import pictures
from prototag.annotator.operating_points import OperatingPoints, TagChoice, counts, vocabulary
from prototag.annotator.remote import TOGETHER, elsewhere
from prototag.annotator.types import (
    Annotation,
    ExplainedTag,
    Learned,
    Neighbour,
    Tag,
    TrainingPicture,
)
from prototag.arrays import Array, Floats, below, prefixed
from prototag.engine import Engine, Threads
from prototag.errors import (
    ImageError,
    InputError,
    ModelFileError,
    Remedy,
    TrainingError,
    UnknownNameError,
)
from prototag.events import Progress
from prototag.features.extractor import Extractor, Skipped
from prototag.images.decode import DIGEST_BYTES
from prototag.storage import modelfile
from prototag.tagging.model import TagModel

if TYPE_CHECKING:
    from prototag.annotator.training_set import TrainingSet
    from prototag.images.decode import Source
    from prototag.tagging.fit_result import FitResult

KIND = "annotator"


class Annotator:
    """Learns the tags of a collection of pictures and gives them to new ones.

    See docs/guide/quickstart.md and docs/integrate/python.md.

    Parameters
    ----------
    backbone, crops, n_jobs, engine, cache : as in :class:`prototag.FeatureExtractor`
    min_pictures : int, default=5
        Tags with fewer pictures are left out.
    untagged : {"ignore", "negative"}, default="ignore"
        Whether pictures without any tag are left out, or taken to lack every tag.
    tuning_seconds : float, optional
        Time that tuning may take; None takes the recommended settings.
    keep_thumbnails : bool, default=True
        Keep small copies of the training pictures in the model, to explain with.
    progress : callable, optional
        Told an :class:`prototag.events.Event` now and then, while there is much to do.

    Attributes
    ----------
    tags : list of str
        The vocabulary: all tags that can be given.
    model : TagModel
        From vectors to scores; its columns are the tags.
    operating_points : OperatingPoints
        How well each tag is given, by left-out training pictures.
    learned : Learned
        What was learned from, and what was left out.
    choices : dict
        What fit chose, and what left-out pictures promise (``out_of_fold_f1``).
    skipped : list of Skipped
        Pictures that ``fit`` could not read. Not kept in the model file.
    """

    def __init__(
        self,
        *,
        backbone: Any = "embedded",
        crops: str = "large",
        n_jobs: int | None = None,
        engine: Engine | None = None,
        cache: Any = "user",
        min_pictures: int = 5,
        untagged: str = "ignore",
        tuning_seconds: float | None = None,
        keep_thumbnails: bool = True,
        progress: Progress | None = None,
    ) -> None:
        if min_pictures < 2:
            raise InputError(
                f"min_pictures={min_pictures}: a tag is learned from at least 2 pictures."
            )
        self.n_jobs = n_jobs
        self.engine = engine
        self.progress = progress
        self.min_pictures = min_pictures
        self.untagged = untagged
        self.tuning_seconds = tuning_seconds
        self.keep_thumbnails = keep_thumbnails
        self.extractor = Extractor(
            backbone, crops=crops, n_jobs=n_jobs, engine=engine, cache=cache, progress=progress
        )

    header: dict[str, Any]  # of the model file, once loaded
    tags: list[str]
    model: TagModel
    operating_points: OperatingPoints
    learned: Learned
    choices: dict[str, float]
    skipped: list[Skipped]
    _gallery: Gallery | None = None
    _seen: frozenset[bytes] = frozenset()  # digests of the pictures that were learned from
    path: Path  # of the model file, once loaded: the gallery stays there until it is asked for

    @property
    def active_engine(self) -> Engine:
        """The engine that was given, else threads."""
        return Threads(self.n_jobs) if self.engine is None else self.engine

    # -- learning ----------------------------------------------------------------------------------

    def fit(
        self,
        source: Any,
        tags: Sequence[Collection[str]] | None = None,
        *,
        work: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Learn from a tagged collection.

        Parameters
        ----------
        source : folder, list, what was collected from one, data set, or sequence of pictures
            The tags of a folder are found as ``prototag train`` finds them: sidecars, keywords
            inside the files, lists, text files or folder names (:func:`prototag.metadata.collect`).
            Of a data set the training part is learned. Or a folder of vectors
            (:class:`prototag.features.vector_folder.VectorFolder`).
        tags : sequence of collections of str, optional
            One list of tags for each picture, where ``source`` is a sequence of pictures.
        work : folder, optional
            Keeps what was found of many vectors, to go on if interrupted.
        """
        from prototag.annotator.training_set import learn, prepare
        from prototag.features.vector_folder import VectorFolder

        if isinstance(source, VectorFolder):
            own = {"n_jobs": self.n_jobs, "engine": self.engine, "progress": self.progress}
            self.extractor = source.extractor(cache=self.extractor.cache, **own)
        training = prepare(
            source,
            tags,
            self.extractor,
            self.min_pictures,
            untagged=self.untagged,
            thumbnails=self.keep_thumbnails,
        )
        tagger, training = learn(
            training, self.n_jobs, self.tuning_seconds, self.progress, self.engine, work=work
        )
        self.extractor.wanted = [block.name for block in training.blocks]
        self.keep(tagger.result_, training)
        return self

    def keep(self, result: FitResult, training: TrainingSet) -> None:
        """Take over a fit to a training set, as :meth:`fit` does."""
        self.tags = training.tags
        self.model = result.model
        self.choices = result.choices
        self.learned = training.learned
        self.skipped = training.skipped
        self._seen = frozenset(training.digests)
        self.operating_points = OperatingPoints.of_fit(result)
        self._gallery = Gallery.of_fit(result, training)

    # -- using -------------------------------------------------------------------------------------

    def choice(
        self,
        *,
        min_probability: float | None = None,
        precision: float | None = None,
        top: int | None = None,
        vocabulary: Iterable[str] | None = None,
        research: bool = False,
    ) -> TagChoice:
        """Which tags :meth:`annotate` gives; checked at once, before the first picture is read."""
        self._check_fitted()
        if (min_probability is not None) + (precision is not None) + research > 1:
            raise InputError("min_probability, precision and research: give one of them.")
        if min_probability is not None and not 0 <= min_probability <= 1:
            raise InputError(f"min_probability={min_probability}: give a number between 0 and 1.")
        if top is not None and top < 1:
            raise InputError(f"top={top}: give at least 1.")
        allowed = np.ones(len(self.tags), bool)
        if vocabulary is not None:
            wanted = set(vocabulary)
            if unknown := sorted(wanted.difference(self.tags)):
                raise UnknownNameError(
                    f"the model does not know {', '.join(map(repr, unknown[:5]))}",
                    remedy=Remedy.LIST_MODEL_TAGS,
                )
            if not wanted:
                raise InputError("vocabulary is empty: give at least one tag, or None for all.")
            allowed = np.array([name in wanted for name in self.tags])
        if research:
            return TagChoice(allowed, self.model.threshold, None, top)
        if precision is not None:
            min_probability = self.operating_points.threshold(precision)
        elif min_probability is None and top is None:
            min_probability = self.operating_points.usual
        return TagChoice(allowed & self.operating_points.learned, None, min_probability, top)

    def annotate(
        self,
        images: Source | Iterable[Source],
        *,
        min_probability: float | None = None,
        precision: float | None = None,
        top: int | None = None,
        vocabulary: Iterable[str] | None = None,
        research: bool = False,
        choice: TagChoice | None = None,
    ) -> Iterator[Annotation]:
        """Tags of pictures, one by one in their order; only a few are in memory at a time.

        By default tags are given that are probably right: of all that is given, about seven in ten
        are right or more, as left-out training pictures show. Less likely ones are
        ``suggestions``. Tags that could not be learned are neither given nor suggested. A picture
        that cannot be read gets an annotation with its ``error``.

        Parameters
        ----------
        images : iterable of paths, bytes, PIL images or arrays
            One of these, or one folder, is taken as a list.
        min_probability : float, optional
            Give the tags that are at least so likely right.
        precision : float, optional
            Share of all given tags that is to be right; nothing is given where left-out training
            pictures cannot promise it.
        top : int, optional
            Number of tags per picture; a maximum when combined with one of the two above.
        vocabulary : iterable of str, optional
            Give these tags only.
        research : bool, default=False
            Give every tag, learned or not, by the threshold of its best F1 on left-out training
            pictures: the protocol of the literature.
        choice : TagChoice, optional
            What :meth:`choice` returned, instead of all options above.
        """
        choice = self.choice(
            min_probability=min_probability,
            precision=precision,
            top=top,
            vocabulary=vocabulary,
            research=research,
        )
        return self.annotate_by(choice, images)

    def annotate_by(
        self, choice: TagChoice, images: Source | Iterable[Source]
    ) -> Iterator[Annotation]:
        """As :meth:`annotate`, by a choice of tags that :meth:`choice` returned."""
        sources = pictures(images)
        if self.engine is None:
            return self._annotate(sources, choice)
        return elsewhere(self.engine, self, sources, choice)

    def _annotate(self, images: Iterator[Source], choice: TagChoice) -> Iterator[Annotation]:
        while chunk := list(islice(images, TOGETHER)):
            features = self.extractor.extract(chunk)
            errors = {skipped.index: skipped.reason for skipped in features.skipped}
            judged = (
                self.model.predict(features.vectors, self.active_engine)
                if len(features.kept)
                else ()
            )
            rows = {number: row for row, number in enumerate(features.kept.tolist())}
            for number, source in enumerate(chunk):
                if number in errors:
                    yield Annotation(source, [], errors[number])
                else:
                    row = rows[number]
                    scores, probability = (part[row] for part in judged)
                    yield self.answer(source, scores, probability, features.digests[row], choice)

    def answer(
        self, source: Any, scores: Array, probability: Array, digest: bytes, choice: TagChoice
    ) -> Annotation:
        """The annotation of a picture that was judged, by a choice of tags."""
        given = choice.columns(scores, probability)
        perhaps = choice.suggested(probability, given)
        tags, more = (self._tags(c, scores, probability) for c in (given, perhaps))
        return Annotation(source, tags, None, more, digest in self._seen)

    def _tags(self, columns: Iterable[int], scores: Array, probability: Array) -> list[Tag]:
        tags = [Tag(self.tags[c], float(probability[c]), float(scores[c])) for c in columns]
        return sorted(tags, key=lambda tag: (-tag.probability, -tag.score))

    def vector(self, image: Source) -> Floats:
        """The network's vector of one picture, 1 x width."""
        self._check_fitted()
        features = self.extractor.extract([image])
        if features.skipped:
            raise ImageError(str(features.skipped[0]))
        return features.vectors

    def explain(self, image: Source, tags: Iterable[str] | None = None) -> list[ExplainedTag]:
        """Why a picture is given its tags, or what speaks for the tags named.

        A score is a sum over training pictures, as prototypes and by their likeness. The ones that
        give most are named; the rest is what all others, and the constants, give together.
        """
        from prototag.annotator import explain as explanations

        return explanations.explain(self, self.vector(image), tags)

    def training_picture(self, number: int) -> TrainingPicture:
        """A picture that was learned from, by its number in the gallery."""
        tags = [self.tags[tag] for tag in self.gallery.tags[number]]
        return TrainingPicture(self.gallery.names[number], tags, self.gallery.thumbnails[number])

    def similar(self, image: Source, count: int = 10, *, by: str = "vector") -> list[Neighbour]:
        """The training pictures most like this one.

        ``by="vector"``: by the cosine of what the network sees. ``by="code"``: by their part in
        the mixture of prototypes that the picture is coded as, which also knows of tags.
        """
        from prototag.annotator import explain as explanations

        if by not in ("vector", "code"):
            raise InputError(f"by={by!r}: give 'vector' or 'code'.")
        if count < 1:
            raise InputError(f"count={count}: give at least 1.")
        return explanations.similar(self, self.vector(image), count, by)

    @property
    def gallery(self) -> Gallery:
        """The training pictures; read from the model file when first asked for."""
        self._check_fitted()
        if self._gallery is None:
            header, arrays = modelfile.read(self.path, wanted=lambda n: n.startswith("gallery/"))
            if header != self.header:
                raise ModelFileError(f"{self.path} was replaced since it was loaded: load again.")
            self._gallery = Gallery.of(below(arrays, "gallery"), self.model)
        return self._gallery

    @gallery.setter
    def gallery(self, gallery: Gallery) -> None:
        self._gallery = gallery

    def _check_fitted(self) -> None:
        if "model" not in vars(self):
            raise TrainingError("the annotator has not learned anything: call fit, or load one.")

    # -- on disk -----------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one file, atomically; see docs/reference/model-file.md."""
        from prototag.storage.modelfile import provenance

        self._check_fitted()
        config, arrays = self.model.to_arrays()
        header = {
            "kind": KIND,
            "tags": self.tags,
            "model": config,
            "choices": self.choices,
            "features": self.extractor.to_state()[0],
            "learned": self.learned._asdict(),
            "provenance": provenance(),
        }
        every: dict[str, Array] = prefixed("model", arrays)
        every |= prefixed("operating_points", self.operating_points.to_arrays())
        every |= prefixed("gallery", self.gallery.to_arrays())
        modelfile.write(path, header, every)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        n_jobs: int | None = None,
        engine: Engine | None = None,
        cache: Any = "user",
        progress: Progress | None = None,
    ) -> Self:
        """Read what :meth:`save` wrote. Nothing in the file is executed."""
        with modelfile.opened(path) as file:
            return cls._load(file, n_jobs=n_jobs, engine=engine, cache=cache, progress=progress)

    @classmethod
    def _load(cls, file: modelfile.ModelFile, *, cache: Any, **given: Any) -> Self:
        header = file.header
        path = file.path
        if header["kind"] != KIND:
            raise ModelFileError(
                f"{path} holds a {header['kind']!r}, which knows vectors but no pictures: give a "
                "model that `prototag train` or Annotator.save wrote."
            )
        annotator = cls(cache=cache, **given)
        annotator.path = Path(path)
        given |= {"cache": cache, "near": annotator.path.parent}
        try:
            annotator.extractor = Extractor.from_state(header["features"], {}, **given)
            # Network and model take as long to load, and mostly outside of the interpreter.
            network = Thread(target=annotator.extractor.prepare)
            network.start()
            try:
                annotator._read(file)
            finally:
                network.join()
        except (AttributeError, KeyError, TypeError) as error:
            raise ModelFileError(f"{path} does not describe an annotator: {error}.") from error
        return annotator

    def _read(self, file: modelfile.ModelFile) -> None:
        header = file.header
        arrays = file.arrays(_is_needed_at_once)
        model = TagModel.from_arrays(header["model"], below(arrays, "model"))
        self.tags = vocabulary(header["tags"], model.n_tags)
        self.choices = modelfile.expect_numbers(header, "choices")
        points = below(arrays, "operating_points")
        self.operating_points = OperatingPoints.of(points, model.n_tags)
        self.learned = counts(header["learned"])
        self.skipped = []
        self.model = model
        self.header = header
        seen = [name for name in ("gallery/digests", "gallery/others") if name in arrays]
        known = [modelfile.expect(arrays, name, (None, DIGEST_BYTES), "u1") for name in seen]
        self._seen = frozenset(digest.tobytes() for part in known for digest in part)


def _is_needed_at_once(name: str) -> bool:
    return name in ("gallery/digests", "gallery/others") or not name.startswith("gallery/")
