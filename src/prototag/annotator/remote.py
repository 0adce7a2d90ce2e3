"""Annotations that another process makes: blocks of pictures for the engine."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from prototag.engine import Engine
from prototag.engine.task_names import batch_name
from prototag.features.remote import BLOCK, CHUNK, abroad, settle

if TYPE_CHECKING:
    from prototag.annotator.annotator import Annotator
    from prototag.annotator.operating_points import TagChoice
    from prototag.annotator.types import Annotation
    from prototag.images.decode import Source

TOGETHER = 64  # pictures judged at a time by one process


@batch_name("Annotate pictures")
def annotate_block(
    sources: Sequence[Source], annotator: Annotator, choice: TagChoice
) -> list[Annotation]:
    """Tags of some pictures."""
    settle(annotator.extractor)
    return list(annotator._annotate(iter(sources), choice))


def elsewhere(
    engine: Engine, annotator: Annotator, images: Iterator[Source], choice: TagChoice
) -> Iterator[Annotation]:
    """Annotations in the order of the pictures, made by the engine's processes."""
    twin = copy.copy(annotator)  # without what belongs to this process
    twin.extractor = abroad(annotator.extractor)
    twin.engine = None
    twin.progress = None
    twin._gallery = None
    while chunk := list(islice(images, CHUNK)):
        parts = engine.stream(annotate_block, [chunk], [twin, choice], size=BLOCK)
        found = (annotation for part in parts for annotation in part)
        for source, annotation in zip(chunk, found, strict=True):
            yield replace(annotation, source=source)
