"""The library by the API: what is answered is what it says, and what is decided stays."""

from __future__ import annotations

import io
import threading
import time

import pytest
from PIL import Image

import tagged
from prototag.metadata import write_policy
from prototag.service.json_schemas import check
from service.test_openapi import validate

API = "/api/v1"


@pytest.fixture
def client(served, library, collection):
    return served(library=library, annotator=None, roots=[collection])


def get(client, path, status=200, described=None, **params):
    answer = client.get(API + path, params=params)
    assert answer.status_code == status, answer.text
    validate(answer, API + (described or path), "get")
    return answer


def post(client, path, body, status, described=None):
    answer = client.post(API + path, json=body)
    assert answer.status_code == status, answer.text
    validate(answer, API + (described or path), "post")
    return answer.json()


def finished(client, record):
    for _ in range(500):
        record = get(client, f"/jobs/{record['job']}", described="/jobs/{job}").json()
        if record["state"] != "running":
            return record
        time.sleep(0.02)
    raise AssertionError(record)


def test_how_it_stands(client):
    found = get(client, "/library").json()
    assert found["pictures"] == 12
    assert found["model"] is None
    health = get(client, "/health").json()
    assert health["has_library"]
    assert not health["has_model"]


def test_pages_of_pictures(client):
    first = get(client, "/pictures", limit=5).json()
    assert first["count"] == 12
    assert len(first["pictures"]) == 5
    rest = get(client, "/pictures", limit=100, after=first["next"]).json()
    assert len({*first["pictures"], *rest["pictures"]}) == 12
    assert rest["next"] is None
    red = get(client, "/pictures", tag="red").json()
    assert red["count"] == sum("red" in tagged.tags_of(n) for n in range(12))
    plain = get(client, "/pictures", tag="red", without="striped").json()
    assert 0 < plain["count"] < red["count"]
    assert get(client, "/pictures", query="003").json()["count"] == 1
    get(client, "/pictures", 400, state="nonsense")
    get(client, "/pictures", 400, limit=0)
    get(client, "/pictures", 404, tag="no such tag")


def test_one_picture(client, library):
    found = get(client, "/pictures/1", described="/pictures/{picture}").json()
    view = library.picture(1)
    assert found["digest"] == view.digest
    assert found["tags"] == view.tags
    assert found["files"] == [str(place) for place in view.files]
    get(client, "/pictures/999", 404, described="/pictures/{picture}")
    get(client, "/pictures/0", 400, described="/pictures/{picture}")
    get(client, "/pictures/x", 400, described="/pictures/{picture}")
    get(client, "/pictures/99999999999999999999", 400, described="/pictures/{picture}")


def test_thumbnails_and_previews(client):
    one = "/pictures/{picture}"
    answer = get(client, "/pictures/1/thumbnail", described=f"{one}/thumbnail")
    assert Image.open(io.BytesIO(answer.content)).format == "WEBP"
    answer = get(client, "/pictures/1/preview", described=f"{one}/preview")
    image = Image.open(io.BytesIO(answer.content))
    assert (image.format, image.size) == ("JPEG", (64, 48))  # nothing is enlarged
    get(client, "/pictures/1/preview", 400, described=f"{one}/preview", side=10)
    get(client, "/pictures/1/preview", 400, described=f"{one}/preview", side=100_000)
    get(client, "/pictures/999/preview", 404, described=f"{one}/preview")
    get(client, "/pictures/999/thumbnail", 404, described=f"{one}/thumbnail")


def test_a_preview_is_upright_and_small(client, library, collection):
    image = Image.new("RGB", (400, 200), "red")
    image.paste("blue", (0, 0, 200, 200))  # the left half
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by a quarter, clockwise
    image.save(collection / "turned.jpg", exif=exif)
    library.scan()
    (number,) = library.numbers([collection / "turned.jpg"])
    answer = client.get(f"{API}/pictures/{number}/preview", params={"side": 100})
    shown = Image.open(io.BytesIO(answer.content))
    assert shown.size == (50, 100)
    assert shown.getpixel((25, 10))[2] > 200  # blue is above
    assert not shown.getexif()


def test_facets_and_tags(client):
    found = get(client, "/facets").json()
    assert found["tags"]["red"] == 4
    tags = get(client, "/tags").json()["tags"]
    assert {tag["name"] for tag in tags} == {*tagged.TAGS}
    assert not any(tag["learned"] for tag in tags)


def test_decisions_undo_and_history(client, library):
    decisions = [
        {"picture": 1, "tag": "sunny", "verdict": "accepted"},
        {"picture": 2, "tag": "red", "verdict": "rejected"},
    ]
    body = {"decisions": decisions, "by": "a test"}
    made = post(client, "/decisions", body, 201)
    assert made["changed"] == 2
    assert post(client, "/decisions", body, 201) == {"changed": 0, "batch": None}
    assert "sunny" in library.picture(1).accepted
    assert "red" in library.picture(2).rejected
    history = get(client, "/history").json()["decisions"]
    assert [(one["tag"], one["by"]) for one in history] == [("red", "a test"), ("sunny", "a test")]
    assert len(get(client, "/history", limit=1).json()["decisions"]) == 1
    batch = {"batch": made["batch"]}
    post(client, "/undo", {}, 400)
    undone = post(client, "/undo", batch, 200)
    assert (undone["batch"], undone["overridden"]) == (made["batch"], [])
    assert [one["undone"] for one in undone["decisions"]] == [True, True]
    assert "sunny" not in library.picture(1).accepted
    assert "undone already" in post(client, "/undo", batch, 409)["detail"]
    assert len(post(client, "/redo", batch, 200)["decisions"]) == 2
    assert "sunny" in library.picture(1).accepted
    assert "is not undone" in post(client, "/redo", batch, 409)["detail"]
    assert "no batch 99" in post(client, "/undo", {"batch": 99}, 404)["detail"]
    assert "no batch 99" in post(client, "/redo", {"batch": 99}, 404)["detail"]
    marked = post(client, "/complete", {"pictures": [3]}, 201)
    assert post(client, "/undo", {"batch": marked["batch"]}, 200)["decisions"][0]["picture"] == 3


def test_two_clients_each_undo_their_own_decision(client, library):
    """The second decides between the first one's decision and its undo."""

    def decide(tag, verdict="accepted"):
        one = {"picture": 1, "tag": tag, "verdict": verdict}
        return post(client, "/decisions", {"decisions": [one]}, 201)["batch"]

    mine, others = decide("mine"), decide("others")
    assert post(client, "/undo", {"batch": mine}, 200)["decisions"][0]["tag"] == "mine"
    assert library.picture(1).accepted == ["others"]
    post(client, "/redo", {"batch": mine}, 200)
    overriding = decide("mine", "rejected")
    refused = post(client, "/undo", {"batch": mine}, 409)
    assert refused["type"] == "urn:prototag:problem:conflict"
    assert f"overridden by batch {overriding} (by person)" in refused["detail"]
    assert library.picture(1).rejected == ["mine"]
    post(client, "/undo", {"batch": overriding}, 200)
    post(client, "/undo", {"batch": mine}, 200)
    assert library.picture(1).accepted == ["others"]
    post(client, "/undo", {"batch": others}, 200)


def test_all_decisions_or_none(client, library):
    good = {"picture": 1, "tag": "sunny", "verdict": "accepted"}
    for wrong, status in (
        ({"picture": 999, "tag": "sunny", "verdict": "accepted"}, 404),
        ({"picture": 1, "tag": "never heard of", "verdict": "rejected"}, 404),
        ({"picture": 1, "tag": "sunny", "verdict": "perhaps"}, 400),
        ({"picture": "1", "tag": "sunny", "verdict": "accepted"}, 400),
    ):
        post(client, "/decisions", {"decisions": [good, wrong]}, status)
    assert library.history() == []
    assert "sunny" not in library.picture(1).tags


def test_complete_rename_and_hide(client, library):
    assert post(client, "/complete", {"pictures": [1, 2]}, 201)["changed"] == 2
    assert library.picture(2).complete
    assert post(client, "/complete", {"pictures": [1], "complete": False}, 201)["changed"] == 1
    post(client, "/tags/rename", {"old": "red", "new": "crimson"}, 200)
    assert get(client, "/pictures", tag="crimson").json()["count"] == 4
    post(client, "/tags/hide", {"tag": "blue"}, 200)
    assert next(tag for tag in library.tags() if tag.name == "blue").hidden
    post(client, "/tags/rename", {"old": "nothing", "new": "x"}, 404)


def test_a_scan_is_a_job(client, collection):
    tagged.collection(collection, 2, start=200, listed=False)
    begun = post(client, "/scan", {}, 202)
    ended = finished(client, begun)
    assert ended["state"] == "done", ended
    assert ended["result"]["new"] == 2
    assert get(client, "/library").json()["pictures"] == 14
    assert get(client, "/jobs").json()["jobs"][0]["kind"] == "scan"


def test_a_missing_model_is_reported(client):
    answer = client.post(f"{API}/annotate", json={"path": "000.jpg"})
    assert answer.status_code == 409
    assert answer.json()["type"].endswith("no-model")


def test_no_get_changes_the_library(client, library, collection):
    before = (library.status(), library.history(), (collection / "prototag.library").stat().st_size)
    for path in ("/library", "/pictures", "/pictures/1", "/facets", "/tags", "/history", "/jobs"):
        get(client, path, described=path.replace("/1", "/{picture}"))
        for wrong in ("/decisions", "/undo", "/scan", "/learn", "/sync", "/tags/rename"):
            assert client.get(API + wrong).status_code == 405
    after = (library.status(), library.history(), (collection / "prototag.library").stat().st_size)
    assert before == after


def planned(client):
    ended = finished(client, post(client, "/sync/plan", {}, 202))
    assert (ended["kind"], ended["state"]) == ("plan", "done"), ended
    check(ended["result"], {"$ref": "SyncPlan"})
    return ended["result"]


def test_sidecars_are_planned_looked_at_and_written(client, library, collection):
    post(client, "/sync", {"plan": "unknown"}, 404)
    body = {"decisions": [{"picture": 1, "tag": "sunny", "verdict": "accepted"}]}
    post(client, "/decisions", body, 201)
    first = planned(client)
    plan = planned(client)
    assert plan["outgoing"] == 1
    (change,) = plan["changes"]
    assert "sunny" in change["added"]
    assert "sunny" in change["diff"]
    assert not list(collection.glob("*.xmp"))
    post(client, "/sync", {"plan": first["plan"]}, 404)  # the last one alone can be carried out
    ended = finished(client, post(client, "/sync", {"plan": plan["plan"]}, 202))
    assert ended["state"] == "done", ended
    assert ended["result"]["written"] == 1
    (sidecar,) = collection.glob("*.xmp")
    assert b"sunny" in sidecar.read_bytes()
    post(client, "/sync", {"plan": plan["plan"]}, 404)
    assert planned(client)["outgoing"] == 0
    assert library.status().unwritten == 0


def test_a_write_is_undone(client, library):
    assert get(client, "/writes").json() == {"writes": []}
    library.set_write_places(jpeg="file")
    path = library.existing_file(1)
    before = path.read_bytes()
    library.accept([1, 2], ["written"])
    plan = finished(client, post(client, "/sync/plan", {}, 202))["result"]
    assert (plan["outgoing"], plan["inside"]) == (2, 2)
    assert {change["place"] for change in plan["changes"]} == {"file"}
    done = finished(client, post(client, "/sync", {"plan": plan["plan"]}, 202))["result"]
    assert path.read_bytes() != before
    (write,) = get(client, "/writes").json()["writes"]
    assert (write["number"], write["files"], write["added"]) == (done["write"], 2, 2)
    undone = finished(client, post(client, "/writes/undo", {"number": write["number"]}, 202))
    assert undone["result"] == {"number": write["number"], "restored": 2, "problems": []}
    assert path.read_bytes() == before
    assert get(client, "/writes").json()["writes"][0]["undone"]
    again = finished(client, post(client, "/writes/undo", {"number": write["number"]}, 202))
    assert again["state"] == "failed"
    post(client, "/writes/undo", {"number": 99}, 404)


def test_writing_sidecars_is_stopped_between_two_files(client, library, collection, monkeypatch):
    numbers = library.pictures(limit=8)
    body = {"decisions": [{"picture": n, "tag": "sunny", "verdict": "accepted"} for n in numbers]}
    post(client, "/decisions", body, 201)
    plan = planned(client)
    assert plan["outgoing"] == 8
    began = threading.Event()
    go_on = threading.Event()
    apply_change = write_policy.apply_change

    def slow(change):
        began.set()
        go_on.wait(30)
        return apply_change(change)

    monkeypatch.setattr(write_policy, "apply_change", slow)
    job = post(client, "/sync", {"plan": plan["plan"]}, 202)
    assert began.wait(30)
    assert client.delete(f"/api/v1/jobs/{job['job']}").status_code == 200
    go_on.set()
    ended = finished(client, job)
    assert ended["state"] == "stopped", ended
    written = len([*collection.glob("*.xmp")])
    assert 1 <= ended["result"]["written"] == written < 8
    assert ended["result"]["left"] == 8 - written
    monkeypatch.undo()
    assert planned(client)["outgoing"] == 8 - written
    assert library.picture(numbers[0]).accepted == ["sunny"]
