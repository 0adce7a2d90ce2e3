"""Images in, tags out: network, reduction, prototypes, thresholds and vocabulary as one object."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from prototag.annotator.gallery import Gallery, rounded
from prototag.annotator.operating_points import Evidence
from prototag.annotator.results import (
    Annotation,
    ExplainedTag,
    Learned,
    Limits,
    Neighbour,
    Reason,
    Tag,
    TrainingPicture,
)
from prototag.errors import ImageError, InputError, ModelFileError, TrainingError
from prototag.events import Progress, tell
from prototag.features.extractor import Extractor
from prototag.storage import modelfile
from prototag.tagging.model import Scorer

if TYPE_CHECKING:
    from scipy import sparse

    from prototag.annotator.training_set import Lesson
    from prototag.images.decode import Source
    from prototag.tagging.tagger import Tagger

Floats = npt.NDArray[np.float32]
KIND = "annotator"
CHUNK = 64  # pictures scored at a time, and held in memory
REASONS = 25  # pictures named behind a tag
LEAST_TUNED = 60  # with fewer, folds say more of luck than of parameters


class Annotator:
    """Learns the tags of a collection of pictures and gives them to new ones.

    Parameters
    ----------
    backbone, crops, n_jobs, cache
        As in :class:`prototag.FeatureExtractor`.
    least : int, default=5
        Tags with fewer pictures are left out.
    budget : float, optional
        Seconds that tuning may take; None takes the recommended settings.
    keep_thumbnails : bool, default=True
        Keep small copies of the training pictures in the model, to explain with.
    progress : callable, optional
        Told an :class:`prototag.events.Event` now and then, while there is much to do.

    Examples
    --------
    Learn a folder whose pictures have keywords, then tag others (see docs/tutorial-photos.md)::

        annotator = Annotator(n_jobs=-1).fit("photos")
        annotator.save("photos.prototag")

        annotator = Annotator.load("photos.prototag")
        for picture in annotator.annotate(["new.jpg"]):
            print(picture.names)
    """

    def __init__(
        self,
        *,
        backbone: Any = "embedded",
        crops: str = "whole+five",
        n_jobs: int | None = None,
        cache: Any = "user",
        least: int = 5,
        budget: float | None = None,
        keep_thumbnails: bool = True,
        progress: Progress | None = None,
    ) -> None:
        if least < 2:
            raise InputError(f"least={least}: a tag is learned from at least 2 pictures.")
        self.n_jobs = n_jobs
        self.least = least
        self.budget = budget
        self.keep_thumbnails = keep_thumbnails
        self.progress = progress
        self.extractor = Extractor(
            backbone, crops=crops, n_jobs=n_jobs, cache=cache, progress=progress
        )

    header: dict[str, Any]  # of the model file, once loaded
    learned: Learned
    scorer: Scorer
    evidence: Evidence
    _state: tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]
    _tagger: Tagger | None = None
    _gallery: Gallery | None = None
    _path: Path  # of the file that the gallery is still in

    # -- learning ----------------------------------------------------------------------------------

    def fit(self, source: Any, tags: Sequence[Collection[str]] | None = None) -> Self:
        """Learn from a tagged collection.

        Parameters
        ----------
        source : folder, list, what was collected from one, data set, or sequence of pictures
            The tags of a folder are found as ``prototag train`` finds them: sidecars, keywords
            inside the files, lists, text files or folder names
            (:func:`prototag.metadata.collect`). Of a data set
            (:mod:`prototag.research.datasets`) the training part is learned.
        tags : sequence of collections of str, optional
            The tags of each picture, where ``source`` is a sequence of pictures.
        """
        from prototag.annotator.training_set import prepare

        small = self.keep_thumbnails
        lesson = prepare(source, tags, self.extractor, self.least, thumbnails=small)
        self.learned = lesson.learned
        self._keep(self._learn(lesson.X, lesson.Y), lesson)
        return self

    def _learn(self, X: Floats, Y: sparse.csr_array) -> Tagger:
        from prototag.tagging.tagger import recommended

        n, t = Y.shape
        start = recommended(n_jobs=self.n_jobs)
        if self.budget is None or n < LEAST_TUNED:
            tell(self.progress, "Learning", f"Learning {t:,} tags from {n:,} pictures ...")
            return start.fit(X, Y)
        from prototag.tagging.tuning import Step, tune

        def told(step: Step) -> None:
            if step.quality is not None:
                tried = ", ".join(f"{name} {value}" for name, value in step.params.items())
                quality = f"{100 * step.quality:.1f} % for {tried or 'the start'}"
                said = f"  {step.seconds:.0f} of {step.budget:.0f} s: {quality}"
                tell(self.progress, "Tuning", said)

        said = f"Tuning on {n:,} pictures with {t:,} tags, {self.budget:.0f} s ..."
        tell(self.progress, "Tuning", said)
        return tune(X, Y, start, budget=self.budget, progress=told)

    def _keep(self, tagger: Tagger, lesson: Lesson) -> None:
        tagger.classes_ = np.array(lesson.tags, object)
        self._tagger = tagger
        config, arrays = tagger.to_state()
        # In the order that a file gives back, so that sums are the same to the last bit.
        self._state = config, {name: np.ascontiguousarray(a) for name, a in arrays.items()}
        self.scorer = Scorer(*self._state, n_jobs=self.n_jobs)
        scores, Y = tagger.out_of_fold_scores_, lesson.Y
        self.evidence = Evidence.collect(Y, scores, tagger.threshold_)
        prototypes = tagger.mcdl_.prototype_images_
        gallery = Gallery(
            lesson.names,
            [row.tolist() for row in np.split(Y.indices, Y.indptr[1:-1])],
            rounded(self.scorer.short(lesson.X)),
            prototypes,
            prototypes,
            lesson.thumbnails,
            (scores / self.scorer.tag_scale).astype(np.float16),
        )
        if len(self.scorer.landmarks) < len(prototypes):  # the kernel takes some of them
            gallery = replace(gallery, landmarks=gallery.find(self.scorer.landmarks))
        self._gallery = gallery

    # -- using -------------------------------------------------------------------------------------

    @property
    def tags(self) -> list[str]:
        """The vocabulary: all tags that can be given."""
        self._check_fitted()
        return self.scorer.names

    def limits(
        self,
        *,
        threshold: float | None = None,
        precision: float | None = None,
        top: int | None = None,
        vocabulary: Iterable[str] | None = None,
    ) -> Limits:
        """Which tags :meth:`annotate` gives; checked at once, before the first picture is read."""
        self._check_fitted()
        if threshold is not None and precision is not None:
            raise InputError("threshold and precision were both given: give one of them.")
        if threshold is not None and not 0 <= threshold <= 1:
            raise InputError(f"threshold={threshold}: give a probability between 0 and 1.")
        if top is not None and top < 1:
            raise InputError(f"top={top}: give at least 1.")
        allowed = np.ones(len(self.tags), bool)
        if vocabulary is not None:
            wanted = set(vocabulary)
            allowed = np.array([name in wanted for name in self.tags])
            if not allowed.any():
                raise InputError(
                    "the model knows none of the tags to stay in: `prototag inspect` lists those "
                    "that it learned."
                )
        scores = None
        if precision is not None:
            scores = self.evidence.thresholds(precision)
        elif threshold is None and top is None:
            scores = self.scorer.threshold
        return Limits(allowed, scores, threshold, top)

    def annotate(
        self,
        images: Iterable[Source],
        *,
        threshold: float | None = None,
        precision: float | None = None,
        top: int | None = None,
        vocabulary: Iterable[str] | None = None,
    ) -> Iterator[Annotation]:
        """Tags of pictures, one by one in their order; only a few are in memory at a time.

        A picture that cannot be read gets an annotation with its ``error``.

        Parameters
        ----------
        images : iterable of paths, bytes, PIL images or arrays
        threshold : float, optional
            Give the tags that are at least so likely. By default each tag has a threshold of its
            own, chosen for the best F1 on left-out training pictures.
        precision : float, optional
            Give each tag by the threshold that reached this precision on left-out training
            pictures, and not at all if none did.
        top : int, optional
            Give so many tags, the best; with ``threshold`` or ``precision`` at most so many.
        vocabulary : iterable of str, optional
            Give these tags only.
        """
        limits = self.limits(
            threshold=threshold, precision=precision, top=top, vocabulary=vocabulary
        )
        return self._annotate(iter(images), limits)

    def _annotate(self, images: Iterator[Source], limits: Limits) -> Iterator[Annotation]:
        while chunk := list(islice(images, CHUNK)):
            features = self.extractor.extract(chunk)
            errors = {skipped.index: skipped.reason for skipped in features.skipped}
            plain = self.scorer.plain(features.vectors) if len(features.kept) else np.empty((0, 0))
            row = {number: place for place, number in enumerate(features.kept.tolist())}
            for number, source in enumerate(chunk):
                if number in errors:
                    yield Annotation(source, [], errors[number])
                else:
                    yield Annotation(source, self._tags_of(plain[row[number]], limits))

    def _tags_of(self, plain: Floats, limits: Limits) -> list[Tag]:
        scores = plain * self.scorer.tag_scale
        probability = self.scorer.probabilities(plain)
        found = limits.choose(scores, probability)
        tags = [Tag(self.tags[c], float(probability[c]), float(scores[c])) for c in found]
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

        A score is a sum over training pictures: what each gives as a prototype in the code of this
        picture, and by its likeness to it. The ones that give most are named; the rest is what all
        others, and the constants, give together.
        """
        X = self.vector(image)
        plain = self.scorer.plain(X)[0]
        scores, probability = plain * self.scorer.tag_scale, self.scorer.probabilities(plain)
        if tags is None:
            columns = self.limits().choose(scores, probability).tolist()
        else:
            number = {name: column for column, name in enumerate(self.tags)}
            unknown = [tag for tag in tags if tag not in number]
            if unknown:
                raise InputError(f"the model does not know the tags {unknown!r}.")
            columns = [number[tag] for tag in tags]
        columns.sort(key=lambda c: (-probability[c], -scores[c]))
        shares = self.scorer.shares(X, columns)
        given = np.zeros((len(self.gallery.names), len(columns)), np.float32)
        np.add.at(given, self.gallery.prototypes[shares.prototypes], shares.coded)
        np.add.at(given, self.gallery.landmarks, shares.smooth)
        answer = []
        for c, share in zip(columns, given.T, strict=True):
            order = np.argsort(-share, kind="stable")[:REASONS]
            reasons = [
                Reason(float(share[i]), self.training_picture(int(i)))
                for i in order
                if share[i] > 0
            ]
            tag = Tag(self.tags[c], float(probability[c]), float(scores[c]))
            rest = tag.score - sum(reason.share for reason in reasons)
            answer.append(ExplainedTag(tag, float(self.scorer.threshold[c]), reasons, rest))
        return answer

    def training_picture(self, number: int) -> TrainingPicture:
        """One of the pictures that were learned, by its place in the gallery."""
        gallery = self.gallery
        tags = [self.tags[tag] for tag in gallery.tags[number]]
        return TrainingPicture(gallery.names[number], tags, gallery.thumbnails[number])

    def similar(self, image: Source, count: int = 10, *, by: str = "vector") -> list[Neighbour]:
        """The training pictures most like this one.

        ``by="vector"``: by the cosine of what the network sees. ``by="code"``: by their part in
        the mixture of prototypes that the picture is coded as, which also knows of tags.
        """
        if by not in ("vector", "code"):
            raise InputError(f"by={by!r}: give 'vector' or 'code'.")
        if count < 1:
            raise InputError(f"count={count}: give at least 1.")
        X = self.vector(image)
        if by == "vector":
            found, likeness = self.gallery.nearest(self.scorer.short(X)[0], count)
        else:
            codes = self.scorer.codes(X)
            order = np.argsort(-codes.value[0], kind="stable")[:count]
            order = order[codes.value[0][order] > 0]
            found = self.gallery.prototypes[codes.index[0][order]]
            likeness = codes.value[0][order]
        pairs = zip(found.tolist(), likeness.tolist(), strict=True)
        return [Neighbour(value, self.training_picture(number)) for number, value in pairs]

    @property
    def gallery(self) -> Gallery:
        """The training pictures; read from the model file when first asked for."""
        self._check_fitted()
        if self._gallery is None:
            header, arrays = modelfile.read(self._path, wanted=_in_gallery)
            if header != self.header:
                raise ModelFileError(f"{self._path} was replaced since it was loaded: load again.")
            k, count = len(self.scorer.semantics), len(self.scorer.landmarks)
            self._gallery = Gallery.of(_below(arrays, "gallery"), len(self.tags), k, count)
        return self._gallery

    @property
    def tagger(self) -> Tagger:
        """The estimator of vectors inside."""
        self._check_fitted()
        if self._tagger is None:
            from prototag.tagging.tagger import Tagger

            self._tagger = Tagger.from_state(*self._state)
        return self._tagger

    def _check_fitted(self) -> None:
        if "scorer" not in vars(self):
            raise TrainingError("the annotator has not learned anything: call fit, or load one.")

    # -- on disk -----------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one file, atomically; see docs/model-file.md."""
        from prototag.storage.provenance import provenance

        self._check_fitted()
        config, arrays = self._state
        features, _ = self.extractor.to_state()
        learned = self.learned
        header = {
            "kind": KIND,
            "tagger": config,
            "features": features,
            "learned": {
                "pictures": learned.pictures,
                "tags": learned.tags,
                "too_rare": len(learned.too_rare),
                "untagged": learned.untagged,
                "unreadable": len(learned.skipped),
            },
            "provenance": provenance(),
        }
        parts = {
            "tagger": arrays,
            "evidence": self.evidence.to_arrays(),
            "gallery": self.gallery.to_arrays(),
        }
        every = {f"{name}/{key}": a for name, part in parts.items() for key, a in part.items()}
        modelfile.write(path, header, every)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        n_jobs: int | None = None,
        cache: Any = "user",
        progress: Progress | None = None,
    ) -> Self:
        """Read what :meth:`save` wrote. Nothing in the file is executed."""
        header = modelfile.read_header(path)
        if header["kind"] != KIND:
            raise ModelFileError(
                f"{path} holds a {header['kind']!r}, which knows vectors but no pictures: give a "
                "model that `prototag train` or Annotator.save wrote."
            )
        annotator = cls(n_jobs=n_jobs, cache=cache, progress=progress)
        annotator._path = Path(path)
        try:
            settings = {"n_jobs": n_jobs, "cache": cache, "progress": progress}
            annotator.extractor = Extractor.from_state(header["features"], {}, **settings)
            # Network and model take as long to load, and mostly outside of the interpreter.
            network = Thread(target=annotator.extractor.prepare)
            network.start()
            try:
                annotator._read()
            finally:
                network.join()
        except (AttributeError, KeyError, TypeError) as error:
            raise ModelFileError(f"{path} does not describe an annotator: {error}.") from error
        return annotator

    def _read(self) -> None:
        header, arrays = modelfile.read(self._path, wanted=lambda name: not _in_gallery(name))
        self._state = header["tagger"], _below(arrays, "tagger")
        self.scorer = Scorer(*self._state, n_jobs=self.n_jobs)
        t = len(self.scorer.names)
        self.evidence = Evidence.of(_below(arrays, "evidence"), t)
        self.learned = Learned(int(header["learned"]["pictures"]), t)
        self.header = header


def _in_gallery(name: str) -> bool:
    return name.startswith("gallery/")


def _below(arrays: dict[str, npt.NDArray[Any]], part: str) -> dict[str, npt.NDArray[Any]]:
    """Arrays of one part, under the names it gave them."""
    start = f"{part}/"
    return {name.removeprefix(start): a for name, a in arrays.items() if name.startswith(start)}
