"""Images in, tags out: network, reduction, prototypes, thresholds and vocabulary as one object."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from prototag import modelfile
from prototag.annotation import (
    Annotation,
    ExplainedTag,
    Learned,
    Limits,
    Neighbour,
    Reason,
    Tag,
)
from prototag.errors import ImageError, ModelFileError, TrainingError
from prototag.evidence import Evidence
from prototag.extraction import Extractor
from prototag.gallery import Gallery, thumbnails
from prototag.scoring import Scorer

if TYPE_CHECKING:
    from scipy import sparse

    from prototag.images import Source
    from prototag.metadata import Vocabulary
    from prototag.tagger import Tagger

Floats = npt.NDArray[np.float32]
KIND = "annotator"
CHUNK = 64  # pictures scored at a time, and held in memory
LEAST_PICTURES = 10
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
    progress : bool or None
        Whether to draw progress lines; None draws on terminals only.
    say : callable, optional
        Told in sentences what ``fit`` is doing.

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
        progress: bool | None = None,
        say: Callable[[str], object] | None = None,
    ) -> None:
        if least < 2:
            raise ValueError(f"least={least}: a tag is learned from at least 2 pictures.")
        self.n_jobs = n_jobs
        self.least = least
        self.budget = budget
        self.keep_thumbnails = keep_thumbnails
        self.progress = progress
        self.say = say or (lambda _: None)
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
        source : folder or list, or sequence of pictures, or anything with ``images`` and ``tags``
            The tags of a folder are found as ``prototag train`` finds them: sidecars, keywords
            inside the files, lists, text files or folder names.
        tags : sequence of collections of str, optional
            The tags of each picture, where ``source`` is a sequence of pictures.
        """
        from prototag import metadata

        if tags is None:
            if isinstance(source, str | os.PathLike):
                source = metadata.collect(source)
            source, tags = source.images, source.tags
        sources, given = list(source), [list(row) for row in tags]
        if len(sources) != len(given):
            raise TrainingError(
                f"{len(sources)} pictures and tags for {len(given)}: give each picture its tags."
            )
        words = metadata.vocabulary(given, min_count=self.least)
        self._check_words(words)
        useful = np.diff(words.matrix(given).indptr) > 0
        features = self.extractor.extract([sources[i] for i in np.flatnonzero(useful)])
        kept = np.flatnonzero(useful)[features.kept]
        # Some tags may have lost pictures that cannot be read.
        words = metadata.vocabulary([given[i] for i in kept], min_count=self.least)
        self._check_words(words)
        Y = words.matrix([given[i] for i in kept])
        still = np.flatnonzero(np.diff(Y.indptr) > 0)
        if len(still) < LEAST_PICTURES:
            raise TrainingError(
                f"{len(still)} pictures have tags to learn and can be read: at least "
                f"{LEAST_PICTURES} are needed, and many more to learn well."
            )
        every = metadata.vocabulary(given)
        count = dict(zip(every.names, every.counts, strict=True))
        self.learned = Learned(
            len(still),
            len(words.names),
            {tag: count[tag] for tag in sorted(count.keys() - set(words.names))},
            len(sources) - len(features.skipped) - len(still),
            features.skipped,
        )
        X, Y = features.vectors[still], Y[still]
        self._keep(self._learn(X, Y), list(words.names), X, Y, [sources[i] for i in kept[still]])
        return self

    def _check_words(self, words: Vocabulary) -> None:
        if not words.names and not words.dropped:
            raise TrainingError("no picture has a tag: there is nothing to learn.")
        if not words.names:
            tag, most = max(words.dropped.items(), key=lambda item: item[1])
            raise TrainingError(
                f"all {len(words.dropped):,} tags are too rare: a tag is learned from at least "
                f"{self.least} pictures, the most frequent, {tag!r}, has {most}. Tag more pictures "
                "or lower the limit (least=, --least)."
            )

    def _learn(self, X: Floats, Y: sparse.csr_array) -> Tagger:
        from prototag.tagger import recommended

        n, t = Y.shape
        start = recommended(n_jobs=self.n_jobs)
        if self.budget is None or n < LEAST_TUNED:
            self.say(f"Learning {t:,} tags from {n:,} pictures ...")
            return start.fit(X, Y)
        from prototag.tuning import Step, tune

        def told(step: Step) -> None:
            if step.quality is not None:
                tried = ", ".join(f"{name} {value}" for name, value in step.params.items())
                quality = f"{100 * step.quality:.1f} % for {tried or 'the start'}"
                self.say(f"  {step.seconds:.0f} of {step.budget:.0f} s: {quality}")

        self.say(f"Tuning on {n:,} pictures with {t:,} tags, {self.budget:.0f} s ...")
        return tune(X, Y, start, budget=self.budget, progress=told)

    def _keep(
        self,
        tagger: Tagger,
        names: list[str],
        X: Floats,
        Y: sparse.csr_array,
        pictures: list[Source],
    ) -> None:
        tagger.classes_ = np.array(names, object)
        self._tagger = tagger
        self._state = tagger.to_state()
        self.scorer = Scorer(*self._state, n_jobs=self.n_jobs)
        self.evidence = Evidence.collect(Y, tagger.out_of_fold_scores_, tagger.threshold_)
        small = thumbnails(pictures, n_jobs=self.n_jobs) if self.keep_thumbnails else []
        self._gallery = Gallery(
            _named(pictures),
            [row.tolist() for row in np.split(Y.indices, Y.indptr[1:-1])],
            self.scorer.short(X).astype(np.float16).astype(np.float32),  # as a file keeps them
            tagger.mcdl_.prototype_images_,
            small or [b""] * len(pictures),
        )

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
            raise ValueError("threshold and precision were both given: give one of them.")
        if threshold is not None and not 0 <= threshold <= 1:
            raise ValueError(f"threshold={threshold}: give a probability between 0 and 1.")
        if top is not None and top < 1:
            raise ValueError(f"top={top}: give at least 1.")
        allowed = np.ones(len(self.tags), bool)
        if vocabulary is not None:
            wanted = set(vocabulary)
            allowed = np.array([name in wanted for name in self.tags])
            if not allowed.any():
                raise ValueError(
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
        """Why a picture is given its tags, or what speaks for the tags named."""
        X = self.vector(image)
        plain = self.scorer.plain(X)[0]
        scores, probability = plain * self.scorer.tag_scale, self.scorer.probabilities(plain)
        if tags is None:
            columns = self.limits().choose(scores, probability).tolist()
        else:
            number = {name: column for column, name in enumerate(self.tags)}
            unknown = [tag for tag in tags if tag not in number]
            if unknown:
                raise ValueError(f"the model does not know the tags {unknown!r}.")
            columns = [number[tag] for tag in tags]
        codes = self.scorer.codes(X)
        index, value = codes.index[0], codes.value[0]
        answer = []
        for c in sorted(columns, key=lambda c: (-probability[c], -scores[c])):
            weight = np.float32(self.scorer.coded_share) * self.scorer.tag_scale[c]
            share = value * self.scorer.semantics[index, c] * weight
            order = np.argsort(-share, kind="stable")[: np.count_nonzero(share)]
            reasons = [self._reason(int(index[place]), float(share[place])) for place in order]
            tag = Tag(self.tags[c], float(probability[c]), float(scores[c]))
            rest = float(scores[c]) - float(share.sum())
            answer.append(ExplainedTag(tag, float(self.scorer.threshold[c]), reasons, rest))
        return answer

    def _reason(self, prototype: int, share: float) -> Reason:
        picture = int(self.gallery.prototypes[prototype])
        return Reason(share, picture, *self._picture(picture))

    def _picture(self, number: int) -> tuple[str, list[str], bytes]:
        tags = [self.tags[tag] for tag in self.gallery.tags[number]]
        return self.gallery.names[number], tags, self.gallery.thumbnails[number]

    def similar(self, image: Source, count: int = 10, *, by: str = "vector") -> list[Neighbour]:
        """The training pictures most like this one.

        ``by="vector"``: by the cosine of what the network sees. ``by="code"``: by their part in
        the mixture of prototypes that the picture is coded as, which also knows of tags.
        """
        if by not in ("vector", "code"):
            raise ValueError(f"by={by!r}: give 'vector' or 'code'.")
        if count < 1:
            raise ValueError(f"count={count}: give at least 1.")
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
        return [Neighbour(value, *self._picture(number)) for number, value in pairs]

    @property
    def gallery(self) -> Gallery:
        """The training pictures; read from the model file when first asked for."""
        self._check_fitted()
        if self._gallery is None:
            header, arrays = modelfile.read(self._path, wanted=_in_gallery)
            if header != self.header:
                raise ModelFileError(f"{self._path} was replaced since it was loaded: load again.")
            k = len(self.scorer.semantics)
            self._gallery = Gallery.of(_below(arrays, "gallery"), len(self.tags), k)
        return self._gallery

    @property
    def tagger(self) -> Tagger:
        """The estimator of vectors inside."""
        self._check_fitted()
        if self._tagger is None:
            from prototag.tagger import Tagger

            self._tagger = Tagger.from_state(*self._state)
        return self._tagger

    def _check_fitted(self) -> None:
        if "scorer" not in vars(self):
            raise TrainingError("the annotator has not learned anything: call fit, or load one.")

    # -- on disk -----------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one file, atomically; see docs/model-file.md."""
        from prototag.provenance import provenance

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
        progress: bool | None = None,
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


def _named(sources: Sequence[Any]) -> list[str]:
    """Paths below the folder that holds all of them: a model says nothing of where it was made."""
    paths = [os.path.abspath(s) for s in sources if isinstance(s, str | os.PathLike)]
    root = os.path.commonpath([os.path.dirname(path) for path in paths]) if paths else ""
    return [
        os.path.relpath(source, root)
        if isinstance(source, str | os.PathLike)
        else f"picture {number}"
        for number, source in enumerate(sources)
    ]
