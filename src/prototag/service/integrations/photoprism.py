"""PhotoPrism's vision service for labels.

It posts pictures as data URLs and takes one flat list of labels for all of them. What it is
answered besides, when something fails, is its own ``code`` and ``error``.
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
    asked = str(call.body.get("id", ""))[:MAX_ID]
    try:
        found = await _labels(call)
    except Exception as error:
        problem = from_error(error)
        problem.more |= {"id": asked, "code": problem.status, "error": problem.detail}
        raise problem from error
    return {
        "id": asked,
        "code": 200,
        "model": {"type": "labels", "name": "prototag", "version": "latest"},
        "result": {"labels": found},
    }


async def _labels(call: Call) -> list[dict[str, Any]]:
    images = call.body.get("images") or []
    if not images:
        raise Problem(
            400,
            "no-pictures",
            "no images were sent: set `FileScheme: data` and `RequestFormat: vision` in "
            "PhotoPrism's vision.yml, because this service fetches nothing from elsewhere.",
        )
    given = await annotate.choice(call)
    pictures = [await annotate.decoded(call, image) for image in images]
    inferences = await asyncio.gather(*[call.service.pool.infer(picture) for picture in pictures])
    best: dict[str, float] = {}
    for inference in inferences:
        for tag in annotate.judged(inference, given).tags:
            name = leaf(tag.name)
            best[name] = max(best.get(name, 0.0), tag.probability)
    return [
        {
            "name": name,
            "source": "image",
            "priority": 0,
            "confidence": max(round(probability, 4), 0.01),  # 0 would count as 80 %
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
        "Labels as PhotoPrism asks for them.",
        labels,
        "PhotoPrismAnswer",
        "PhotoPrismRequest",
        large=True,
        errors=(422, 429),
    ),
)
