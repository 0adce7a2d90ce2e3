"""A request that names a picture, tag, model, job, plan or file that does not exist gets a 404."""

from __future__ import annotations

import re

import pytest

import tagged
from prototag import Library, cli
from prototag.errors import Remedy, UnknownNameError
from prototag.service import problem_details
from prototag.service.app import OPERATIONS
from prototag.service.json_schemas import COMPONENTS
from service.test_openapi import validate

PATH, QUERY, BODY = "path", "query", "body"
ABSENT = "no such thing"
ABSENT_NUMBER = 987_654_321
# Fields of requests that name something. Those that may name what is absent have no request here:
# `skip`, `folder` and `query` filter, a tag that is accepted and the new name of one may be new.
NAMES = {
    "tag",
    "without",
    "vocabulary",
    "picture",
    "pictures",
    "number",
    "job",
    "plan",
    "old",
    "like",
}
NAMES |= {"tags", "path", "paths", "decisions", "batch"}
FILTERS = {"skip", "folder", "query", "before", "after", "library"}

# (operation, where, field) -> the request with an unknown name
REQUESTS = {
    ("annotate", QUERY, "vocabulary"): {"vocabulary": ABSENT, "json": {"path": "000.jpg"}},
    ("annotate", BODY, "vocabulary"): {"json": {"path": "000.jpg", "vocabulary": [ABSENT]}},
    ("annotate", BODY, "path"): {"json": {"path": ABSENT}},
    ("annotateMany", BODY, "vocabulary"): {"json": {"paths": [], "vocabulary": [ABSENT]}},
    ("similar", BODY, "path"): {"json": {"path": ABSENT}},
    ("explain", BODY, "path"): {"json": {"path": ABSENT}},
    ("explain", BODY, "tags"): {"json": {"path": "000.jpg", "tags": [ABSENT]}},
    ("explain", QUERY, "tag"): {"tag": ABSENT, "json": {"path": "000.jpg"}},
    ("pictures", QUERY, "tag"): {"tag": ABSENT},
    ("pictures", QUERY, "without"): {"without": ABSENT},
    ("facets", QUERY, "tag"): {"tag": ABSENT},
    ("facets", QUERY, "without"): {"without": ABSENT},
    ("search", QUERY, "like"): {"like": ABSENT_NUMBER},
    ("search", QUERY, "tag"): {"tag": ABSENT, "query": "beach"},
    ("search", QUERY, "without"): {"without": ABSENT, "query": "beach"},
    ("curves", QUERY, "tag"): {"tag": ABSENT},
    ("suggestions", QUERY, "tag"): {"tag": ABSENT},
    ("explainPicture", QUERY, "tag"): {"tag": ABSENT},
    ("reviewBatch", BODY, "tag"): {"json": {"tag": ABSENT}},
    ("decide", BODY, "decisions"): {
        "json": {"decisions": [{"picture": 1, "tag": ABSENT, "verdict": "rejected"}]}
    },
    ("complete", BODY, "pictures"): {"json": {"pictures": [ABSENT_NUMBER]}},
    ("pictureList", BODY, "pictures"): {"json": {"pictures": [ABSENT_NUMBER]}},
    ("planSync", BODY, "pictures"): {"json": {"pictures": [ABSENT_NUMBER]}},
    ("rename", BODY, "old"): {"json": {"old": ABSENT, "new": "another"}},
    ("hide", BODY, "tag"): {"json": {"tag": ABSENT}},
    ("rollBack", BODY, "number"): {"json": {"number": ABSENT_NUMBER}},
    ("undoWrite", BODY, "number"): {"json": {"number": ABSENT_NUMBER}},
    ("undo", BODY, "batch"): {"json": {"batch": ABSENT_NUMBER}},
    ("redo", BODY, "batch"): {"json": {"batch": ABSENT_NUMBER}},
    ("sync", BODY, "plan"): {"json": {"plan": ABSENT}},
}
# Each picture of this request has its own answer.
ONE_BY_ONE = {("annotateMany", BODY, "paths")}
EXPLAINED = {"explainPicture": {"tag": "red"}}  # what a request needs besides


def named_fields() -> set[tuple[str, str, str]]:
    """All fields of all operations, by their place, that name something."""
    found = set()
    for one in OPERATIONS:
        body = COMPONENTS[one.body].get("properties", {}) if one.body else {}
        found |= {(one.name, PATH, name) for name in re.findall(r"{(\w+)}", one.path)}
        found |= {(one.name, QUERY, param.name) for param in one.query if param.name in NAMES}
        if one.name != "labels":  # PhotoPrism's own request names nothing of ours
            found |= {(one.name, BODY, name) for name in body if name in NAMES}
    return found


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    folder = tmp_path_factory.mktemp("learned") / "photos"
    tagged.collection(folder, 40)
    with Library.create(folder, crops="fast", cache=None) as library:
        library.scan()
        library.learn()
        yield library


def test_every_field_that_names_something_has_a_request():
    by_path = {field for field in named_fields() if field[1] == PATH}
    assert named_fields() == by_path | REQUESTS.keys() | ONE_BY_ONE


@pytest.mark.parametrize("field", sorted(named_fields() - ONE_BY_ONE), ids="-".join)
def test_an_unknown_name_is_a_404(served, learned, field):
    name, where, _ = field
    operation = next(one for one in OPERATIONS if one.name == name)
    client = served(library=learned, annotator=None, roots=[learned.path.parent])
    request = dict(REQUESTS.get(field, {}))
    number = "1"
    if where == PATH:
        number, request = str(ABSENT_NUMBER), dict(EXPLAINED.get(name, {}))
        if operation.body:
            request["json"] = {}
    body = request.pop("json", None)
    path = re.sub(r"{\w+}", number, operation.full_path)
    answer = client.request(operation.method, path, json=body, params=request)
    assert answer.status_code == 404, answer.text
    validate(answer, operation.full_path, operation.method.lower())
    # The remedy is one of this interface.
    assert "`" not in answer.json()["detail"]
    assert "Library." not in answer.json()["detail"]


def test_one_of_many_pictures(served, learned):
    client = served(library=learned, annotator=None, roots=[learned.path.parent])
    answer = client.post("/api/v1/annotate/many", json={"paths": ["000.jpg", ABSENT]})
    first, second = answer.json()["results"]
    assert "tags" in first
    assert second["error"]["status"] == 404


def test_filters_may_name_what_is_absent(served, learned):
    client = served(library=learned, annotator=None)
    for params in ({"folder": ABSENT}, {"query": "zyzzy"}, {"after": 2**63 - 1}):
        answer = client.get("/api/v1/pictures", params=params)
        assert (answer.status_code, answer.json()["pictures"]) == (200, [])


def test_numbers_beyond_what_sqlite_holds_are_refused(served, learned):
    client = served(library=learned, annotator=None)
    assert client.get("/api/v1/pictures", params={"after": 2**63}).status_code == 400
    assert client.get("/api/v1/history", params={"before": 2**63}).status_code == 400
    assert client.post("/api/v1/models/current", json={"number": 2**63}).status_code == 400


def test_a_thousand_tags_are_refused_in_words(served, learned):
    client = served(library=learned, annotator=None)
    for name in ("tag", "without"):
        answer = client.get("/api/v1/pictures", params=[(name, "red")] * 1000)
        assert answer.status_code == 400
        assert answer.json()["detail"] == f"{name} was given 1000 times: give it at most 50 times."
    both = [("tag", "red")] * 50 + [("without", "blue")] * 50
    assert client.get("/api/v1/pictures", params=both).status_code == 200


def test_training_pictures_are_named_by_their_paths(served, learned):
    client = served(library=learned, annotator=None, roots=[learned.path.parent])
    names = {f"{number:03}.jpg" for number in range(40)}
    near = client.post("/api/v1/similar", json={"path": "000.jpg", "count": 5}).json()["similar"]
    assert near[0]["name"] == "000.jpg"
    assert {one["name"] for one in near} <= names
    (why,) = client.post("/api/v1/explain", json={"path": "000.jpg", "tags": ["red"]}).json()[
        "tags"
    ]
    assert why["reasons"]
    assert {one["name"] for one in why["reasons"]} <= names


SECRET = b"secret words"


@pytest.mark.parametrize("head", [b"", b"BM", b"II*\0", b"\x89PNG\r\n\x1a\n\0\0\0\x04", b"GIF8"])
def test_a_refusal_tells_nothing_of_a_file(client, photos, head):
    (photos / "notes").write_bytes(head + SECRET * 20)
    (photos / "other").write_bytes(head + b"something else" * 20)
    told = [client.post("/api/v1/annotate", json={"path": name}) for name in ("notes", "other")]
    assert [one.status_code for one in told] == [422, 422]
    assert told[0].json()["detail"] == told[1].json()["detail"]
    assert "secr" not in told[0].text


@pytest.mark.parametrize("words", [problem_details.REMEDIES, cli.REMEDIES], ids=["service", "cli"])
def test_every_interface_has_a_text_for_every_remedy(words):
    assert words.keys() == {*Remedy}


def test_errors_use_the_terms_of_the_interface():
    error = UnknownNameError("there is no model 9", remedy=Remedy.LIST_MODELS)
    assert str(error) == "there is no model 9: Library.models() lists the models."
    assert error.worded(cli.REMEDIES).endswith(": `prototag learn --models` lists the models.")
    assert problem_details.from_error(error).detail.endswith(
        ": GET /api/v1/models lists the models."
    )
    assert problem_details.from_error(error).status == 404
