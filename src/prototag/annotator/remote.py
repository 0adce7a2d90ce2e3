"""Annotation on remote workers: batches of pictures for the engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from prototag.engine import Engine
from prototag.engine.task_names import batch_name
from prototag.features.remote import BATCH_PICTURES, LISTED_PICTURES, attach_backbone

if TYPE_CHECKING:
    from prototag.annotator.annotator import Annotator
    from prototag.annotator.operating_points import TagSelector
    from prototag.annotator.types import Annotation
    from prototag.images.decode import Source


@batch_name("Annotate pictures")
def annotate_batch(
    sources: Sequence[Source], annotator: Annotator, selector: TagSelector
) -> list[Annotation]:
    """Annotate a batch of pictures in a worker."""
    attach_backbone(annotator.extractor)
    return list(annotator.annotate_here(iter(sources), selector))


def run_remote(
    engine: Engine, annotator: Annotator, images: Iterator[Source], selector: TagSelector
) -> Iterator[Annotation]:
    """Annotate pictures in the engine's workers, and yield annotations in their order."""
    worker_copy = annotator.picklable_copy()
    while chunk := list(islice(images, LISTED_PICTURES)):
        batches = engine.stream(
            annotate_batch, [chunk], [worker_copy, selector], size=BATCH_PICTURES
        )
        annotations = (annotation for batch in batches for annotation in batch)
        for source, annotation in zip(chunk, annotations, strict=True):
            yield replace(annotation, source=source)
