"""A program that uses prototag, for type checkers; ``tests/test_typing.py`` runs them on it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, assert_type

import numpy as np
import numpy.typing as npt
from pandas import DataFrame

import prototag
from prototag import Annotator, FeatureExtractor, Library, Tagger, metadata, recommended
from prototag.annotator.assess import Assessment
from prototag.annotator.types import (
    Annotation,
    Estimate,
    ExplainedTag,
    Explanation,
    Neighbours,
    Tag,
    TrainingPicture,
)
from prototag.errors import PrototagError
from prototag.events import Event


def show(event: Event) -> None:
    """Draw a progress event."""
    print(event.stage, event.done, event.total or 0)


def train(folder: Path, model: Path) -> Annotator:
    """Train on a folder and save the model."""
    annotator = Annotator.from_folder(folder, crops="fast", progress=show)
    assert_type(annotator, Annotator)
    assert_type(annotator.tags, list[str])
    annotator.save(model)
    return assert_type(Annotator.load(model, n_jobs=-1, progress="rich"), Annotator)


def tag(annotator: Annotator, pictures: list[Path], pixels: npt.NDArray[np.uint8]) -> list[str]:
    """Annotate pictures of each kind, and collect the names of the applied tags."""
    names: list[str] = []
    for annotation in annotator.annotate(pictures, precision=0.9):
        assert_type(annotation, Annotation)
        assert_type(annotation.error, str | None)
        names += [assert_type(tag, Tag).name for tag in annotation.tags]
    (one,) = annotator.annotate(pixels, top=3)
    names += one.names
    (one,) = annotator.annotate("picture.jpg", vocabulary={"sky"})
    return [*names, *(tag.name for tag in one.suggestions)]


def explain(annotator: Annotator, picture: Path) -> list[TrainingPicture]:
    """Collect the training pictures behind the tags of a picture."""
    explanation = assert_type(annotator.explain(picture), Explanation)
    near = assert_type(annotator.similar(picture, 3, by="code"), Neighbours)
    pictures = [neighbour.picture for neighbour in near]
    for explained in explanation:
        assert_type(explained, ExplainedTag)
        pictures += [reason.picture for reason in explained.reasons]
    return pictures


def judge(annotator: Annotator, folder: Path, frame: DataFrame) -> dict[str, Any]:
    """Estimate, evaluate, and annotate a data frame."""
    estimate = assert_type(annotator.estimate(precision=0.8), Estimate)
    assert_type(estimate.precision, float)
    assessment = assert_type(annotator.evaluate(folder), Assessment)
    assert_type(annotator.annotate_frame(frame, path_column="path"), DataFrame)
    return assessment.to_dict()


def vectors(pictures: list[Path]) -> npt.NDArray[np.float32]:
    """Compute vectors."""
    return FeatureExtractor(cache=None, progress="tqdm").transform(pictures)


def learn(X: npt.NDArray[np.float32], Y: npt.NDArray[np.int64]) -> Tagger:
    """Fit the recommended annotator of vectors."""
    tagger = assert_type(recommended(n_jobs=-1), Tagger)
    tagger.fit(X, Y)
    return tagger


def write(picture: Path) -> str:
    """Plan the keywords of a picture."""
    try:
        return metadata.plan(picture, ["sky"]).diff()
    except PrototagError as error:
        return str(error)


def review(path: Path) -> int:
    """Count the pictures of a library."""
    with Library(path) as library:
        return library.status().pictures


assert_type(prototag.__version__, str)
