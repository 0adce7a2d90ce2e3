"""Endpoints of the review page: review batches, picture numbers, job events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from starlette.responses import StreamingResponse

from prototag.service.jobs import KEEP_ALIVE_S, RUNNING
from prototag.service.problem_details import bad_request
from prototag.service.routes.operation import Call, Operation
from prototag.service.routes.pictures_and_decisions import language_of
from prototag.service.state import Service

if TYPE_CHECKING:
    from prototag.library.library import Library
    from prototag.service.background_trainer import BackgroundTrainer

BATCH_SIZE = 40  # the page shows 8 x 5 pictures
MAX_UPDATE_WAIT_S = 0.05  # for the update by the last decisions; their pictures are skipped anyway
MAX_REQUESTED_WAIT_S = 10.0  # if the request asks for an order by all decisions
GENERAL_WORDS = "general_words"  # a queue that needs no model
POLL_INTERVAL_S = 0.25  # between two checks for changed jobs


async def review_batch(call: Call) -> Any:
    library = call.service.library
    tag = call.body.get("tag")

    def is_answerable() -> bool:
        if call.body.get("queue") == GENERAL_WORDS:
            return library.knows_words
        if tag is not None and library.knows_words and library.is_cold_start(tag):
            return True
        is_estimated = tag is not None and library.cold_start_estimate(tag) is not None
        return is_estimated or call.service.has_model

    if not await call.in_thread(is_answerable):
        raise call.service.no_model_problem()
    call.service.words_used()
    asked = {**call.body, "language": language_of(call)}
    return await call.in_thread(_review_batch, library, call.service.trainer, asked)


def _review_batch(
    library: Library, trainer: BackgroundTrainer | None, asked: dict[str, Any]
) -> dict[str, Any]:
    """Select a review batch, and the pictures of the next one for prefetching."""
    tag = asked.get("tag")
    queue = asked.get("queue")
    if (tag is None) == (queue is None):
        raise bad_request("give either a tag or a queue.")
    is_up_to_date = True  # queues of all tags wait for the update
    if trainer is not None and tag is not None:
        is_asked = asked.get("up_to_date", False)
        is_up_to_date = trainer.flush(MAX_REQUESTED_WAIT_S if is_asked else MAX_UPDATE_WAIT_S)
    batch = library.review_batch(
        tag,
        queue,
        uncertain=asked.get("uncertain", False),
        limit=asked.get("limit", BATCH_SIZE),
        skip=asked.get("skip", ()),
        language=asked["language"],
    )
    return {
        "cells": batch.cells,
        "threshold": batch.threshold,
        "ranked_by_similarity": batch.is_ranked_only,
        "ranked_by_name": batch.is_ranked_by_name,
        "prefetch": batch.upcoming,
        "up_to_date": is_up_to_date,
    }


async def events(call: Call) -> Any:
    _ = call.service.library
    return StreamingResponse(listen(call.service), 200, None, "text/event-stream")


async def listen(service: Service) -> AsyncIterator[bytes]:
    """Yield a server-sent event ``job`` for each change of a job."""
    # Jobs that have ended before are not news.
    sent = {job.number: job.changes for job in service.jobs.list() if job.state != RUNNING}
    silence_s = KEEP_ALIVE_S
    while not service.jobs.closing:
        for job in reversed(service.jobs.list()):
            changes = job.changes
            if changes == sent.get(job.number):
                continue
            sent[job.number] = changes
            silence_s = 0.0
            yield f"event: job\ndata: {json.dumps(job.record())}\n\n".encode()
        if silence_s >= KEEP_ALIVE_S:
            silence_s = 0.0
            yield b": still here\n\n"
        await asyncio.sleep(POLL_INTERVAL_S)
        silence_s += POLL_INTERVAL_S


OPERATIONS = (
    Operation(
        "POST",
        "/review-batch",
        "reviewBatch",
        "Select pictures to decide on, for one tag or from a queue. Decided pairs are skipped.",
        review_batch,
        "ReviewBatch",
        "ReviewBatchRequest",
    ),
    Operation(
        "GET",
        "/events",
        "allEvents",
        "Stream the progress of all jobs as server-sent events, without end.",
        events,
        media="text/event-stream",
    ),
)
