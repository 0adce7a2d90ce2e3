"""Review batches, picture numbers, pages without inline scripts, background training."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

import tagged
from history import undo_last
from prototag import Library
from prototag.library import review
from prototag.service.routes import pages
from service.test_collection import get, post

STATIC = Path(pages.HERE) / "static"


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """Forty pictures with tags, forty without, and a model of them."""
    folder = tmp_path_factory.mktemp("learned") / "photos"
    tagged.collection(folder, 40)
    tagged.collection(folder, 40, start=40, listed=False)
    with Library.create(folder, crops="fast", cache=None) as library:
        library.scan()
        library.learn()
        yield library


@pytest.fixture
def client(served, learned):
    return served(library=learned, annotator=None)


def test_a_review_batch_of_a_tag(client, learned):
    found = post(client, "/review-batch", {"tag": "red", "limit": 5}, 200)
    assert 0 < len(found["cells"]) <= 5
    assert 0 < found["threshold"] <= 1
    shares = [cell["probability"] for cell in found["cells"]]
    assert shares == sorted(shares, reverse=True)
    for cell in found["cells"]:
        assert cell["tag"] == "red"
        assert cell["picture"] in cell["stack"]
        assert cell["name"] == learned.picture(cell["picture"]).files[0].name
        for picture in cell["stack"]:
            assert "red" not in learned.picture(picture).tags
    seen = {cell["picture"] for cell in found["cells"]}
    assert not seen & {*found["prefetch"]}
    skipped = post(client, "/review-batch", {"tag": "red", "limit": 5, "skip": [*seen]}, 200)
    assert not seen & {cell["picture"] for cell in skipped["cells"]}


def test_a_stack_leaves_out_what_is_decided(client, learned):
    found = post(client, "/review-batch", {"tag": "blue", "limit": 40}, 200)
    stacks = [cell["stack"] for cell in found["cells"] if len(cell["stack"]) > 2]
    if not stacks:
        pytest.skip("no pictures of this collection look alike")
    learned.reject(stacks[0][1:2], ["blue"])
    again = post(client, "/review-batch", {"tag": "blue", "limit": 40}, 200)
    assert all(stacks[0][1] not in cell["stack"] for cell in again["cells"])
    undo_last(learned)


@pytest.mark.parametrize("queue", ["most_informative", "likely_missing", "likely_wrong"])
def test_queues(client, queue):
    found = post(client, "/review-batch", {"queue": queue}, 200)
    assert len(found["cells"]) <= 40


def test_a_review_batch_needs_a_tag_or_a_queue(client):
    post(client, "/review-batch", {}, 400)
    post(client, "/review-batch", {"tag": "red", "queue": "most_informative"}, 400)
    post(client, "/review-batch", {"tag": "no such tag"}, 404)
    post(client, "/review-batch", {"queue": "another"}, 400)


def test_an_odd_tag_is_doubted_until_it_is_confirmed(learned):
    """A picture that is said to be red and is green is among the first to be doubted."""
    doubted = review.likely_wrong(learned.trainer, 40, set())
    for one in doubted:
        assert one.tag in learned.picture(one.picture).tags
    if doubted:
        learned.accept([doubted[0].picture], [doubted[0].tag])
        again = review.likely_wrong(learned.trainer, 40, set())
        assert doubted[0][:2] not in [one[:2] for one in again]
        undo_last(learned)


def test_missing_tags_are_of_tagged_pictures(learned):
    for one in review.likely_missing(learned.store, 40, set()):
        view = learned.picture(one.picture)
        assert view.tags
        assert one.tag not in view.tags


def test_all_numbers(client):
    assert get(client, "/search", limit=1_000_000).json()["pictures"] == [*range(1, 81)]
    red = get(client, "/search", tag="red").json()["pictures"]
    assert red == get(client, "/pictures", tag="red", limit=1000).json()["pictures"]
    assert get(client, "/search", query="red -striped").json()["pictures"] == [
        one for one in red if one not in get(client, "/search", tag="striped").json()["pictures"]
    ]
    assert get(client, "/search", order="newest", limit=3).json()["pictures"] == [80, 79, 78]
    for wrong in ({"state": "odd"}, {"order": "odd"}, {"order": "likeness"}, {"date": "May"}):
        get(client, "/search", 400, **wrong)
    for area in ("1,2,3", "1,2,3,x", "1,2,3,4,5"):
        get(client, "/search", 400, area=area)
    assert get(client, "/search", area="-90,-180,90,180").json()["pictures"] == []


def test_facets_within_a_filter(client):
    every = get(client, "/facets").json()
    assert every["pictures"] == 80
    few = get(client, "/facets", query="red", without="striped").json()
    assert few["pictures"] == few["tags"]["red"] < every["tags"]["red"]
    assert "striped" not in few["tags"]


def test_saved_searches(client):
    assert get(client, "/searches").json() == {"searches": []}
    one = {"name": "To do", "address": "state=untagged"}
    assert post(client, "/searches", one, 200) == {"searches": [one]}
    assert post(client, "/searches/delete", {"name": "To do"}, 200) == {"searches": []}
    post(client, "/searches/delete", {"name": "To do"}, 404)
    post(client, "/searches", {"name": "", "address": ""}, 400)


def test_a_decision_is_learned_by_itself(client, learned):
    cell = post(client, "/review-batch", {"tag": "green"}, 200)["cells"][0]
    body = {"picture": cell["picture"], "tag": "green", "verdict": "accepted"}
    made = post(client, "/decisions", {"decisions": [body]}, 201)

    def is_known():
        with learned.store.read() as conn:
            row = conn.execute(
                "SELECT label_changes, suggested_changes FROM tags WHERE name = 'green'"
            )
            changed, suggested = row.fetchone()
        return changed == suggested

    until = time.monotonic() + 20
    while not is_known():
        assert time.monotonic() < until
        time.sleep(0.05)
    post(client, "/undo", {"batch": made["batch"]}, 200)


@pytest.mark.parametrize("path", ["/", "/review?tag=red", "/picture/3", "/library", "/training"])
def test_pages_have_nothing_inline(client, path):
    answer = client.get(path)
    assert answer.status_code == 200
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert not re.search(r"<style|<script(?![^>]*src=)| style=| on\w+=|javascript:", answer.text)
    for address in re.findall(r'(?:src|href)="(/static/[^"]+)"', answer.text):
        fetched = client.get(address)
        assert fetched.status_code == 200, address
        assert fetched.headers["cache-control"] == "no-cache"


def test_a_picture_that_is_no_number_has_no_page(client):
    assert client.get("/picture/x").status_code == 404


def test_without_a_library_the_page_shows_a_message(served):
    assert "has no library" in served().get("/").text


def test_scripts_ask_nobody_else():
    for file in STATIC.rglob("*"):
        if file.is_file():
            text = file.read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
            assert not re.search(r"https?://|//[\w.]+\.\w+/", text), file
            assert "innerHTML" not in text
            assert "eval(" not in text


def test_every_import_of_a_script_exists():
    for file in STATIC.rglob("*.js"):
        for name in re.findall(r'from "(\.[^"]+)"|import\("(\.[^"]+)"\)', file.read_text("utf-8")):
            assert (file.parent / "".join(name)).exists(), (file, name)


def test_the_colours_are_those_of_the_reports():
    style = pages.colours()
    assert "--accent:#0b5fa5" in style
    assert "prefers-color-scheme:dark" in style
    used = {
        name
        for file in STATIC.glob("*.css")
        for name in re.findall(r"var\(--([\w-]+)\)", file.read_text("utf-8"))
    }
    assert all(f"--{name}:" in style for name in used)
