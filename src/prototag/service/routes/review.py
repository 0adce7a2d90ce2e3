"""What the pages ask besides: sheets to look through, all numbers at once, and what happens."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from starlette.responses import Response, StreamingResponse

from prototag.library.queries import MAX_LIMIT
from prototag.service.jobs import RUNNING
from prototag.service.problem_details import bad_request
from prototag.service.routes.operation import Call, Operation
from prototag.service.routes.pictures_and_decisions import FILTERS, filters
from prototag.service.state import Service

if TYPE_CHECKING:
    from prototag.library.library import Library
    from prototag.service.background_trainer import BackgroundTrainer

BATCH_SIZE = 40  # the page shows 8 x 5 pictures
MAX_UPDATE_WAIT_S = 0.05  # for the update by the last decisions; their pictures are skipped anyway
QUEUES = {"any": "most_informative", "missing": "likely_missing", "wrong": "likely_wrong"}
POLL_INTERVAL_S = 0.25  # seconds between two looks at what happens
KEEP_ALIVE_S = 15.0  # seconds of silence after which a listener is told that we are here


async def review_batch(call: Call) -> Any:
    library = call.service.library
    tag = call.body.get("tag")

    def is_answerable() -> bool:
        is_estimated = tag is not None and library.cold_start_estimate(tag) is not None
        return is_estimated or call.service.has_model

    if not await call.in_thread(is_answerable):
        raise call.service.no_model_problem()
    return await call.in_thread(_review_batch, library, call.service.trainer, call.body)


def _review_batch(
    library: Library, trainer: BackgroundTrainer | None, asked: dict[str, Any]
) -> dict[str, Any]:
    """Select a review batch, and the pictures of the next one for a browser to load ahead."""
    tag = asked.get("tag")
    queue = asked.get("lane")
    if (tag is None) == (queue is None):
        raise bad_request("give either a tag or a lane.")
    if trainer is not None and tag is not None:
        trainer.flush(MAX_UPDATE_WAIT_S)
    batch = library.review_batch(
        tag,
        None if queue is None else QUEUES[queue],
        uncertain=asked.get("uncertain", False),
        limit=asked.get("limit", BATCH_SIZE),
        skip=asked.get("skip", ()),
    )
    return {
        "cells": batch.cells,
        "line": batch.threshold,
        "ranked": batch.is_ranked_only,
        "ahead": batch.upcoming,
    }


async def numbers(call: Call) -> Any:
    found = await call.in_thread(_numbers, call.service.library, filters(call.query))
    return Response(found, 200, None, "application/json")


def _numbers(library: Any, chosen: dict[str, Any]) -> bytes:
    found: list[int] = []
    while True:
        after = found[-1] if found else 0
        page = library.pictures(**chosen, limit=MAX_LIMIT, after=after)
        found += page
        if len(page) < MAX_LIMIT:
            return json.dumps({"pictures": found}, separators=(",", ":")).encode()


async def events(call: Call) -> Any:
    _ = call.service.library
    return StreamingResponse(listen(call.service), 200, None, "text/event-stream")


async def listen(service: Service) -> AsyncIterator[bytes]:
    """Server-sent events: ``job`` whenever one of them has changed."""
    # What has ended before somebody listens is no news.
    seen = {job.number: job.changes for job in service.jobs.list() if job.state != RUNNING}
    silent = KEEP_ALIVE_S
    while not service.jobs.closing:
        for job in reversed(service.jobs.list()):
            changes = job.changes
            if changes == seen.get(job.number):
                continue
            seen[job.number] = changes
            silent = 0.0
            yield f"event: job\ndata: {json.dumps(job.record())}\n\n".encode()
        if silent >= KEEP_ALIVE_S:
            silent = 0.0
            yield b": still here\n\n"
        await asyncio.sleep(POLL_INTERVAL_S)
        silent += POLL_INTERVAL_S


OPERATIONS = (
    Operation(
        "POST",
        "/sheet",
        "sheet",
        "Pictures to decide on, for one tag or of one lane; it knows all decisions until now.",
        review_batch,
        "Sheet",
        "SheetRequest",
    ),
    Operation(
        "GET",
        "/numbers",
        "numbers",
        "Numbers of all pictures that fit, at once.",
        numbers,
        "Numbers",
        query=FILTERS,
    ),
    Operation(
        "GET",
        "/events",
        "allEvents",
        "How far all jobs are, as server-sent events that do not end.",
        events,
        media="text/event-stream",
    ),
)
