"""The document is valid OpenAPI, and what the routes answer is what it says."""

from __future__ import annotations

import json
import re

import jsonschema
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from prototag.service.app import GROUPS, OPERATIONS
from prototag.service.json_schemas import COMPONENTS, check
from prototag.service.openapi import document
from prototag.service.problem_details import Problem

DOCUMENT = document(GROUPS)
JSON = {"Content-Type": "application/json"}


def validate(answer, path: str, method: str) -> None:
    """An answer against what the document says of its status."""
    described = DOCUMENT["paths"][path][method]["responses"]
    assert str(answer.status_code) in described, (answer.status_code, answer.text)
    (kind, content), *_ = described[str(answer.status_code)]["content"].items()
    assert answer.headers["content-type"].partition(";")[0] == kind
    if "schema" in content:
        schema = {**content["schema"], "components": DOCUMENT["components"]}
        jsonschema.Draft202012Validator(schema).validate(answer.json())


def test_the_document_is_valid(client):
    OpenAPIV31SpecValidator(DOCUMENT).validate()
    assert client.get("/api/v1/openapi.json").json() == json.loads(json.dumps(DOCUMENT))


def test_the_page_of_the_api_loads_only_files_of_the_service(client):
    page = client.get("/docs")
    assert page.status_code == 200
    addresses = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert "/docs/prototag_client.py" in addresses
    for address in addresses:
        assert address.startswith(("/", "#"))
        assert address.startswith("#") or client.get(address).status_code == 200
    scripts = [client.get(f"/static/docs/{name}.js").text for name in ("page", "schema", "try")]
    assert not any("http" in script for script in scripts)


def test_whole_numbers_may_have_a_fraction_of_zero(client):
    """2.0 is an integer in JSON Schema."""
    answer = client.post(
        "/api/v1/annotate", content='{"path": "100.jpg", "top": 2.0}', headers=JSON
    )
    assert len(answer.json()["tags"]) == 2
    refused = client.post(
        "/api/v1/annotate", content='{"path": "100.jpg", "top": 2.5}', headers=JSON
    )
    assert refused.status_code == 400


def test_every_operation_has_its_own_name():
    names = [one.name for one in OPERATIONS]
    assert len({*names}) == len(names)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.name)
def test_what_is_answered_without_a_library(client, operation):
    """Whatever a bare request to each of them gives is described."""
    path = re.sub(r"{\w+}", "1", operation.full_path)
    for body in (None, {}):
        answer = client.request(operation.method, path, json=body)
        validate(answer, operation.full_path, operation.method.lower())


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/annotate", {"path": "100.jpg"}),
        ("/annotate", {"path": "100.jpg", "min_probability": 0.01, "top": 5}),
        ("/annotate", {"path": "gone"}),
        ("/annotate/many", {"paths": ["100.jpg", "gone"]}),
        ("/similar", {"path": "100.jpg", "count": 2}),
        ("/explain", {"path": "100.jpg"}),
        ("/vision/labels", {"id": "1", "images": []}),
    ],
)
def test_what_is_answered_to_requests(client, path, body):
    validate(client.post(f"/api/v1{path}", json=body), f"/api/v1{path}", "post")


CASES = [
    ("BatchRequest", {"batch": 0}),
    ("BatchRequest", {"batch": 1.5}),
    ("BatchRequest", {"batch": True}),
    ("BatchRequest", {}),
    ("BatchRequest", {"batch": 3}),
    ("BatchRequest", {"more": 3}),
    ("DecideRequest", {"decisions": []}),
    ("DecideRequest", {"decisions": [{"picture": 1, "tag": "a", "verdict": "accepted"}]}),
    ("DecideRequest", {"decisions": [{"picture": 0, "tag": "a", "verdict": "accepted"}]}),
    ("DecideRequest", {"decisions": [{"picture": 1, "tag": "", "verdict": "accepted"}]}),
    ("DecideRequest", {"decisions": [{"picture": 1, "tag": "a", "verdict": "maybe"}]}),
    ("DecideRequest", {"decisions": [{"picture": 1, "tag": "a"}]}),
    ("DecideRequest", {"decisions": "all"}),
    ("AnnotateRequest", {"precision": 0}),
    ("AnnotateRequest", {"precision": 1}),
    ("AnnotateRequest", {"vocabulary": ["a", 1]}),
    ("PhotoPrismRequest", {"anything": "goes", "images": ["a"]}),
]


@pytest.mark.parametrize(("name", "value"), CASES)
def test_our_check_agrees_with_jsonschema(name, value):
    schema = {**COMPONENTS[name], "components": DOCUMENT["components"]}
    if jsonschema.Draft202012Validator(schema).is_valid(value):
        check(value, {"$ref": name})
    else:
        with pytest.raises(Problem):
            check(value, {"$ref": name})
