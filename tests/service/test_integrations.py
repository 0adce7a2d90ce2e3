"""Other programs, by what they were recorded to send and what their sources say they take."""

from __future__ import annotations

import base64
import gc
import http.server
import threading

import pytest

import tagged
from history import undo_last
from prototag.service.integrations import labelstudio
from prototag.service.integrations import labelstudio_state as studio_memory
from prototag.service.integrations.http_client import is_allowed

PHOTOPRISM = "/api/v1/vision/labels"
# From a recording of Label Studio 1.23.2, shortened.
CONFIG = (
    '<View><Image name="image" value="$image"/><Choices name="tags" toName="image" '
    'choice="multiple"><Choice value="red"/><Choice value="Striped"/><Choice value="tree"/>'
    "</Choices></View>"
)
SETUP = {
    "project": "1.1794798044",
    "schema": CONFIG,
    "hostname": "http://localhost:8099",
    "access_token": "TOKEN",
    "extra_params": None,
}


def url_of(data: bytes) -> str:
    return "data:image/jpeg;base64," + base64.b64encode(data).decode()


def predict(image: str, config: str = CONFIG) -> dict:
    return {
        "tasks": [
            {
                "id": 1,
                "data": {"image": image},
                "meta": {},
                "is_labeled": True,
                "project": 1,
                "annotations": [{"id": 1, "result": [], "was_cancelled": False}],
                "predictions": [],
            }
        ],
        "project": "1.1794798044",
        "label_config": config,
        "params": {"login": None, "password": None, "context": None},
    }


def webhook(action: str, image: str, choices: list[str], **annotation) -> dict:
    result = {
        "from_name": "tags",
        "to_name": "image",
        "type": "choices",
        "value": {"choices": choices},
    }
    return {
        "action": action,
        "annotation": {"id": 2, "result": [result], "was_cancelled": False, **annotation},
        "project": {"id": 1, "title": "photos", "label_config": CONFIG, "token": "TOKEN"},
        "task": {"id": 1, "data": {"image": image}, "project": 1, "is_labeled": True},
    }


# -- PhotoPrism ------------------------------------------------------------------------------------


def test_photoprism_labels(client, photos):
    path = photos / "100.jpg"
    request = {
        "id": "3f8b1c1e-0000-4000-8000-000000000000",
        "model": "prototag",
        "version": "latest",
        "suffix": "",
        "stream": False,
        "images": [url_of(path.read_bytes())],
    }
    answer = client.post(PHOTOPRISM, json=request)
    assert answer.status_code == 200
    found = answer.json()
    assert (found["id"], found["code"]) == (request["id"], 200)
    (wanted,) = tagged.annotator().annotate([path])
    assert [label["name"] for label in found["result"]["labels"]] == wanted.names
    for label in found["result"]["labels"]:
        assert label.keys() == {
            "name", "source", "priority", "confidence", "topicality", "categories",
        }  # fmt: skip
        assert label["source"] == "image"
        assert 0 < label["confidence"] <= 1


def test_photoprism_several_images_give_one_list(client, photos):
    images = [url_of(path.read_bytes()) for path in sorted(photos.iterdir())]
    labels = client.post(PHOTOPRISM, json={"id": "1", "images": images}).json()["result"]["labels"]
    names = [label["name"] for label in labels]
    assert len(names) == len({*names})
    confidences = [label["confidence"] for label in labels]
    assert confidences == sorted(confidences, reverse=True)


def test_photoprism_sends_a_good_and_a_bad_image(client, photos, recwarn):
    good = url_of((photos / "100.jpg").read_bytes())
    answer = client.post(PHOTOPRISM, json={"id": "7", "images": [good, "data:,nothing"]})
    assert answer.status_code == 400
    gc.collect()
    assert not [one for one in recwarn if "never awaited" in str(one.message)]


def test_photoprism_reads_our_errors(client):
    answer = client.post(PHOTOPRISM, json={"id": "7", "url": "http://x.example/a.jpg"})
    assert answer.status_code == 400
    assert answer.json()["code"] == 400
    assert "FileScheme: data" in answer.json()["error"]
    answer = client.post(PHOTOPRISM, json={"id": "7", "images": [url_of(b"nothing")]})
    assert (answer.status_code, answer.json()["id"]) == (422, "7")


def test_photoprism_sends_its_key(served, photos):
    token = "0123456789abcdef0123"
    client = served(token=token)
    body = {"id": "1", "images": [url_of((photos / "100.jpg").read_bytes())]}
    assert client.post(PHOTOPRISM, json=body).status_code == 401
    headers = {"authorization": f"Bearer {token}"}
    assert client.post(PHOTOPRISM, json=body, headers=headers).status_code == 200


# -- Label Studio ----------------------------------------------------------------------------------


def test_label_studio_health_and_setup(client):
    assert client.get("/label-studio/health").json()["status"] == "UP"
    answer = client.post("/label-studio/setup", json=SETUP)
    assert answer.status_code == 200
    assert answer.json()["model_version"].startswith("prototag")


@pytest.mark.parametrize("way", ["data", "local", "name"])
def test_label_studio_predicts(client, photos, way):
    path = photos / "102.jpg"
    image = {
        "data": url_of(path.read_bytes()),
        "local": "/data/local-files/?d=102.jpg",
        "name": "102.jpg",
    }[way]
    (found,) = client.post("/label-studio/predict", json=predict(image)).json()["results"]
    (wanted,) = tagged.annotator().annotate([path])
    names = {"red": "red", "striped": "Striped"}
    expected = [names[tag.name] for tag in wanted.tags if tag.name in names]
    if not expected:
        assert found["result"] == []
        return
    (result,) = found["result"]
    assert result["value"]["choices"] == expected
    assert (result["from_name"], result["to_name"], result["type"]) == ("tags", "image", "choices")
    assert 0 < found["score"] == result["score"] <= 1


def test_label_studio_single_choice(client, photos):
    config = CONFIG.replace("multiple", "single")
    for path in sorted(photos.iterdir()):
        answer = client.post("/label-studio/predict", json=predict(path.name, config))
        for result in answer.json()["results"][0]["result"]:
            assert len(result["value"]["choices"]) == 1


class Studio(http.server.BaseHTTPRequestHandler):
    """Label Studio's uploads."""

    data = b""
    asked: list[tuple[str, str | None]] = []  # noqa: RUF012

    def do_GET(self):
        self.asked.append((self.path, self.headers.get("authorization")))
        if self.path == "/data/upload/away.jpg":
            self.send_response(302)
            self.send_header("Location", "/data/upload/x.jpg")
            self.end_headers()
            return
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.data)

    def log_message(self, *_):
        pass


@pytest.fixture
def studio(photos):
    Studio.data, Studio.asked = (photos / "100.jpg").read_bytes(), []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Studio)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_uploads_are_fetched_from_label_studio(client, studio):
    body = predict("/data/upload/x.jpg")
    (found,) = client.post("/label-studio/predict", json=body).json()["results"]
    assert found["result"] == []  # it has not said where it is
    assert "Label Studio" in found["error"]
    client.post("/label-studio/setup", json={**SETUP, "hostname": studio})
    (found,) = client.post("/label-studio/predict", json=body).json()["results"]
    assert "error" not in found
    assert Studio.asked == [("/data/upload/x.jpg", "Token TOKEN")]
    (found,) = client.post("/label-studio/predict", json=predict("/data/upload/away.jpg")).json()[
        "results"
    ]
    assert "302" in found["error"]  # redirects are not followed


def test_no_other_host_is_asked(client, monkeypatch):
    def asked(*_, **__):
        raise AssertionError("somebody was asked")

    monkeypatch.setattr(labelstudio, "fetch", asked)
    client.post("/label-studio/setup", json={**SETUP, "hostname": "http://studio.example"})
    (found,) = client.post("/label-studio/predict", json=predict("/data/upload/x.jpg")).json()[
        "results"
    ]
    assert found["result"] == []


def test_who_may_be_asked():
    assert is_allowed("http://localhost:8080/data/x", ())
    assert is_allowed("https://studio.example/data/x", {"studio.example"})
    for url in (
        "http://studio.example/",
        "http://127.0.0.1@evil.example/",
        "http://localhost.evil.example/",
        "http://2130706433/",
        "http://0x7f.1/",
        "http://0.0.0.0/",
        "http://169.254.169.254/latest",
        "file:///etc/passwd",
        "ftp://127.0.0.1/",
        "//127.0.0.1/",
        "",
        "http://[::1",
        "http://user@127.0.0.1/",
    ):
        assert not is_allowed(url, ()), url


def test_the_token_goes_to_label_studio_alone(client, studio):
    client.post("/label-studio/setup", json={**SETUP, "hostname": "http://localhost:1"})
    client.post("/label-studio/predict", json=predict(f"{studio}/data/upload/x.jpg"))
    assert Studio.asked == [("/data/upload/x.jpg", None)]


@pytest.mark.parametrize(
    "config",
    [
        None,
        "",
        "<View>",
        "<View/>",
        '<!DOCTYPE a [<!ENTITY b "c">]><View>&b;</View>',
        "<View><Choices name='a' toName='b'/></View>",
        "<View>" + "x" * (1 << 20) + "</View>",
    ],
)
def test_other_configurations_are_refused_in_words(client, config):
    body = {**predict("100.jpg"), "label_config": config}
    answer = client.post("/label-studio/predict", json=body)
    assert answer.status_code == 400
    assert "configuration" in answer.json()["detail"]


def test_tasks_that_cannot_be_read_do_not_fail_the_others(client):
    body = predict("100.jpg")
    body["tasks"] += [{"id": 2, "data": {"image": "../../etc/passwd"}}, {"id": 3}, 4]
    answer = client.post("/label-studio/predict", json=body)
    assert answer.status_code == 200
    first, *others = answer.json()["results"]
    assert "error" not in first
    assert all(one["result"] == [] and one["error"] for one in others)


def test_webhooks_decide(served, library, collection):
    client = served(library=library, annotator=None, roots=[collection])
    path = collection / "000.jpg"  # red, striped, dotted
    number = library.numbers([path])[0]
    for image in ("000.jpg", url_of(path.read_bytes())):
        body = webhook("ANNOTATION_CREATED", image, ["Striped", "tree"])
        answer = client.post("/label-studio/webhook", json=body)
        assert answer.status_code == 201, answer.text
        assert answer.json()["status"] == "ok"
    view = library.picture(number)
    assert {"striped", "tree"} <= {tag.lower() for tag in view.tags}
    assert view.rejected == ["red"]
    assert {one.by for one in library.history()} == {"label-studio"}
    body = webhook("ANNOTATION_UPDATED", "000.jpg", ["red"])
    assert client.post("/label-studio/webhook", json=body).status_code == 201
    assert library.picture(number).rejected == ["striped", "tree"]
    library.decide([(number, "tree", "accepted")])  # by somebody else, and stays
    body = {key: body[key] for key in ("project",)}  # as Label Studio's source has it: ids alone
    body |= {"action": "ANNOTATIONS_DELETED", "annotations": [{"id": 2}, {"id": 99}]}
    assert client.post("/label-studio/webhook", json=body).json()["decisions"] == 2
    assert library.picture(number).rejected == []
    assert library.picture(number).accepted == ["tree"]


def test_annotations_made_of_predictions_come_together(served, library, collection):
    client = served(library=library, annotator=None, roots=[collection])
    one, two = (
        webhook("ANNOTATIONS_CREATED", name, [tag], id=number, task=number)
        for number, (name, tag) in enumerate([("000.jpg", "red"), ("001.jpg", "tree")], 1)
    )
    two["task"]["id"] = 2
    together = one | {
        "annotation": [one["annotation"], two["annotation"]],
        "task": [two["task"], one["task"]],
    }
    assert client.post("/label-studio/webhook", json=together).json()["decisions"] == 6
    assert library.picture(library.numbers([collection / "000.jpg"])[0]).accepted == ["red"]
    assert library.picture(library.numbers([collection / "001.jpg"])[0]).accepted == ["tree"]


def test_a_rejection_of_an_unknown_tag_counts_once_the_tag_exists(served, library, collection):
    client = served(library=library, annotator=None, roots=[collection])
    assert "tree" not in {tag.name for tag in library.tags()}
    body = webhook("ANNOTATION_CREATED", "000.jpg", ["red"])
    assert client.post("/label-studio/webhook", json=body).json()["decisions"] == 3
    first, second = library.numbers([collection / "000.jpg", collection / "001.jpg"])
    assert library.picture(first).rejected == ["striped", "tree"]
    library.accept([second], ["tree"])
    tree = next(tag for tag in library.tags() if tag.name == "tree")
    assert (tree.pictures, tree.rejected) == (1, 1)
    undo_last(library, 2)
    assert "tree" not in {tag.name for tag in library.tags()}


def test_where_label_studio_lives_outlives_the_service(served, library, collection, studio):
    Studio.data = (collection / "000.jpg").read_bytes()
    for asks_first in (True, False):
        client = served(library=library, annotator=None)
        if asks_first:
            client.post("/label-studio/setup", json={**SETUP, "hostname": studio})
        body = webhook("ANNOTATION_CREATED", "/data/upload/x.jpg", ["red"])
        body["project"]["created_at"] = "2026-11-16T03:00:44.227748Z"
        answer = client.post("/label-studio/webhook", json=body)
        assert answer.status_code == 201, answer.text
    assert Studio.asked == 2 * [("/data/upload/x.jpg", "Token TOKEN")]
    answer = served(library=library, annotator=None).post(
        "/label-studio/webhook", json={"action": "ANNOTATIONS_DELETED", "annotations": [{"id": 2}],
        "project": body["project"]},
    )  # fmt: skip
    assert answer.json()["decisions"] == 3


def test_a_project_has_the_same_name_in_a_webhook():
    project = {"id": 1, "created_at": "2026-11-16T03:00:44.227748Z"}  # as recorded
    assert studio_memory.name_of(project) == SETUP["project"]
    assert studio_memory.name_of({"id": 7}) == "7"
    kept = studio_memory.Memory()
    kept.keep_home("1.1794798044", studio_memory.Home("http://a", ""))
    kept.keep_home("1.1794798045", studio_memory.Home("http://b", ""))
    assert kept.home("1.1794798044").hostname == "http://a"
    assert kept.home("1").hostname == "http://b"
    assert kept.home("1.5") is None


def test_webhooks_that_decide_nothing(served, library, collection):
    client = served(library=library, annotator=None, roots=[collection])
    skipped = webhook("ANNOTATION_CREATED", "000.jpg", [], was_cancelled=True)
    for body in (skipped, {"action": "PROJECT_UPDATED"}, {}):
        assert client.post("/label-studio/webhook", json=body).status_code == 201
    unknown = webhook("ANNOTATION_CREATED", url_of(b"another picture"), ["red"])
    assert client.post("/label-studio/webhook", json=unknown).status_code == 404
    assert client.post("/label-studio/webhook", json={**unknown, "project": 1}).status_code == 400
    assert library.history() == []


def test_webhooks_need_a_library(client):
    body = webhook("ANNOTATION_CREATED", "100.jpg", ["red"])
    assert client.post("/label-studio/webhook", json=body).status_code == 409
