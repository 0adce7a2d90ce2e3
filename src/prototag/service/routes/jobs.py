"""Long work: looking through folders, learning, sidecars; and the jobs that do it."""

from __future__ import annotations

import inspect
import secrets
from collections.abc import Callable
from typing import Any

from starlette.responses import StreamingResponse

from prototag.service.jobs import Job, Jobs
from prototag.service.json_schemas import MAX_ITEMS
from prototag.service.problem_details import Problem
from prototag.service.routes.operation import Call, Operation
from prototag.service.state import Service

SHOWN = 100  # changes of a plan that are shown one by one
LONGEST = 100_000  # characters of one of them


def begin(call: Call, kind: str, method: Callable[..., Any], *given: Any, **named: Any) -> Any:
    """A job that calls a method of the library, with the callbacks that it knows."""
    return start(call.service.jobs, kind, method, *given, **named).record()


def start(jobs: Jobs, kind: str, method: Callable[..., Any], *given: Any, **named: Any) -> Job:
    """The same, for whoever has no request."""
    known = inspect.signature(method).parameters
    # Work that tells its progress and knows nothing of stopping is stopped where it tells it: the
    # library keeps whole transactions, so nothing is left half done.
    stoppable = "stop" in known or "progress" not in known

    def work(progress: Any, stop: Any) -> Any:
        callbacks = {"progress": progress, "stop": stop}
        return method(*given, **named, **{n: c for n, c in callbacks.items() if n in known})

    return jobs.start(kind, work, cooperative=stoppable)


async def scan(call: Call) -> Any:
    return begin(call, "scan", call.service.library.scan)


async def learn(call: Call) -> Any:
    full = call.body.get("full")
    return begin(call, "learn", call.service.library.learn, full=full)


async def models(call: Call) -> Any:
    return {"models": await call.in_thread(call.service.library.models)}


async def go_back(call: Call) -> Any:
    await call.in_thread(call.service.library.rollback, call.body["number"])
    return {"models": await call.in_thread(call.service.library.models)}


async def plan(call: Call) -> Any:
    return begin(call, "plan", _plan, call.service)


def _plan(service: Service) -> dict[str, Any]:
    """A look at all files takes as long as the disk does: minutes for a large collection."""
    found = service.library.plan_sync()
    name = secrets.token_hex(8)
    service.plans.clear()
    service.plans[name] = found
    outgoing = list(found.outgoing)
    return {
        "plan": name,
        "incoming": len(found.incoming),
        "rejected": len(found.rejected),
        "restored": len(found.restored),
        "outgoing": len(outgoing),
        "kept": len(found.kept),
        "shown": [_change(change) for change in outgoing[:SHOWN]],
        "problems": found.problems,
    }


def _change(change: Any) -> dict[str, Any]:
    return {
        "image": change.image,
        "sidecar": change.path,
        "added": change.added,
        "removed": change.removed,
        "diff": change.diff()[:LONGEST],
    }


async def sync(call: Call) -> Any:
    try:
        planned = call.service.plans.pop(call.body["plan"])
    except KeyError:
        raise Problem(
            404,
            "old-plan",
            "the plan is not the last one that was made, or was carried out: look at a new one "
            "(POST /api/v1/sync/plan) and give its name.",
        ) from None
    return begin(call, "sync", call.service.library.sync, planned)


async def jobs(call: Call) -> Any:
    return {"jobs": [job.record() for job in call.service.jobs.list()][:MAX_ITEMS]}


async def job(call: Call) -> Any:
    return call.service.jobs.get(call.path["job"]).record()


async def events(call: Call) -> Any:
    found = call.service.jobs.get(call.path["job"])
    return StreamingResponse(call.service.jobs.listen(found), 200, None, "text/event-stream")


async def stop(call: Call) -> Any:
    found = call.service.jobs.get(call.path["job"])
    found.stop()
    return found.record()


_STOP = "Ask a job to end; what it has done stays."

OPERATIONS = (
    Operation(
        "POST",
        "/scan",
        "scan",
        "Look through the folders for new and changed pictures.",
        scan,
        "Job",
        "Nothing",
        status=202,
    ),
    Operation(
        "POST",
        "/learn",
        "learn",
        "Learn from all that is known now.",
        learn,
        "Job",
        "LearnRequest",
        status=202,
    ),
    Operation("GET", "/models", "models", "The models that were learned.", models, "Models"),
    Operation(
        "POST",
        "/models/current",
        "goBack",
        "Go back to an earlier model.",
        go_back,
        "Models",
        "GoBackRequest",
    ),
    Operation(
        "POST",
        "/sync/plan",
        "planSync",
        "What would change in sidecars; changes nothing. The result of the job is a SyncPlan.",
        plan,
        "Job",
        "Nothing",
        status=202,
    ),
    Operation(
        "POST",
        "/sync",
        "sync",
        "Carry out the plan that was looked at.",
        sync,
        "Job",
        "SyncRequest",
        status=202,
    ),
    Operation("GET", "/jobs", "jobs", "The last jobs, the latest first.", jobs, "Jobs"),
    Operation("GET", "/jobs/{job}", "job", "One job, and how far it is.", job, "Job"),
    Operation(
        "GET",
        "/jobs/{job}/events",
        "events",
        "The same as server-sent events until it ends.",
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
