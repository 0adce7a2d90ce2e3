"""Long work: one of a kind, listened to, ended cleanly."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from pathlib import Path

import pytest

from prototag.errors import InputError
from prototag.events import Event
from prototag.library.types import ScanReport
from prototag.service.jobs import Jobs, to_json
from prototag.service.problem_details import Problem


def waited(job, seconds=10):
    deadline = time.monotonic() + seconds
    while job.state == "running" and time.monotonic() < deadline:
        time.sleep(0.01)
    return job


def test_a_result():
    jobs = Jobs()
    job = waited(jobs.start("scan", lambda _progress, _stop: ScanReport(new=3)))
    assert job.state == "done"
    assert job.record()["result"]["new"] == 3
    assert jobs.get(job.number) is job
    assert jobs.list() == [job]


def test_one_of_a_kind():
    jobs, gate = Jobs(), threading.Event()
    first = jobs.start("scan", lambda _p, _s: gate.wait(10))
    with pytest.raises(Problem, match="is running") as told:
        jobs.start("scan", lambda _p, _s: None)
    assert (told.value.status, told.value.more) == (409, {"job": first.number})
    other = waited(jobs.start("learn", lambda _p, _s: 1))
    assert other.state == "done"
    gate.set()
    waited(first)
    assert waited(jobs.start("scan", lambda _p, _s: 2)).result == 2


def test_an_error_is_reported_without_internals():
    jobs = Jobs()

    def mended(_progress, _stop):
        raise InputError("the folder is empty: give another.")

    def broken(_progress, _stop):
        raise RuntimeError("/secret/path")

    job = waited(jobs.start("scan", mended))
    assert job.state == "failed"
    assert job.problem["detail"] == "the folder is empty: give another."
    job = waited(jobs.start("scan", broken))
    assert job.problem["status"] == 500
    assert "secret" not in json.dumps(job.record())


@pytest.mark.parametrize("cooperative", [True, False])
def test_stopping(cooperative):
    jobs, kept = Jobs(), []

    def work(progress, stop):
        for step in range(1000):
            if cooperative and stop():
                return len(kept)
            kept.append(step)
            progress(Event("Counting", step + 1, 1000))
            time.sleep(0.005)
        return None

    job = jobs.start("scan", work, cooperative=cooperative)
    time.sleep(0.1)
    job.stop()
    waited(job)
    assert job.state == "stopped"
    assert 0 < len(kept) < 1000
    assert job.event.done == len(kept)


def test_closing_waits():
    jobs = Jobs()
    job = jobs.start("scan", lambda _p, stop: [time.sleep(0.01) for _ in iter(stop, True)] and 1)
    jobs.close()
    assert (job.state, job.result) == ("stopped", 1)
    with pytest.raises(Problem, match="stopping"):
        jobs.start("scan", lambda _p, _s: 1)


def test_events_are_heard_until_the_end():
    jobs = Jobs()

    def work(progress, _stop):
        for step in range(5):
            progress(Event("Counting", step + 1, 5))
            time.sleep(0.15)
        return "done"

    async def listen():
        return [piece async for piece in jobs.listen(jobs.start("scan", work))]

    pieces = [piece.decode() for piece in asyncio.run(listen())]
    kinds = [piece.split("\n")[0] for piece in pieces]
    assert kinds[-1] == "event: end"
    assert {*kinds[:-1]} == {"event: progress"}
    assert len(kinds) > 3
    records = [json.loads(piece.split("\n")[2].removeprefix("data: ")) for piece in pieces]
    done = [record["progress"]["done"] for record in records if record["progress"]]
    assert done == sorted(done)
    assert records[-1]["result"] == "done"


def test_listeners_go_when_the_service_stops():
    jobs, gate = Jobs(), threading.Event()
    job = jobs.start("scan", lambda _p, _s: gate.wait(10))

    async def listen():
        asyncio.get_running_loop().call_later(0.2, jobs.request_stop)
        return [piece async for piece in jobs.listen(job)]

    began = time.monotonic()
    asyncio.run(listen())
    assert time.monotonic() - began < 5
    gate.set()
    waited(job)


def test_jobs_by_the_api(client):
    service = client.app.state.service
    job = waited(service.jobs.start("scan", lambda _p, _s: {"new": 1}))
    assert client.get("/api/v1/jobs").json()["jobs"][0]["job"] == job.number
    assert client.get(f"/api/v1/jobs/{job.number}").json()["state"] == "done"
    with client.stream("GET", f"/api/v1/jobs/{job.number}/events") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert "event: end" in answer.read().decode()
    assert client.post(f"/api/v1/jobs/{job.number}/stop", json={}).status_code == 200
    for path in ("/api/v1/jobs/99", "/api/v1/jobs/99/events"):
        assert client.get(path).status_code == 404
    assert client.get("/api/v1/jobs/x").status_code == 400


def test_old_jobs_are_forgotten():
    jobs = Jobs()
    for _ in range(60):
        waited(jobs.start("scan", lambda _p, _s: None))
    assert len(jobs.list()) <= 52


def test_plain_values():
    value = {"a": Path("/x"), "b": (1, float("nan")), "c": ScanReport(new=1), "d": Event("s", 1)}
    found = to_json(value)
    json.dumps(found)
    assert found["a"] == "/x"
    assert found["b"] == [1, None]
    assert found["c"]["new"] == 1
    assert found["d"]["stage"] == "s"
    assert to_json(Path("/\udcff")) == "/\\udcff"
