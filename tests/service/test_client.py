"""The generated Python client, against a service in another process."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tagged
from prototag import client as module
from prototag.client import ApiError, Client
from tools import http_client


def test_the_client_is_that_of_the_operations():
    text = http_client.TARGET.read_text(encoding="utf-8")
    assert text == http_client.source(), "python -m tools.http_client"


def test_a_model_over_http(serve, photos):
    client = Client(serve().address)
    assert client.health()["has_model"] is True
    file = photos / "100.jpg"
    annotated = client.annotate(file, top=2)
    (expected,) = tagged.annotator().annotate(file, top=2)
    assert [tag["tag"] for tag in annotated["tags"]] == [tag.name for tag in expected.tags]
    assert client.annotate(file.read_bytes(), top=2)["tags"] == annotated["tags"]
    assert client.annotate(path="100.jpg", top=2)["tags"] == annotated["tags"]
    only = client.annotate(path="100.jpg", vocabulary=["red", "green"], min_probability=0.0)
    assert {tag["tag"] for tag in only["tags"]} <= {"red", "green"}
    many = client.annotate_many(images=[file, file.read_bytes()], paths=["100.jpg", "gone"], top=2)
    assert [one.get("tags") for one in many["results"][:3]] == [annotated["tags"]] * 3
    assert many["results"][3]["error"]["status"] == 404
    assert len(client.similar(file, count=3)["similar"]) == 3
    assert [one["tag"] for one in client.explain(file, tag=["red"])["tags"]] == ["red"]
    assert [one["name"] for one in client.tags(text="RE")["tags"]] == ["green", "red"]


def test_errors_say_what_to_do(serve, photos):
    client = Client(serve().address)
    with pytest.raises(ApiError, match="no picture was given") as caught:
        client.annotate()
    assert (caught.value.status, caught.value.kind) == (400, "bad-request")
    with pytest.raises(ApiError, match="library") as caught:
        client.status()
    assert caught.value.status == 409
    with pytest.raises(ValueError, match="give one of them"):
        client.annotate(photos / "100.jpg", path="100.jpg")


def test_a_library_over_http(serve, collection):
    client = Client(serve(command=["serve", collection / "prototag.library"]).address)
    scanned = client.wait(client.scan())
    assert scanned["state"] == "done"
    assert client.status()["pictures"] == 12
    number = client.pictures(tag=["red"], limit=1)["pictures"][0]
    assert "red" in client.picture(number)["tags"]
    assert client.thumbnail(number)[8:12] == b"WEBP"
    decided = client.decide([{"picture": number, "tag": "new", "verdict": "accepted"}], by="test")
    assert decided["changed"] == 1
    assert "new" in client.picture(number)["accepted"]
    assert client.history(limit=1)["decisions"][0]["by"] == "test"
    client.rename("new", "other")
    assert client.picture(number)["accepted"] == ["other"]
    assert client.undo(decided["batch"])["batch"] == decided["batch"]
    assert client.picture(number)["accepted"] == []
    plan = client.wait(client.plan_sync())
    assert set(plan["result"]) >= {"plan", "incoming", "outgoing"}
    events = [*client.events(scanned["job"])]
    assert events[-1]["state"] == "done"


def test_a_token_is_sent_and_a_failed_job_raises(serve, collection, tmp_path):
    token = tmp_path / "token"
    token.write_text("0123456789abcdef\n")
    file = collection / "prototag.library"
    address = serve("--token-file", token, command=["serve", file]).address
    with pytest.raises(ApiError, match="token") as caught:
        Client(address).health()
    assert caught.value.status == 401
    client = Client(address, token="0123456789abcdef")
    assert client.health()["status"] == "up"
    shutil.rmtree(collection, ignore_errors=True)
    job = client.learn(full=True)
    with pytest.raises(ApiError):
        client.wait(job)


def test_the_file_alone_is_enough(serve, photos, tmp_path):
    """A copy that the service returns runs without the package."""
    running = serve()
    opener = module.build_opener(module.ProxyHandler({}))
    with opener.open(f"{running.address.rstrip('/')}/docs/prototag_client.py") as response:
        (tmp_path / "prototag_client.py").write_bytes(response.read())
    program = f"""
from prototag_client import Client
print(len(Client({running.address!r}).annotate({str(photos / "100.jpg")!r}, top=2)["tags"]))
"""
    command = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, '.'){program}"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.stdout == "2\n", ran.stderr
    assert Path(module.__file__).read_bytes() == (tmp_path / "prototag_client.py").read_bytes()
