"""Who may ask, and who may not."""

from __future__ import annotations

import base64

import pytest

import tagged
from prototag.errors import InputError
from prototag.service.app import create_app
from prototag.service.security import COOKIE, HEADERS, Rules, is_loopback

TOKEN = "0123456789abcdef0123456789abcdef"
CHANGE = "/api/v1/annotate"


def test_every_answer_has_the_headers(client):
    for path in ("/", "/api/v1/health", "/api/v1/nothing", "/static/service.css", "/static/../x"):
        answer = client.get(path)
        for name, value in HEADERS.items():
            assert answer.headers[name] == value, path
        policy = answer.headers["content-security-policy"]
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:8765", "[::1]:8765", "LOCALHOST."])
def test_the_names_of_this_computer_are_ours(client, host):
    assert client.get("/api/v1/health", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "evil.example:8765",
        "127.0.0.1@evil.example",
        "evil.example#127.0.0.1",
        "192.168.1.7",
        "",
        "127.0.0.1:x",
        "[::1",
        "a" * 300,
    ],
)
def test_a_rebound_name_is_not_ours(client, host):
    answer = client.get("/api/v1/health", headers={"host": host})
    assert answer.status_code == 421
    assert answer.headers["content-type"] == "application/problem+json"
    assert "Host header" in answer.json()["detail"]


def test_further_names_and_addresses(served):
    client = served(host="0.0.0.0", token=TOKEN, names=["Photos.example"])
    ask = {"authorization": f"Bearer {TOKEN}"}
    for host in ("photos.example:99", "192.168.1.7", "localhost"):
        assert client.get("/api/v1/health", headers={"host": host, **ask}).status_code == 200
    assert client.get("/api/v1/health", headers={"host": "x.example", **ask}).status_code == 421


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9999"},
        {"origin": "https://127.0.0.1"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"},
    ],
)
def test_another_site_changes_nothing(client, headers):
    answer = client.post(CHANGE, json={"path": "100.jpg"}, headers=headers)
    assert answer.status_code == 403
    assert "another site" in answer.json()["detail"]


@pytest.mark.parametrize(
    "headers", [{}, {"origin": "http://127.0.0.1"}, {"sec-fetch-site": "same-origin"}]
)
def test_programs_and_our_own_pages_may(client, headers):
    assert client.post(CHANGE, json={"path": "100.jpg"}, headers=headers).status_code == 200


def test_another_site_reads_nothing_but_may_link(client):
    embed = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}
    assert client.get("/api/v1/tags", headers=embed).status_code == 403
    link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert client.get("/", headers=link).status_code == 200


def test_no_get_has_a_body_or_changes_something(client):
    for path, methods in client.get("/api/v1/openapi.json").json()["paths"].items():
        for method, operation in methods.items():
            assert method in ("get", "post", "delete"), path
            if method != "post":
                assert "requestBody" not in operation


def test_no_page_of_another_site_stops_a_job(client):
    for headers in ({"origin": "http://evil.example"}, {"sec-fetch-site": "cross-site"}):
        assert client.delete("/api/v1/jobs/1", headers=headers).status_code == 403
    assert client.delete("/api/v1/jobs/1").status_code == 404


def test_a_token_is_asked_for(served):
    client = served(token=TOKEN)
    for headers in (
        {},
        {"authorization": "Bearer wrong"},
        {"authorization": f"Bearer {TOKEN[:-1]}"},
        {"authorization": TOKEN},
        {"authorization": "Basic !!!"},
        {"cookie": f"{COOKIE}={TOKEN}"},
        {"cookie": f"{COOKIE}=\xff".encode("latin-1")},
    ):
        answer = client.get("/api/v1/health", headers=headers)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert TOKEN not in answer.text
    basic = base64.b64encode(f"any:{TOKEN}".encode()).decode()
    for given in (f"Bearer {TOKEN}", f"bearer {TOKEN}", f"Basic {basic}"):
        headers = {"authorization": given}
        assert client.get("/api/v1/health", headers=headers).status_code == 200


def test_a_browser_is_let_in_once(served):
    client = served(token=TOKEN)
    assert client.get("/", params={"token": "wrong"}).status_code == 401
    answer = client.get("/", params={"token": TOKEN})
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    kept = answer.headers["set-cookie"]
    assert "HttpOnly" in kept
    assert "samesite=strict" in kept.lower()
    assert TOKEN not in kept
    assert client.get("/").status_code == 200  # the client keeps the cookie


def test_the_token_in_the_address_opens_nothing_else(served):
    client = served(token=TOKEN)
    assert client.get("/api/v1/health", params={"token": TOKEN}).status_code == 401
    assert client.post("/", params={"token": TOKEN}).status_code == 401


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.7", "::", "photos.example", ""])
def test_other_addresses_need_a_token(host):
    with pytest.raises(InputError, match="no token"):
        create_app(annotator=tagged.annotator(), host=host)


@pytest.mark.parametrize("token", ["short", "with a space in it, long", "ä" * 20, " " * 20])
def test_a_token_is_hard_to_guess(token):
    with pytest.raises(InputError, match="16 or more"):
        Rules.create("127.0.0.1", token)


def test_loopback():
    assert all(map(is_loopback, ["localhost", "127.0.0.1", "127.9.9.9", "::1", "LocalHost"]))
    assert not any(map(is_loopback, ["0.0.0.0", "::", "", "10.0.0.1", "localhost.x", "127.1"]))


def test_nothing_to_serve_is_refused():
    with pytest.raises(InputError, match="neither"):
        create_app()
