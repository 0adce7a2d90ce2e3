"""What an annotator keeps of a fit, for new pictures, promises and reasons."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prototag.annotator.gallery import Gallery
from prototag.annotator.operating_points import OperatingPoints

if TYPE_CHECKING:
    from prototag.annotator.annotator import Annotator
    from prototag.annotator.training_set import TrainingSet
    from prototag.tagging.tagger import Tagger


def keep(annotator: Annotator, tagger: Tagger, training: TrainingSet) -> None:
    """Model, promises, and the pictures that explain; of very many pictures a part."""
    annotator.tags, annotator.model, annotator.choices = (
        training.tags,
        tagger.model_,
        tagger.choices_,
    )
    annotator.learned, annotator.skipped = training.learned, training.skipped
    annotator._seen = frozenset(training.digests)
    whole = None
    if (many := tagger.streamed_) is not None:  # too many to be kept in a file
        whole = training.Y.shape[0], many.count, many.area
        training, raw = training.only(many.shown), many.shown_raw
        images = np.searchsorted(many.shown, many.prototype_images)
    else:
        stages, examples = tagger.stages_, tagger.examples_
        images = examples.images[stages.coded.core.prototype_images_]
        raw = stages.related.left_out[examples.of]
    annotator.operating_points = OperatingPoints.collect(*tagger.left_out(), whole)
    annotator._gallery = Gallery.of_training(
        training,
        annotator.model,
        images,
        raw,
        own_landmarks=whole is not None,
        others=sorted(annotator._seen - set(training.digests)),
    )
