"""Tags of pictures that are sent or named, what is like them, and why."""

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
    Param("precision", SHARE, "Share of all given tags that is to be right."),
    Param("min_probability", SHARE, "Give the tags that are at least so likely."),
    Param("top", {"type": "integer", "minimum": 1, "maximum": 1000}, "At most so many tags."),
    Param("vocabulary", NAME, "Give these tags only; may be repeated.", max_count=MAX_ITEMS),
)
LARGE = 1 << 20  # characters
AT_ONCE = 32  # pictures of one request that wait in the queue together, so that others may, too


async def source(call: Call) -> tuple[bytes | Path, dict[str, str]]:
    """The picture that is meant, and what the answer calls it."""
    if call.picture is not None:
        return call.picture, {}
    given = [name for name in ("image", "path") if name in call.body]
    if len(given) != 1:
        raise bad_request(
            "no picture was given, or two: send a file, or 'image' or 'path' in JSON."
        )
    if given == ["image"]:
        return await decoded(call, call.body["image"]), {}
    path: str = call.body["path"]
    return call.service.roots.resolve(path), {"path": path}


async def decoded(call: Call, image: Any) -> bytes:
    """The file in a data URL; a large one takes a while."""
    most = call.service.body_reader.limits.picture
    if isinstance(image, str) and len(image) > LARGE:
        return await call.in_thread(decode_data_url, image, most)
    return decode_data_url(image, most)


async def choice(call: Call) -> dict[str, Any]:
    """Which tags are to be given; nonsense is refused before a picture is looked at."""
    given = {name: call.body[name] for name in TAG_CHOICE_FIELDS if name in call.body}
    given |= {name: call.query[name] for name in TAG_CHOICE_FIELDS if name in call.query}
    _chosen(await call.service.ready(), given)
    return given


def _chosen(annotator: Annotator, given: dict[str, Any]) -> TagSelector:
    return annotator.selector(**given) if given else _usual(annotator)


@functools.lru_cache(maxsize=1)  # a library that learns has another annotator before long
def _usual(annotator: Annotator) -> TagSelector:
    return annotator.selector()


def record(inference: Inference, given: dict[str, Any], named: dict[str, str]) -> dict[str, Any]:
    """What is answered of one picture."""
    found = judged(inference, given)
    return {
        **named,
        "tags": [_given(tag) for tag in found.tags],
        "suggestions": [_given(tag) for tag in found.suggestions],
        "learned_from": found.in_training_set,
        "from_cache": inference.from_cache,
    }


def judged(inference: Inference, given: dict[str, Any]) -> Annotation:
    """The annotation of a picture that was seen, by the annotator that saw it."""
    chosen = _chosen(inference.annotator, given)
    return inference.annotator.annotation(
        None, inference.scores, inference.probability, inference.digest, chosen
    )


def _given(tag: Any) -> dict[str, Any]:
    return {
        "tag": tag.name,
        "probability": round(tag.probability, 4),
        "score": round(tag.score, 5),
    }


async def annotate(call: Call) -> Any:
    given = await choice(call)
    picture, named = await source(call)
    return record(await call.service.pool.infer(picture), given, named)


async def annotate_many(call: Call) -> Any:
    given = await choice(call)
    find = call.service.roots.resolve
    sources: list[tuple[Any, dict[str, str]]] = []
    sources += [(image, {}) for image in call.body.get("images", ())]
    sources += [(None, {"path": path}) for path in call.body.get("paths", ())]
    if not sources:
        raise bad_request("no picture was given: give 'images', 'paths', or both.")
    room = asyncio.Semaphore(AT_ONCE)

    async def one(image: Any, named: dict[str, str]) -> dict[str, Any]:
        try:
            async with room:
                picture = find(named["path"]) if named else await decoded(call, image)
                return record(await call.service.pool.infer(picture), given, named)
        except Exception as error:
            problem = from_error(error)
            if problem.status in (429, 503):
                raise problem from None  # the request as a whole is asked again
            return {**named, "error": problem.to_json()}

    return {"results": await asyncio.gather(*(one(*source) for source in sources))}


async def similar(call: Call) -> Any:
    count = call.query.get("count", call.body.get("count", 10))
    by = call.query.get("by", call.body.get("by", "vector"))
    inference = await call.service.pool.infer((await source(call))[0])
    found = await call.service.pool.run(
        explanations.similar, inference.annotator, inference.vector, count, by
    )
    return {"similar": [_neighbour(near) for near in found]}


def _neighbour(near: Any) -> dict[str, Any]:
    return {
        "likeness": round(near.similarity, 4),
        "name": near.picture.name,
        "tags": near.picture.tags,
    }


async def explain(call: Call) -> Any:
    tags = call.query.get("tag") or call.body.get("tags")
    inference = await call.service.pool.infer((await source(call))[0])
    found = await call.service.pool.run(
        explanations.explain, inference.annotator, inference.vector, tags
    )
    return {"tags": [_explained(one) for one in found]}


def _explained(one: Any) -> dict[str, Any]:
    return {
        **_given(one.tag),
        "threshold": round(one.threshold, 5),
        "reasons": [
            {"share": round(share, 5), "name": picture.name, "tags": picture.tags}
            for share, picture in one.reasons
        ],
        "rest": round(one.rest, 5),
    }


async def tags(call: Call) -> Any:
    text = call.query.get("text")
    if call.service.has_library:
        found = await call.in_thread(call.service.library.tags, text=text)
        return {"tags": found}
    annotator = await call.service.ready()
    points = annotator.operating_points
    return {
        "tags": [
            {
                "name": name,
                "own": int(points.positives[c]),
                "accepted": 0,
                "rejected": 0,
                "waiting": 0,
                "learned": bool(points.learnable[c]),
                "needed": 0,
                "precision": float(points.precision[c]),  # None where nothing is given
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
        "library": service.has_library,
        "learned": await call.in_thread(lambda: service.has_model),
        "waiting": {queue.name: queue.waiting for queue in service.pool.queues},
    }


OPERATIONS = (
    Operation("GET", "/health", "health", "Whether the service is there.", health, "Health"),
    Operation(
        "POST",
        "/annotate",
        "annotate",
        "Tags of one picture: a file as the body, or JSON with a data URL or a path.",
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
        "Tags of several pictures; one that fails does not fail the others.",
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
        "The training pictures most like a picture.",
        similar,
        "Neighbours",
        "SimilarRequest",
        (
            Param("count", {"type": "integer", "minimum": 1, "maximum": 100}, "How many."),
            Param("by", {"enum": ["vector", "code"]}, "What the network sees, or the code."),
        ),
        picture=True,
        errors=(422, 429),
    ),
    Operation(
        "POST",
        "/explain",
        "explain",
        "Why a picture gets its tags: the training pictures behind each score.",
        explain,
        "Explanation",
        "ExplainRequest",
        (Param("tag", NAME, "Explain this tag; may be repeated.", max_count=20),),
        picture=True,
        errors=(422, 429),
    ),
    Operation(
        "GET",
        "/tags",
        "tags",
        "All tags, and how well each is learned.",
        tags,
        "Tags",
        query=(Param("text", TEXT, "Only tags that hold this."),),
    ),
)
