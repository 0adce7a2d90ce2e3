"""A library that learns, by the API: what it suggests, and how it annotates what is sent."""

from __future__ import annotations

import shutil
import threading
import time

import pytest

import tagged
from prototag import Library
from prototag.service import background_trainer
from prototag.service.background_trainer import DEBOUNCE_S, BackgroundTrainer
from prototag.service.jobs import Jobs
from service.test_collection import API, finished, get, post
from service.test_integrations import CONFIG, SETUP, predict

COUNT = 48


@pytest.fixture(scope="module")
def _taught(tmp_path_factory):
    """Pictures of which the last twelve are untagged, scanned and learned once."""
    folder = tmp_path_factory.mktemp("taught") / "collection"
    tagged.collection(folder, COUNT)
    lines = (folder / "metadata.jsonl").read_text().splitlines()
    (folder / "metadata.jsonl").write_text("\n".join(lines[:-12]) + "\n")
    with Library.create(folder, crops="fast", cache=None) as library:
        library.scan()
    return folder


@pytest.fixture
def collection(_taught, tmp_path):
    return shutil.copytree(_taught, tmp_path / "collection")


@pytest.fixture
def client(served, library, collection):
    return served(library=library, annotator=None, roots=[collection])


def learned(client, **body):
    ended = finished(client, post(client, "/learn", body, 202))
    assert ended["state"] == "done", ended
    return ended


def test_it_learns_suggests_and_annotates(client, library, collection):
    for path in ("/suggestions", "/pictures/1/similar"):
        get(client, path, 409, described=path.replace("/1/", "/{picture}/"))
    ended = learned(client)
    assert ended["result"]["full"]
    assert ended["progress"]["stage"]
    (model,) = get(client, "/models").json()["models"]
    assert model["current"]
    assert get(client, "/health").json()["has_model"]

    found = get(client, "/suggestions", tag="red", limit=5).json()["suggestions"]
    assert found
    best = found[0]
    number = int(library.picture(best["picture"]).files[0].stem)
    assert "red" in tagged.tags_of(number)
    every = get(client, "/suggestions").json()["suggestions"]
    assert {one["tag"] for one in every} <= {*tagged.TAGS}
    get(client, "/suggestions", uncertain="true", limit=3)
    skipped = get(client, "/suggestions", tag="red", skip=best["picture"]).json()["suggestions"]
    assert best["picture"] not in {one["picture"] for one in skipped}

    near = get(client, "/pictures/1/similar", described="/pictures/{picture}/similar", limit=3)
    assert len(near.json()["similar"]) == 3
    why = get(client, "/pictures/1/explain", described="/pictures/{picture}/explain", tag="red")
    assert why.json()["reasons"]
    get(client, "/pictures/1/explain", 400, described="/pictures/{picture}/explain")

    data = (collection / "000.jpg").read_bytes()
    answer = client.post(f"{API}/annotate", content=data, headers={"content-type": "image/jpeg"})
    assert answer.status_code == 200, answer.text
    assert {tag["tag"] for tag in answer.json()["tags"]} == {*tagged.tags_of(0)}
    answer = client.post(f"{API}/annotate", json={"path": "047.jpg"})
    assert {tag["tag"] for tag in answer.json()["tags"]} <= {*tagged.tags_of(47)}


def test_a_decision_is_known_to_the_next_suggestions(client):
    learned(client)
    first = get(client, "/suggestions", tag="red", limit=1).json()["suggestions"][0]["picture"]
    decision = {"picture": first, "tag": "red", "verdict": "rejected"}
    made = post(client, "/decisions", {"decisions": [decision]}, 201)
    after = get(client, "/suggestions", tag="red").json()["suggestions"]
    assert first not in {one["picture"] for one in after}
    assert get(client, "/library").json()["decisions"] == 1
    post(client, "/undo", {"batch": made["batch"]}, 200)
    again = get(client, "/suggestions", tag="red").json()["suggestions"]
    assert first in {one["picture"] for one in again}


def test_going_back(client):
    learned(client)
    learned(client, full=True)
    models = get(client, "/models").json()["models"]
    assert len(models) == 2
    older = models[-1]["number"]
    found = post(client, "/models/current", {"number": older}, 200)["models"]
    assert next(one["number"] for one in found if one["current"]) == older
    post(client, "/models/current", {"number": 99}, 404)


def test_a_new_tag_is_soon_given_to_what_is_sent(client, library, collection):
    learned(client)
    assert client.post(f"{API}/annotate", json={"path": "000.jpg"}).status_code == 200
    numbers = [library.numbers([collection / f"{n:03}.jpg"])[0] for n in range(40)]
    chosen = [
        {"picture": number, "tag": "ruby", "verdict": "accepted" if n % 3 == 0 else "rejected"}
        for n, number in enumerate(numbers)
    ]
    chosen.sort(key=lambda one: one["verdict"])  # a tag must be known to be rejected
    post(client, "/decisions", {"decisions": chosen}, 201)
    time.sleep(1.1)  # the service looks again after a second
    answer = client.post(f"{API}/annotate", json={"path": "000.jpg", "top": 10})
    assert answer.status_code == 200, answer.text
    assert "ruby" in {tag["tag"] for tag in answer.json()["tags"]}


def test_label_studio_starts_training(client):
    body = {"action": "START_TRAINING", "project": {"id": 1}}
    answer = client.post("/label-studio/webhook", json=body)
    assert answer.status_code == 201
    ended = finished(client, {"job": answer.json()["job"]})
    assert (ended["kind"], ended["state"]) == ("learn", "done")
    asked = client.post("/label-studio/job_status", json={"job": str(answer.json()["job"])})
    assert asked.json() == {"job_status": "finished"}
    assert client.post("/label-studio/job_status", json={"job": "99"}).status_code == 410


def test_label_studio_receives_the_decisions(client, library, collection):
    learned(client)
    before = client.get("/label-studio/versions").json()["versions"]
    asked = predict("047.jpg", CONFIG.replace("tree", "blue"))
    number = library.numbers([collection / "047.jpg"])[0]
    given = {"Striped": "accepted", "red": "rejected", "blue": "rejected"}
    library.decide([(number, tag, verdict) for tag, verdict in given.items()])
    found = client.post("/label-studio/predict", json=asked).json()["results"][0]
    assert found["result"][0]["value"]["choices"] == ["Striped"]
    assert found["score"] == 1.0
    setup = client.post("/label-studio/setup", json=SETUP).json()
    assert [setup["model_version"]] != before  # so that Label Studio asks anew


def test_missing_labels_for_training_are_reported(served, tmp_path):
    folder = tmp_path / "bare"
    tagged.collection(folder, 3, listed=False)
    with Library.create(folder, crops="fast", cache=None) as library:
        library.scan()
        client = served(library=library, annotator=None)
        ended = finished(client, post(client, "/learn", {}, 202))
        assert ended["state"] == "failed"
        assert ended["problem"]["status"] == 409
        assert ended["problem"]["detail"].endswith(".")


class Counted(Library):
    """A library that counts the updates of its model."""

    updates = 0

    def update_model(self) -> None:
        self.updates += 1
        super().update_model()


@pytest.fixture
def trained(collection):
    with Counted(collection / "prototag.library", cache=None) as library:
        jobs = Jobs()
        trainer = BackgroundTrainer(library, jobs)
        yield library, trainer
        trainer.close()
        jobs.close()


def test_decisions_in_quick_succession_are_one_update(trained):
    library, trainer = trained
    for _ in range(5):
        trainer.notify()
        time.sleep(DEBOUNCE_S / 8)
    assert library.updates == 0
    until = time.monotonic() + 20
    while not library.updates:
        assert time.monotonic() < until
        time.sleep(0.01)
    time.sleep(1.5 * DEBOUNCE_S)
    assert library.updates == 1


def test_a_flush_updates_at_once_for_all_decisions_before_it(trained, monkeypatch):
    monkeypatch.setattr(background_trainer, "DEBOUNCE_S", 600.0)
    library, trainer = trained
    trainer.notify()
    trainer.notify()
    assert trainer.flush(20)
    assert library.updates == 1
    assert trainer.flush(20)
    assert library.updates == 2


def test_a_flush_waits_no_longer_than_its_timeout(trained, monkeypatch):
    library, trainer = trained
    go_on = threading.Event()
    monkeypatch.setattr(type(library), "update_model", lambda _self: go_on.wait(20))
    assert not trainer.flush(0.05)
    go_on.set()
    assert trainer.flush(20)


def test_a_closed_trainer_updates_nothing(trained):
    library, trainer = trained
    trainer.notify()
    trainer.close()
    assert trainer.flush(20)
    assert library.updates == 0


def test_a_failed_update_does_not_block_the_next_one(trained, monkeypatch):
    library, trainer = trained
    with monkeypatch.context() as patch:
        patch.setattr(type(library), "update_model", lambda _self: 1 / 0)
        assert trainer.flush(20)
    assert trainer.flush(20)
    assert library.updates == 1
