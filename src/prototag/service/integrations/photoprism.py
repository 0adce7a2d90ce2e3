"""Vision service for PhotoPrism, which requests labels of pictures.

PhotoPrism posts pictures as data URLs and expects one list of labels for all of them. Errors have
its members ``code`` and ``error`` in addition to problem details.
"""

from __future__ import annotations

import asyncio
from typing import Any

from prototag.metadata.tag_names import leaf
from prototag.service.problem_details import Problem, from_error
from prototag.service.routes import annotate
from prototag.service.routes.operation import Call, Operation

MAX_ID = 100  # characters


async def labels(call: Call) -> Any:
    request_id = str(call.body.get("id", ""))[:MAX_ID]
    try:
        label_records = await _labels(call)
    except Exception as error:
        problem = from_error(error)
        problem.more |= {"id": request_id, "code": problem.status, "error": problem.detail}
        raise problem from error
    return {
        "id": request_id,
        "code": 200,
        "model": {"type": "labels", "name": "prototag", "version": "latest"},
        "result": {"labels": label_records},
    }


async def _labels(call: Call) -> list[dict[str, Any]]:
    images = call.body.get("images") or []
    if not images:
        raise Problem(
            400,
            "no-pictures",
            "no images were sent: set `FileScheme: data` and `RequestFormat: vision` in "
            "PhotoPrism's vision.yml, because this service fetches no pictures from it.",
        )
    options = await annotate.selection_options(call)
    pictures = [await annotate.decoded(call, image) for image in images]
    inferences = await asyncio.gather(*[call.service.pool.infer(picture) for picture in pictures])
    best: dict[str, float] = {}
    for inference in inferences:
        for tag in annotate.annotation_of(inference, options).tags:
            name = leaf(tag.name)
            best[name] = max(best.get(name, 0.0), tag.probability)
    return [
        {
            "name": name,
            "source": "image",
            "priority": 0,
            "confidence": max(round(probability, 4), 0.01),  # PhotoPrism takes 0 as 80%
            "topicality": round(probability, 4),
            "categories": [],
        }
        for name, probability in sorted(best.items(), key=lambda pair: -pair[1])
    ]


OPERATIONS = (
    Operation(
        "POST",
        "/vision/labels",
        "photoprismLabels",
        "Return labels in the format of PhotoPrism.",
        labels,
        "PhotoPrismAnswer",
        "PhotoPrismRequest",
        large=True,
        errors=(422, 429),
    ),
)
