"""Endpoints that start background jobs (scan, training, sync), and of the jobs."""

from __future__ import annotations

import inspect
import secrets
from collections.abc import Callable
from typing import Any

from starlette.responses import StreamingResponse

from prototag.library.writes import FILE, place_of
from prototag.service.jobs import Job, Jobs
from prototag.service.json_schemas import MAX_ITEMS
from prototag.service.problem_details import Problem, not_found
from prototag.service.routes.operation import Call, Operation
from prototag.service.state import Service

MAX_SHOWN_CHANGES = 100  # of a sync plan
MAX_DIFF_CHARACTERS = 100_000  # of one change


def begin(call: Call, kind: str, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Start a job for a request and return its record."""
    return start(call.service.jobs, kind, method, *args, **kwargs).record()


def start(jobs: Jobs, kind: str, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Job:
    """Start a job that calls a method with those of ``progress`` and ``stop`` that it takes."""
    parameters = inspect.signature(method).parameters
    # A method with ``progress`` and without ``stop`` is ended by an exception from ``progress``.
    # The library writes in transactions, so that nothing stays half-written.
    cooperative = "stop" in parameters or "progress" not in parameters

    def work(progress: Any, stop: Any) -> Any:
        callbacks = {"progress": progress, "stop": stop}
        accepted = {name: call for name, call in callbacks.items() if name in parameters}
        return method(*args, **kwargs, **accepted)

    return jobs.start(kind, work, cooperative=cooperative)


async def scan(call: Call) -> Any:
    return begin(call, "scan", call.service.library.scan)


async def learn(call: Call) -> Any:
    full = call.body.get("full")
    return begin(call, "learn", call.service.library.learn, full=full)


async def models(call: Call) -> Any:
    return {"models": await call.in_thread(call.service.library.models)}


async def roll_back(call: Call) -> Any:
    await call.in_thread(call.service.library.rollback, call.body["number"])
    return {"models": await call.in_thread(call.service.library.models)}


async def plan(call: Call) -> Any:
    pictures = call.body.get("pictures")
    if pictures is not None:  # an unknown one is refused before the job starts
        await call.in_thread(call.service.library.numbers, pictures)
    return begin(call, "plan", _plan, call.service, pictures)


def _plan(service: Service, pictures: list[int] | None) -> dict[str, Any]:
    """Plan a sync and keep the plan; reading all files can take minutes."""
    plan = service.library.plan_sync(pictures)
    name = secrets.token_hex(8)
    service.plans.clear()
    service.plans[name] = plan
    outgoing = list(plan.outgoing)
    return {
        "plan": name,
        "incoming": len(plan.incoming),
        "rejected": len(plan.rejected),
        "restored": len(plan.restored),
        "outgoing": len(outgoing),
        "inside": sum(place_of(change) == FILE for change in outgoing),
        "kept": len(plan.kept),
        "changes": [_change(change) for change in outgoing[:MAX_SHOWN_CHANGES]],
        "problems": plan.problems,
    }


def _change(change: Any) -> dict[str, Any]:
    return {
        "image": change.image,
        "file": change.path,
        "place": place_of(change),
        "added": change.added,
        "removed": change.removed,
        "diff": change.diff()[:MAX_DIFF_CHARACTERS],
    }


async def sync(call: Call) -> Any:
    try:
        planned = call.service.plans.pop(call.body["plan"])
    except KeyError:
        raise Problem(
            404,
            "stale-plan",
            "the plan is not the latest one, or was carried out already: make a new one (POST "
            "/api/v1/sync/plan) and give its name.",
        ) from None
    return begin(call, "sync", call.service.library.sync, planned)


async def writes(call: Call) -> Any:
    return {"writes": await call.in_thread(call.service.library.writes)}


async def undo_write(call: Call) -> Any:
    number = call.body["number"]
    known = await call.in_thread(call.service.library.writes)
    if all(one.number != number for one in known):
        raise not_found(f"there is no write {number}: GET /api/v1/writes lists them.")
    return begin(call, "undo_write", call.service.library.undo_write, number)


async def jobs(call: Call) -> Any:
    return {"jobs": [job.record() for job in call.service.jobs.list()][:MAX_ITEMS]}


async def job(call: Call) -> Any:
    return call.service.jobs.get(call.path["job"]).record()


async def events(call: Call) -> Any:
    listened = call.service.jobs.get(call.path["job"])
    return StreamingResponse(call.service.jobs.listen(listened), 200, None, "text/event-stream")


async def stop(call: Call) -> Any:
    stopped = call.service.jobs.get(call.path["job"])
    stopped.stop()
    return stopped.record()


_STOP = "Ask a job to stop; finished steps are kept."

OPERATIONS = (
    Operation(
        "POST",
        "/scan",
        "scan",
        "Scan the folders for new and changed pictures.",
        scan,
        "Job",
        "Nothing",
        status=202,
    ),
    Operation(
        "POST",
        "/learn",
        "learn",
        "Train on all labels and decisions.",
        learn,
        "Job",
        "LearnRequest",
        status=202,
    ),
    Operation("GET", "/models", "models", "List the models of the library.", models, "Models"),
    Operation(
        "POST",
        "/models/current",
        "rollBack",
        "Use an earlier model again.",
        roll_back,
        "Models",
        "RollBackRequest",
    ),
    Operation(
        "POST",
        "/sync/plan",
        "planSync",
        "Plan a sync without writing. The result of the job is a SyncPlan.",
        plan,
        "Job",
        "PlanSyncRequest",
        status=202,
    ),
    Operation(
        "POST",
        "/sync",
        "sync",
        "Carry out a sync plan.",
        sync,
        "Job",
        "SyncRequest",
        status=202,
    ),
    Operation(
        "GET",
        "/writes",
        "writes",
        "List the last writes of tags to files, the latest first.",
        writes,
        "Writes",
    ),
    Operation(
        "POST",
        "/writes/undo",
        "undoWrite",
        "Restore all files of a write exactly as they were; files that changed since stay.",
        undo_write,
        "Job",
        "UndoWriteRequest",
        status=202,
        errors=(404,),
    ),
    Operation("GET", "/jobs", "jobs", "List the last jobs, the latest first.", jobs, "Jobs"),
    Operation("GET", "/jobs/{job}", "job", "Return one job with its progress.", job, "Job"),
    Operation(
        "GET",
        "/jobs/{job}/events",
        "events",
        "Stream the progress of a job as server-sent events until it ends.",
        events,
        media="text/event-stream",
    ),
    Operation(
        "POST",
        "/jobs/{job}/stop",
        "stop",
        _STOP,
        stop,
        "Job",
        "Nothing",
    ),
    Operation("DELETE", "/jobs/{job}", "cancel", _STOP, stop, "Job"),
)
