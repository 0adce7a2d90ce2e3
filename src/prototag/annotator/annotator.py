"""Annotator of pictures: backbone, model, operating points and vocabulary as one object."""

from __future__ import annotations

import copy
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from operator import length_hint
from pathlib import Path
from threading import Thread
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from prototag.annotator.gallery import Gallery
from prototag.annotator.input_validation import pictures
from prototag.annotator.operating_points import (
    MIN_ESTIMATE_PROBABILITY,
    OperatingPoints,
    TagSelector,
)
from prototag.annotator.remote import run_remote
from prototag.annotator.types import (
    Annotation,
    Estimate,
    Explanation,
    Neighbours,
    Tag,
    TagEstimate,
    TrainingPicture,
    TrainingSummary,
)
from prototag.arrays import Array, Floats, add_prefix, select_prefix
from prototag.engine import Engine, Threads
from prototag.errors import (
    ImageError,
    InputError,
    ModelFileError,
    Remedy,
    TrainingError,
    UnknownNameError,
)
from prototag.events import Meter, ProgressOption, resolve_progress
from prototag.features import remote as remote_features
from prototag.features.extractor import Extractor, Skipped
from prototag.images.decode import DIGEST_BYTES
from prototag.storage import modelfile
from prototag.tagging.model import TagModel

if TYPE_CHECKING:
    from pandas import DataFrame

    from prototag.annotator.assess import Assessment
    from prototag.annotator.general import RuleColumn
    from prototag.annotator.training_set import TrainingSet
    from prototag.images.decode import Source
    from prototag.tagging.fit_result import FitResult

KIND = "annotator"
DIGEST_ARRAYS = ("gallery/digests", "gallery/omitted_digests")
BATCH_PICTURES = 64  # decoded and scored together: large matrix products, little memory


class Annotator:
    """Image annotator that learns the tags of a collection and applies them to new pictures.

    See docs/guide/quickstart.md and docs/integrate/python.md.

    Parameters
    ----------
    backbone, crops, n_jobs, engine, cache : as in :class:`prototag.FeatureExtractor`
    min_pictures : int, default=5
        Tags with fewer pictures are ignored.
    untagged : {"ignore", "negative"}, default="ignore"
        Whether pictures without any tag are ignored, or count as lacking every tag.
    tuning_seconds : float, optional
        Time limit of hyperparameter tuning. None uses the recommended settings.
    keep_thumbnails : bool, default=True
        Store thumbnails of the training pictures in the model, to show in explanations.
    progress : "rich", "tqdm" or callable, optional
        Draws progress bars, or receives an :class:`prototag.events.Event` now and then during long
        operations.

    Attributes
    ----------
    tags : list of str
        The vocabulary, which are the columns of ``model``.
    model : TagModel
        Scores of vectors.
    operating_points : OperatingPoints
        Cross-validated performance of each tag, and precision by threshold.
    training_summary : TrainingSummary
        Size of the training set, and what was excluded from it.
    choices : dict
        Selected hyperparameters, and the cross-validated performance (``out_of_fold_f1``).
    training_digests : frozenset of bytes
        Digests of all training pictures.
    skipped : list of Skipped
        Pictures that ``fit`` could not read. Not stored in the model file.
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
        progress: ProgressOption | None = None,
    ) -> None:
        if min_pictures < 2:
            raise InputError(
                f"min_pictures={min_pictures}: a tag needs at least 2 pictures, give 2 or more."
            )
        self.n_jobs = n_jobs
        self.engine = engine
        self.progress = progress = resolve_progress(progress)
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
    training_summary: TrainingSummary
    choices: dict[str, float]
    training_digests: frozenset[bytes] = frozenset()
    word_vectors: Array | None = None  # t x 512, of the words of a general annotator
    rule_columns: Mapping[str, RuleColumn] = MappingProxyType({})  # of a general annotator
    skipped: list[Skipped]
    path: Path  # of the model file, once loaded: the gallery is read from it on first use
    _gallery: Gallery | None = None

    @property
    def active_engine(self) -> Engine:
        """Engine passed by the caller, by default threads."""
        return Threads(self.n_jobs) if self.engine is None else self.engine

    @classmethod
    def general(
        cls,
        language: str = "en",
        *,
        vocabulary: Iterable[str] | None = None,
        n_jobs: int | None = None,
        engine: Engine | None = None,
        cache: Any = "user",
        progress: ProgressOption | None = None,
    ) -> Self:
        """Return an annotator that needs no training: public knowledge of how words look.

        Parameters
        ----------
        language : str, default="en"
            Language of the general vocabulary: ar, de, en, es, fr, it, ja, ko, nl, pl, pt, ru, th,
            tr, zh or zh-TW.
        vocabulary : iterable of str, optional
            Own words, in any of these languages, instead of the general vocabulary. Their
            probabilities are those of similar words, and their precision was not measured.
        n_jobs, engine, cache, progress : as in :class:`prototag.Annotator`
        """
        from prototag.annotator import general
        from prototag.knowledge.general import general_vocabulary

        own_words = None if vocabulary is None else general.own_words(vocabulary)
        annotator = cls(n_jobs=n_jobs, engine=engine, cache=cache, progress=progress)
        backbone = Thread(target=annotator.extractor.prepare)  # loads while the words are read
        backbone.start()
        try:
            words = (
                general_vocabulary().in_language(language)
                if own_words is None
                else general_vocabulary().of_names(own_words)
            )
        finally:
            backbone.join()
        if own_words is None:
            words, annotator.rule_columns = general.with_rules(words, language)
        annotator.tags = words.names
        annotator.word_vectors = words.vectors
        annotator.model = general.general_model(words)
        annotator.choices = {}
        annotator.operating_points = general.general_operating_points(words)
        annotator.training_summary = TrainingSummary(0, len(words.names), {}, 0, 0)
        annotator.skipped = []
        annotator._gallery = general.empty_gallery(len(words.names))
        return annotator

    @property
    def is_fitted(self) -> bool:
        """Whether the annotator has a model."""
        return "model" in vars(self)

    def __repr__(self) -> str:
        network = str(self.extractor.backbone)
        if not self.is_fitted:
            return f"Annotator(backbone={network!r}, not fitted)"
        estimate = self.estimate()
        precision = f"{estimate.precision:.0%}" if estimate.threshold <= 1 else "no tag reliable"
        return (
            f"Annotator(backbone={network!r}, tags={len(self.tags):,}, "
            f"pictures={self.training_summary.pictures:,}, expected precision: {precision})"
        )

    def _repr_html_(self) -> str:
        from prototag.annotator import notebook

        return notebook.annotator(self)

    # -- training ----------------------------------------------------------------------------------

    @classmethod
    def from_folder(
        cls,
        folder: str | os.PathLike[str],
        *,
        kind: str | Iterable[str] = "auto",
        column: str | None = None,
        **settings: Any,
    ) -> Self:
        """Train on a folder of tagged pictures, or on a list of pictures with their tags.

        Parameters
        ----------
        folder : path
        kind, column : as in :func:`prototag.metadata.collect`
        **settings
            Parameters of the class.
        """
        from prototag import metadata

        annotator = cls(**settings)
        collected = metadata.collect(folder, kind=kind, column=column, progress=annotator.progress)
        return annotator.fit(collected)

    def fit(
        self,
        source: Any,
        tags: Sequence[Collection[str]] | None = None,
        *,
        path_column: str | None = None,
        tags_column: str | None = None,
        work: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Train on a tagged collection.

        Parameters
        ----------
        source : folder, Collected, data set, data frame, sequence of pictures, or VectorFolder
            The tags of a folder are collected as by ``prototag train``: from sidecars, keywords
            inside the files, lists, text files or folder names (:func:`prototag.metadata.collect`).
            Of a data set the training part is used. A
            :class:`prototag.features.vector_folder.VectorFolder` has vectors computed before.
        tags : sequence of collections of str, optional
            One list of tags for each picture, if ``source`` is a sequence of pictures.
        path_column, tags_column : str, optional
            Columns of a data frame, by default ``file_name``, ``path`` or ``image``, and ``tags``,
            ``keywords`` or ``labels``. Tags are lists, or text separated by ``;`` or ``,``.
        work : folder, optional
            Stage cache of out-of-core training, from which an interrupted fit resumes.
        """
        from prototag.annotator.data_frames import pictures_and_tags
        from prototag.annotator.training_set import build_training_set, fit_tagger
        from prototag.features.vector_folder import VectorFolder

        if tags is None:
            source, tags = pictures_and_tags(source, path_column, tags_column)
        if isinstance(source, VectorFolder):
            self.extractor = source.extractor(
                cache=self.extractor.cache,
                n_jobs=self.n_jobs,
                engine=self.engine,
                progress=self.progress,
            )
        training = build_training_set(
            source,
            tags,
            self.extractor,
            self.min_pictures,
            untagged=self.untagged,
            thumbnails=self.keep_thumbnails,
        )
        tagger, training = fit_tagger(
            training,
            self.n_jobs,
            self.tuning_seconds,
            self.progress,
            self.engine,
            work=work,
            backbone=self.extractor.fingerprint,
            network=str(self.extractor.backbone),
        )
        self.extractor.selected_groups = [group.name for group in training.feature_groups]
        self.set_fit(tagger.result_, training)
        return self

    def set_fit(self, result: FitResult, training: TrainingSet) -> None:
        """Set all fitted attributes from the fit of a training set."""
        self.tags = training.tags
        self.model = result.model
        self.choices = result.choices
        self.training_summary = training.summary
        self.skipped = training.skipped
        self.training_digests = frozenset(training.digests)
        self.operating_points = OperatingPoints.from_fit(result)
        self._gallery = Gallery.from_fit(result, training)

    # -- annotation --------------------------------------------------------------------------------

    def selector(
        self,
        *,
        min_probability: float | None = None,
        precision: float | None = None,
        top: int | None = None,
        vocabulary: Iterable[str] | None = None,
        research: bool = False,
    ) -> TagSelector:
        """Validate the options of :meth:`annotate`, before the first picture is read."""
        self._check_fitted()
        if (min_probability is not None) + (precision is not None) + research > 1:
            raise InputError("min_probability, precision and research: give one of them.")
        if min_probability is not None and not 0 <= min_probability <= 1:
            raise InputError(f"min_probability={min_probability}: give a number between 0 and 1.")
        if top is not None and top < 1:
            raise InputError(f"top={top}: give at least 1.")
        allowed = np.ones(len(self.tags), bool)
        if vocabulary is not None:
            requested = set(vocabulary)
            if unknown := sorted(requested.difference(self.tags)):
                raise UnknownNameError(
                    f"the model does not know {', '.join(map(repr, unknown[:5]))}",
                    remedy=Remedy.LIST_MODEL_TAGS,
                )
            if not requested:
                raise InputError("vocabulary is empty: give at least one tag, or None for all.")
            allowed = np.array([name in requested for name in self.tags])
        if research:
            return TagSelector(allowed, self.model.threshold, None, top)
        if precision is not None:
            min_probability = self.operating_points.threshold_for(precision)
        elif min_probability is None and top is None:
            min_probability = self.operating_points.default_threshold
        return TagSelector(allowed & self.operating_points.learnable, None, min_probability, top)

    def annotate(
        self,
        images: Source | Iterable[Source],
        *,
        min_probability: float | None = None,
        precision: float | None = None,
        top: int | None = None,
        vocabulary: Iterable[str] | None = None,
        research: bool = False,
    ) -> Iterator[Annotation]:
        """Annotate pictures lazily, in their order; only a few are in memory at a time.

        By default a tag is applied if it is probably correct: the threshold is the lowest at which
        cross-validation shows a precision of 70%, and at least 0.5. Other tags with a probability
        of at least 0.5 are ``estimates``, less probable ones ``suggestions``. Tags that are not
        learnable are neither applied nor suggested. The annotation of a picture that cannot be
        read has an ``error``.

        Parameters
        ----------
        images : iterable of paths, bytes, PIL images or arrays
            A single picture or folder counts as a list.
        min_probability : float, optional
            Apply the tags that have at least this probability.
        precision : float, optional
            Target precision, pooled over all tags. No tag is applied if cross-validation shows
            that the target cannot be met.
        top : int, optional
            Number of tags per picture; a maximum when combined with one of the two above.
        vocabulary : iterable of str, optional
            Apply these tags only.
        research : bool, default=False
            Apply every tag, learnable or not, from the threshold of its best cross-validated F1
            on: the protocol of the literature.
        """
        selector = self.selector(
            min_probability=min_probability,
            precision=precision,
            top=top,
            vocabulary=vocabulary,
            research=research,
        )
        return self.annotate_with(selector, images)

    def annotate_with(
        self, selector: TagSelector, images: Source | Iterable[Source]
    ) -> Iterator[Annotation]:
        """Annotate pictures as :meth:`annotate` does, with a result of :meth:`selector`."""
        sources = pictures(images)
        total = length_hint(sources) or None  # unknown for a generator
        if self.engine is None:
            annotations = self.annotate_here(sources, selector)
        else:
            annotations = run_remote(self.engine, self, sources, selector)
        if self.progress is None:
            return annotations
        return self._with_progress(annotations, total)

    def _with_progress(
        self, annotations: Iterator[Annotation], total: int | None
    ) -> Iterator[Annotation]:
        meter = Meter("Annotating", total, self.progress)
        for annotation in annotations:
            meter.advance()
            yield annotation

    def annotate_frame(
        self, images: Any, *, path_column: str | None = None, **options: Any
    ) -> DataFrame:
        """Annotate the pictures of a data frame, or any pictures, with a data frame as result.

        The result has the rows, columns and index of the given data frame, and the columns

        - ``tags``: names of the applied tags, most probable first;
        - ``probabilities``: their probabilities;
        - ``suggestions``: names of the suggested tags;
        - ``error``: why the picture could not be read, else None.

        Columns of these names are replaced. ``frame.explode(["tags", "probabilities"])`` has one
        row for each tag. Requires pandas.

        Parameters
        ----------
        images : DataFrame, or pictures as in :meth:`annotate`
            Pictures that are not in a data frame are listed in the column ``path``.
        path_column : str, optional
            Column of paths, by default ``file_name``, ``path`` or ``image``.
        **options
            As in :meth:`annotate`.
        """
        from prototag.annotator.data_frames import annotate_frame

        return annotate_frame(self, images, path_column, self.selector(**options))

    def annotate_here(
        self, images: Iterator[Source], selector: TagSelector
    ) -> Iterator[Annotation]:
        """Annotate pictures in this process, in batches."""
        while batch := list(islice(images, BATCH_PICTURES)):
            features = self.extractor.extract(batch, report=False)
            errors = {skipped.index: skipped.reason for skipped in features.skipped}
            judged = (
                self.model.predict(features.vectors, self.active_engine)
                if len(features.kept)
                else ()
            )
            rows = {number: row for row, number in enumerate(features.kept.tolist())}
            matching = self._matching_rules([batch[number] for number in rows], features.digests)
            for number, source in enumerate(batch):
                if number in errors:
                    yield Annotation(source, [], errors[number])
                else:
                    row = rows[number]
                    scores, probabilities = (part[row] for part in judged)
                    if self.rule_columns:
                        scores, probabilities = self._apply_rules(
                            next(matching), scores, probabilities
                        )
                    digest = features.digests[row]
                    yield self.annotation(source, scores, probabilities, digest, selector)

    def _matching_rules(
        self, images: Sequence[Source], digests: Sequence[bytes] = ()
    ) -> Iterator[frozenset[str]]:
        if not self.rule_columns:
            return iter(())
        from prototag.annotator.rule_cache import matching_rules

        return iter(matching_rules(self.extractor.vector_cache, images, digests, self.n_jobs))

    def _apply_rules(
        self, matching: Collection[str], scores: Array, probabilities: Array
    ) -> tuple[Array, Array]:
        from prototag.annotator.general import apply_rules

        return apply_rules(self.rule_columns, matching, scores, probabilities)

    def annotation(
        self,
        source: Any,
        scores: Array,
        probabilities: Array,
        digest: bytes,
        selector: TagSelector,
    ) -> Annotation:
        """Build the annotation of a picture from its scores and probabilities."""
        applied = selector.applied(scores, probabilities)
        suggested = selector.suggested(probabilities, applied)
        is_likely = probabilities[suggested] >= MIN_ESTIMATE_PROBABILITY
        return Annotation(
            source,
            self._sorted_tags(applied, scores, probabilities),
            estimates=self._sorted_tags(suggested[is_likely], scores, probabilities),
            suggestions=self._sorted_tags(suggested[~is_likely], scores, probabilities),
            in_training_set=digest in self.training_digests,
        )

    def _sorted_tags(
        self, columns: Iterable[int], scores: Array, probabilities: Array
    ) -> list[Tag]:
        tags = [self.tag(c, scores, probabilities) for c in columns]
        return sorted(tags, key=lambda tag: (-tag.probability, -tag.score))

    def tag(self, column: int, scores: Array, probabilities: Array) -> Tag:
        """Build a tag from the scores and probabilities of a picture."""
        probability = float(probabilities[column])
        rules = {rule.column for rule in self.rule_columns.values()}
        by_rule = column in rules and probability == 1  # words never reach it
        source: Literal["model", "rule"] = "rule" if by_rule else "model"
        return Tag(self.tags[column], probability, float(scores[column]), source)

    def picklable_copy(self) -> Annotator:
        """Return a picklable copy for workers: no gallery, no cache, no progress callback."""
        worker_copy = copy.copy(self)
        worker_copy.extractor = remote_features.picklable_copy(self.extractor)
        worker_copy.engine = None
        worker_copy.progress = None
        worker_copy._gallery = None
        return worker_copy

    def vector(self, image: Source) -> Floats:
        """Compute the feature vector of one picture, 1 x width."""
        self._check_fitted()
        features = self.extractor.extract([image])
        if features.skipped:
            raise ImageError(str(features.skipped[0]))
        return features.vectors

    def explain(self, image: Source, tags: Iterable[str] | None = None) -> Explanation:
        """Explain tags of a picture, by default the applied and suggested ones.

        A score is a sum of contributions of training pictures, as prototypes in the code and as
        landmarks of the kernel. The largest are listed. The rest is the sum of all others and of
        the constants. If the model knows the names of its tags, the concepts that speak for a tag
        by its name are listed, too; their contribution is a part of the rest.
        """
        from prototag.annotator import explain as explanations

        X = self.vector(image)
        matching = next(self._matching_rules([image]), frozenset[str]())
        explanation = explanations.explain(self, X, tags, matching)
        explanation.source = image
        return explanation

    def training_picture(self, row: int) -> TrainingPicture:
        """Return a training picture by its row in the gallery."""
        gallery = self.gallery
        tags = [self.tags[tag] for tag in gallery.tags[row]]
        return TrainingPicture(gallery.names[row], tags, gallery.thumbnails[row])

    def similar(self, image: Source, count: int = 10, *, by: str = "vector") -> Neighbours:
        """Find the training pictures that are most similar to a picture.

        ``by="vector"`` compares feature vectors by their cosine. ``by="code"`` takes the weights of
        the prototypes in the code of the picture, which also reflects tags.
        """
        from prototag.annotator import explain as explanations

        if by not in ("vector", "code"):
            raise InputError(f"by={by!r}: give 'vector' or 'code'.")
        if count < 1:
            raise InputError(f"count={count}: give at least 1.")
        return explanations.similar(self, self.vector(image), count, by)

    def evaluate(
        self,
        source: Any,
        tags: Sequence[Collection[str]] | None = None,
        *,
        path_column: str | None = None,
        tags_column: str | None = None,
        research: bool = False,
    ) -> Assessment:
        """Compare the tags of the annotator with labels; parameters as in :meth:`fit`.

        Training pictures are evaluated by their held-out scores. Pictures without labels are
        skipped if their tags were collected from a folder. ``research`` applies every tag by the
        threshold of its best F1, the protocol of the literature.
        """
        from prototag.annotator.assess import assess_source
        from prototag.annotator.data_frames import pictures_and_tags

        self._check_fitted()
        if tags is None:
            source, tags = pictures_and_tags(source, path_column, tags_column)
        return assess_source(self, source, tags, research=research)

    def estimate(
        self, *, precision: float | None = None, min_probability: float | None = None
    ) -> Estimate:
        """Estimate the precision on new pictures, by cross-validation on the training set.

        The estimate is for the default threshold, for the lowest one that reaches ``precision``, or
        for ``min_probability``. The figures of single tags are for the default threshold.
        """
        selector = self.selector(precision=precision, min_probability=min_probability)
        points = self.operating_points
        threshold = selector.min_probability
        assert threshold is not None  # because neither top nor research is given
        return Estimate(
            threshold,
            points.estimated_precision(threshold),
            points.precision_at_least(threshold),
            [
                TagEstimate(
                    name,
                    int(points.positives[c]),
                    bool(points.learnable[c]),
                    None if np.isnan(points.precision[c]) else float(points.precision[c]),
                    float(points.recall[c]),
                    float(points.auc[c]),
                )
                for c, name in enumerate(self.tags)
            ],
        )

    @property
    def gallery(self) -> Gallery:
        """The training pictures, read from the model file on first use."""
        self._check_fitted()
        if self._gallery is None:
            header, arrays = modelfile.read(self.path, select=lambda n: n.startswith("gallery/"))
            if header != self.header:
                raise ModelFileError(
                    f"{self.path} was replaced since it was loaded: load it again."
                )
            self._gallery = Gallery.from_arrays(select_prefix(arrays, "gallery"), self.model)
        return self._gallery

    @gallery.setter
    def gallery(self, gallery: Gallery) -> None:
        self._gallery = gallery

    def _check_fitted(self) -> None:
        if not self.is_fitted:
            raise TrainingError("the annotator is not fitted: call fit, or load one.")

    # -- on disk -----------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model file atomically; see docs/reference/model-file.md."""
        from prototag.knowledge.concepts import knowledge_provenance
        from prototag.storage.modelfile import provenance

        self._check_fitted()
        config, arrays = self.model.to_arrays()
        header = {
            "kind": KIND,
            "tags": self.tags,
            "model": config,
            "choices": self.choices,
            "features": self.extractor.to_state()[0],
            "training": self.training_summary._asdict(),
            "provenance": provenance(),
        }
        if self.choices.get("names"):
            header["knowledge"] = knowledge_provenance()
        all_arrays: dict[str, Array] = add_prefix("model", arrays)
        all_arrays |= add_prefix("operating_points", self.operating_points.to_arrays())
        all_arrays |= add_prefix("gallery", self.gallery.to_arrays())
        modelfile.write(path, header, all_arrays)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        n_jobs: int | None = None,
        engine: Engine | None = None,
        cache: Any = "user",
        progress: ProgressOption | None = None,
    ) -> Self:
        """Load a model file. Nothing in the file is executed."""
        with modelfile.open_model_file(path) as file:
            return cls._load(file, n_jobs=n_jobs, engine=engine, cache=cache, progress=progress)

    @classmethod
    def _load(cls, file: modelfile.ModelFile, *, cache: Any, **settings: Any) -> Self:
        header = file.header
        path = file.path
        if header["kind"] != KIND:
            raise ModelFileError(
                f"{path} holds a {header['kind']!r}, which scores vectors and not pictures: give "
                "a model that `prototag train` or Annotator.save wrote."
            )
        annotator = cls(cache=cache, **settings)
        annotator.path = Path(path)
        try:
            annotator.extractor = Extractor.from_state(
                header["features"], {}, near=annotator.path.parent, cache=cache, **settings
            )
            # Backbone and model load equally long, and mostly without the interpreter lock.
            backbone = Thread(target=annotator.extractor.prepare)
            backbone.start()
            try:
                annotator._read(file)
            finally:
                backbone.join()
        except (AttributeError, KeyError, TypeError) as error:
            raise ModelFileError(f"{path} does not describe an annotator: {error}.") from error
        return annotator

    def _read(self, file: modelfile.ModelFile) -> None:
        header = file.header
        arrays = file.arrays(_is_read_at_load)
        model = TagModel.from_arrays(header["model"], select_prefix(arrays, "model"))
        self.tags = _checked_vocabulary(header["tags"], model.n_tags)
        self.choices = modelfile.expect_numbers(header, "choices")
        points = select_prefix(arrays, "operating_points")
        self.operating_points = OperatingPoints.from_arrays(points, model.n_tags)
        self.training_summary = _checked_summary(header["training"])
        self.skipped = []
        self.model = model
        self.header = header
        self.training_digests = frozenset(
            digest.tobytes()
            for name in DIGEST_ARRAYS
            if name in arrays
            for digest in modelfile.expect_array(arrays, name, (None, DIGEST_BYTES), "u1")
        )


def _is_read_at_load(name: str) -> bool:
    return name in DIGEST_ARRAYS or not name.startswith("gallery/")


def _checked_vocabulary(names: Any, t: int) -> list[str]:
    are_names = isinstance(names, list) and all(isinstance(n, str) and n.strip() for n in names)
    if not are_names or not 0 < len(set(names)) == len(names) == t:
        raise ModelFileError(f"The vocabulary does not name {t} different tags.")
    return list(names)


def _checked_summary(values: dict[str, Any]) -> TrainingSummary:
    summary = TrainingSummary(**{name: values[name] for name in TrainingSummary._fields})
    rare = summary.too_rare
    numbers = (summary.pictures, summary.tags, summary.untagged, summary.unreadable)
    are_counts = all(type(n) is int and n >= 0 for n in (*numbers, *rare.values()))
    if not (are_counts and all(isinstance(tag, str) for tag in rare)):
        raise ModelFileError("the training summary of the model is invalid: it is damaged.")
    return summary._replace(too_rare=dict(rare))
