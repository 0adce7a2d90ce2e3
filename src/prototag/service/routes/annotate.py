"""Endpoints that annotate pictures, find similar ones, and explain scores."""

from __future__ import annotations

import asyncio
import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prototag import __version__
from prototag.annotator import explain as explanations
from prototag.annotator.types import Annotation
from prototag.service.inference_queue import Inference
from prototag.service.json_schemas import MAX_ITEMS, NAME, SHARE, TAG_CHOICE_FIELDS, TEXT
from prototag.service.problem_details import bad_request, from_error
from prototag.service.request_body import decode_data_url
from prototag.service.routes.operation import Call, Operation, Param

if TYPE_CHECKING:
    from prototag.annotator.annotator import Annotator
    from prototag.annotator.operating_points import TagSelector

TAG_CHOICE = (
    Param("precision", SHARE, "Precision to aim for: the share of applied tags that are correct."),
    Param("min_probability", SHARE, "Apply tags with at least this probability."),
    Param(
        "top", {"type": "integer", "minimum": 1, "maximum": 1000}, "Largest number of applied tags."
    ),
    Param("vocabulary", NAME, "Apply only this tag; may be repeated.", max_count=MAX_ITEMS),
)
LARGE_TEXT = 1 << 20  # characters that are decoded in a thread, because it blocks the event loop
MAX_QUEUED_PER_REQUEST = 32  # pictures, half of the queue, so that other requests fit in


async def source(call: Call) -> tuple[bytes | Path, dict[str, str]]:
    """Return the picture of a request, and its name in the response."""
    if call.picture is not None:
        return call.picture, {}
    fields = [name for name in ("image", "path") if name in call.body]
    if len(fields) != 1:
        raise bad_request(
            "no picture was given, or two: send a file, or 'image' or 'path' in JSON."
        )
    if fields == ["image"]:
        return await decoded(call, call.body["image"]), {}
    path: str = call.body["path"]
    return call.service.roots.resolve(path), {"path": path}


async def decoded(call: Call, image: Any) -> bytes:
    """Decode a data URL, a large one in a thread."""
    max_bytes = call.service.body_reader.limits.picture
    if isinstance(image, str) and len(image) > LARGE_TEXT:
        return await call.in_thread(decode_data_url, image, max_bytes)
    return decode_data_url(image, max_bytes)


async def selection_options(call: Call) -> dict[str, Any]:
    """Return the options that select tags, validated before any picture is read."""
    options = {name: call.body[name] for name in TAG_CHOICE_FIELDS if name in call.body}
    options |= {name: call.query[name] for name in TAG_CHOICE_FIELDS if name in call.query}
    _selector(await call.service.ready(), options)
    return options


def _selector(annotator: Annotator, options: dict[str, Any]) -> TagSelector:
    return annotator.selector(**options) if options else _default_selector(annotator)


@functools.lru_cache(maxsize=1)  # of the current annotator, which an update replaces
def _default_selector(annotator: Annotator) -> TagSelector:
    return annotator.selector()


def annotation_record(
    inference: Inference, options: dict[str, Any], name: dict[str, str]
) -> dict[str, Any]:
    """Return the JSON object of one picture."""
    annotation = annotation_of(inference, options)
    return {**name, **annotation.to_dict(), "from_cache": inference.from_cache}


def annotation_of(inference: Inference, options: dict[str, Any]) -> Annotation:
    """Select the tags of a picture with the annotator that scored it."""
    selector = _selector(inference.annotator, options)
    return inference.annotator.annotation(
        None, inference.scores, inference.probability, inference.digest, selector
    )


async def annotate(call: Call) -> Any:
    options = await selection_options(call)
    picture, name = await source(call)
    return annotation_record(await call.service.pool.infer(picture), options, name)


async def annotate_many(call: Call) -> Any:
    options = await selection_options(call)
    sources: list[tuple[Any, dict[str, str]]] = []
    sources += [(image, {}) for image in call.body.get("images", ())]
    sources += [(None, {"path": path}) for path in call.body.get("paths", ())]
    if not sources:
        raise bad_request("no picture was given: give 'images', 'paths', or both.")
    slots = asyncio.Semaphore(MAX_QUEUED_PER_REQUEST)

    async def annotate_one(image: Any, name: dict[str, str]) -> dict[str, Any]:
        try:
            async with slots:
                if name:
                    picture: bytes | Path = call.service.roots.resolve(name["path"])
                else:
                    picture = await decoded(call, image)
                return annotation_record(await call.service.pool.infer(picture), options, name)
        except Exception as error:
            problem = from_error(error)
            if problem.status in (429, 503):
                raise problem from None  # the client repeats the whole request
            return {**name, "error": problem.to_json()}

    return {"results": await asyncio.gather(*(annotate_one(*source) for source in sources))}


async def similar(call: Call) -> Any:
    count = call.query.get("count", call.body.get("count", 10))
    by = call.query.get("by", call.body.get("by", "vector"))
    inference = await call.service.pool.infer((await source(call))[0])
    neighbours = await call.service.pool.run(
        explanations.similar, inference.annotator, inference.vector, count, by
    )
    return neighbours.to_dict()


async def explain(call: Call) -> Any:
    tags = call.query.get("tag") or call.body.get("tags")
    inference = await call.service.pool.infer((await source(call))[0])
    explained = await call.service.pool.run(
        explanations.explain, inference.annotator, inference.vector, tags
    )
    return explained.to_dict()


async def tags(call: Call) -> Any:
    text = call.query.get("text")
    if call.service.has_library:
        return {"tags": await call.in_thread(call.service.library.tags, text=text)}
    annotator = await call.service.ready()
    points = annotator.operating_points
    return {
        "tags": [
            {
                "name": name,
                "pictures": int(points.positives[c]),
                "accepted": 0,
                "rejected": 0,
                "suggestions": 0,
                "learned": bool(points.learnable[c]),
                "pictures_needed": 0,
                # NaN if the tag is not applied, which is null in JSON
                "precision": float(points.precision[c]),
                "recall": float(points.recall[c]) if points.learnable[c] else None,
                "hidden": False,
            }
            for c, name in enumerate(annotator.tags)
            if text is None or text.casefold() in name.casefold()
        ]
    }


async def health(call: Call) -> Any:
    service = call.service
    return {
        "status": "stopping" if service.stopping else "up",
        "version": __version__,
        "has_library": service.has_library,
        "has_model": await call.in_thread(lambda: service.has_model),
        "queued": {queue.name: queue.waiting for queue in service.pool.queues},
    }


OPERATIONS = (
    Operation(
        "GET",
        "/health",
        "health",
        "Return the state of the service and of its queues.",
        health,
        "Health",
    ),
    Operation(
        "POST",
        "/annotate",
        "annotate",
        "Annotate one picture: a file as the body, or JSON with a data URL or a path.",
        annotate,
        "Annotation",
        "AnnotateRequest",
        TAG_CHOICE,
        picture=True,
        errors=(422, 429),
    ),
    Operation(
        "POST",
        "/annotate/many",
        "annotateMany",
        "Annotate several pictures; one that fails does not fail the others.",
        annotate_many,
        "Annotations",
        "AnnotateManyRequest",
        large=True,
        errors=(429,),
    ),
    Operation(
        "POST",
        "/similar",
        "similar",
        "Find the training pictures that are most similar to a picture.",
        similar,
        "SimilarTrainingPictures",
        "SimilarRequest",
        (
            Param(
                "count", {"type": "integer", "minimum": 1, "maximum": 100}, "Number of pictures."
            ),
            Param("by", {"enum": ["vector", "code"]}, "Compare feature vectors, or codes."),
        ),
        picture=True,
        errors=(422, 429),
    ),
    Operation(
        "POST",
        "/explain",
        "explain",
        "Explain the tags of a picture by the training pictures behind each score.",
        explain,
        "Explanation",
        "ExplainRequest",
        (Param("tag", NAME, "Tag to explain; may be repeated.", max_count=20),),
        picture=True,
        errors=(422, 429),
    ),
    Operation(
        "GET",
        "/tags",
        "tags",
        "List all tags with their expected precision and recall.",
        tags,
        "Tags",
        query=(Param("text", TEXT, "Only tags that contain this text."),),
    ),
)
