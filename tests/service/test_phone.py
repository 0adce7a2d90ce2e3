"""Phones on the network: a one-time code, a session, and nothing without them."""

from __future__ import annotations

import io

import numpy as np
import pytest
from starlette.datastructures import Headers

from prototag import Library
from prototag.service import phone
from prototag.service.phone import COOKIE, PhoneAccess

NETWORK = "http://192.168.1.7:8765"
HERE = "http://127.0.0.1:8765"


@pytest.fixture
def clock():
    now = [0.0]

    def read():
        return now[0]

    read.advance = lambda seconds: now.__setitem__(0, now[0] + seconds)
    return read


@pytest.fixture
def phones(clock):
    made = PhoneAccess("192.168.1.7", clock)
    made.port = 8765
    return made


@pytest.fixture
def sides(served, phones, tmp_path):
    """Clients on the network and on this computer, of the same service."""
    (tmp_path / "empty").mkdir()
    with Library.create(tmp_path / "empty", crops="fast", cache=None) as library:
        here = served(base_url=HERE, library=library, annotator=None, roots=(), phones=phones)
        from starlette.testclient import TestClient

        there = TestClient(here.app, base_url=NETWORK, follow_redirects=False)
        yield there, here


def code_of(here):
    return here.post("/api/v1/phone/code", json={}).json()["link"].rpartition("=")[2]


def test_a_phone_connects_once(sides):
    there, here = sides
    assert there.get("/api/v1/library").status_code == 401
    assert there.get("/").status_code == 401
    code = code_of(here)
    assert there.get("/connect", params={"code": code}).status_code == 200  # opens, uses nothing
    answer = there.post("/api/v1/phone/connect", json={"code": code})
    assert answer.status_code == 200
    kept = answer.headers["set-cookie"].lower()
    assert "httponly" in kept
    assert "samesite=strict" in kept
    assert code.lower() not in kept
    assert there.get("/api/v1/library").status_code == 200
    assert there.get("/").status_code == 200
    assert here.get("/api/v1/phone").json()["phones"] == 1
    other = there.post("/api/v1/phone/connect", json={"code": code})
    assert other.status_code == 403


@pytest.mark.parametrize("code", ["", "x", "ä" * 20, "0" * 100, "null"])
def test_wrong_codes_are_refused_and_withdraw_the_code_in_the_end(sides, code):
    there, here = sides
    right = code_of(here)
    for _ in range(phone.MAX_WRONG_CODES):
        answer = there.post("/api/v1/phone/connect", json={"code": code or " "})
        assert answer.status_code in (400, 403)
        assert right not in answer.text
    assert there.post("/api/v1/phone/connect", json={"code": right}).status_code == 403
    assert here.get("/api/v1/phone").json()["link"] == ""


def test_before_any_code_nothing_connects(sides):
    there, _ = sides
    for body in ({"code": " "}, {"code": ""}, {}, {"code": None}, {"code": ["x"]}):
        assert there.post("/api/v1/phone/connect", json=body).status_code in (400, 403)


def test_codes_and_sessions_expire(sides, clock):
    there, here = sides
    late = code_of(here)
    clock.advance(phone.CODE_LIFETIME_S)
    assert there.post("/api/v1/phone/connect", json={"code": late}).status_code == 403
    there.post("/api/v1/phone/connect", json={"code": code_of(here)})
    clock.advance(phone.SESSION_LIFETIME_S - 1)
    assert there.get("/api/v1/library").status_code == 200
    clock.advance(1)
    assert there.get("/api/v1/library").status_code == 401


def test_a_new_code_replaces_the_one_before(sides):
    there, here = sides
    first = code_of(here)
    second = code_of(here)
    assert first != second
    assert there.post("/api/v1/phone/connect", json={"code": first}).status_code == 403
    assert there.post("/api/v1/phone/connect", json={"code": second}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"cookie": f"{COOKIE}=x"},
        {"cookie": f"{COOKIE}="},
        {"cookie": f"{COOKIE}=\xff".encode("latin-1")},
        {"cookie": "prototag_token=" + "0" * 64},
        {"authorization": "Bearer x"},
        {"x-forwarded-for": "127.0.0.1", "forwarded": "for=127.0.0.1"},
        {"x-forwarded-host": "127.0.0.1"},
    ],
)
def test_nothing_else_opens_the_service(sides, headers):
    there, here = sides
    code_of(here)
    for path in ("/", "/library", "/api/v1/library", "/api/v1/openapi.json", "/static/../", "/x"):
        assert there.get(path, headers=headers).status_code == 401, path
    for path in ("/api/v1/decisions", "/api/v1/scan", "/connect", "/static/app.js"):
        assert there.post(path, json={}, headers=headers).status_code in (401, 403), path
    assert there.get("/static/connect.js", headers=headers).status_code == 200


def test_a_host_header_does_not_make_a_request_local(sides):
    there, _ = sides
    for host in ("127.0.0.1:8765", "localhost", "[::1]:8765"):
        assert there.get("/api/v1/library", headers={"host": host}).status_code == 401
    assert there.get("/connect", headers={"host": "evil.example"}).status_code == 421


@pytest.mark.parametrize("headers", [{"origin": "https://evil.example"}, {"origin": "null"}])
def test_no_page_of_another_site_connects_or_changes(sides, headers):
    there, here = sides
    code = code_of(here)
    answer = there.post("/api/v1/phone/connect", json={"code": code}, headers=headers)
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers
    assert there.post("/api/v1/phone/connect", json={"code": code}).status_code == 200
    assert there.post("/api/v1/scan", json={}, headers=headers).status_code == 403


def test_only_this_computer_makes_codes(sides):
    there, here = sides
    there.post("/api/v1/phone/connect", json={"code": code_of(here)})
    for method, path in (
        ("GET", "/phone"),
        ("GET", "/phone/qr"),
        ("POST", "/phone/code"),
        ("POST", "/phone/disconnect"),
    ):
        answer = there.request(method, f"/api/v1{path}", json={} if method == "POST" else None)
        assert answer.status_code == 403
        assert "only the computer" in answer.json()["detail"]
    assert there.get("/api/v1/library").status_code == 200
    assert here.post("/api/v1/phone/disconnect", json={}).json()["phones"] == 0
    assert there.get("/api/v1/library").status_code == 401


def test_sessions_are_few(phones):
    sessions = []
    for _ in range(phone.MAX_PHONES + 1):
        sessions.append(phones.connect(phones.new_code().rpartition("=")[2]))
    has = [phones.is_connected(Headers({"cookie": f"{COOKIE}={one}"})) for one in sessions]
    assert has == [False] + [True] * phone.MAX_PHONES


def test_without_the_option_phones_are_unknown(client):
    assert client.get("/api/v1/phone").json()["enabled"] is False
    for path in ("/phone/code", "/phone/disconnect"):
        assert client.post(f"/api/v1{path}", json={}).status_code == 404
    assert client.get("/api/v1/phone/qr").status_code == 404
    assert client.post("/api/v1/phone/connect", json={"code": "x"}).status_code == 404


def test_the_picture_has_the_link(sides, phones):
    """Draw the modules and compare them with those of the text form."""
    _, here = sides
    code_of(here)
    answer = here.get("/api/v1/phone/qr")
    assert answer.headers["content-type"] == "image/svg+xml"
    assert b"<script" not in answer.content
    import segno

    link = phones.state().link
    expected = segno.make(link, error="m", micro=False)
    picture = io.BytesIO()
    expected.save(picture, kind="svg", border=4, scale=6, light="#fff", xmldecl=False)
    assert answer.content == picture.getvalue()
    text = phone.qr_text(link)
    assert len(np.unique([*text])) >= 4


def test_the_service_listens_on_loopback_only_without_the_option(serve, photos):
    import subprocess

    running = serve(command=["open", photos, "--no-browser"])
    listening = subprocess.run(["ss", "-ltn"], capture_output=True, text=True, check=False).stdout
    mine = [line.split()[3] for line in listening.splitlines() if line.split()[3:4]]
    mine = [one for one in mine if one.endswith(f":{running.port}")]
    assert mine in ([f"127.0.0.1:{running.port}"], [])  # empty without the program ss
