"""The service without labels: general words, decisions on them, and search."""

from __future__ import annotations

import threading

import pytest

from library.conftest import RECIPE, plant
from library.test_general_suggestions import BEACH, PICTURES, vectors
from prototag.knowledge import words
from prototag.library.library import Library
from prototag.service.idle_release import IdleRelease
from service.test_collection import get, post


@pytest.fixture(scope="module")
def X():
    return vectors()


@pytest.fixture
def library(tmp_path, X):
    plant(tmp_path / "words.library", PICTURES, vectors=X)
    with Library(tmp_path / "words.library", cache=None, n_jobs=1) as made:
        made.store.set_setting("recipe", RECIPE.hex())
        yield made


@pytest.fixture
def client(served, library):
    yield served(library=library, annotator=None, headers={"Accept-Language": "de-CH,en;q=0.7"})
    words.keep_encoder(False)


def test_general_words_are_in_the_language_of_the_browser(client, library):
    body = get(client, "/general-words").json()
    assert body["available"] is True
    assert {"Strand", "Hund"} <= {one["word"] for one in body["words"]}
    picture = get(client, f"/pictures/{BEACH[0]}", described="/pictures/{picture}").json()
    assert "Strand" in {one["tag"] for one in picture["suggestions"]}
    every = get(client, "/suggestions", limit=5).json()["suggestions"]
    assert len(every) == 5
    library.set_setting("language", "es")
    assert "playa" in {one["word"] for one in get(client, "/general-words").json()["words"]}


def test_a_new_tag_is_reviewed_by_its_name_and_by_decisions(client):
    batch = post(client, "/review-batch", {"tag": "Strand", "limit": 20}, 200)
    assert batch["ranked_by_name"] is True
    assert batch["threshold"] == 1
    pictures = [cell["picture"] for cell in batch["cells"]]
    assert len({*pictures} & {*BEACH}) >= 18
    pairs = [{"picture": p, "tag": "Strand", "verdict": "rejected"} for p in pictures[:1]]
    post(client, "/decisions", {"decisions": pairs}, 404)  # no such tag
    post(client, "/decisions", {"decisions": pairs, "new": True}, 201)
    pairs = [{"picture": p, "tag": "Strand", "verdict": "accepted"} for p in pictures[1:4]]
    post(client, "/decisions", {"decisions": pairs}, 201)
    batch = post(client, "/review-batch", {"tag": "Strand", "limit": 20}, 200)
    assert batch["ranked_by_name"] is False
    assert not {*pictures[:4]} & {cell["picture"] for cell in batch["cells"]}
    general = post(client, "/review-batch", {"queue": "general_words"}, 200)
    assert not {(p, "Strand") for p in pictures[:4]} & {
        (cell["picture"], cell["tag"]) for cell in general["cells"]
    }


def test_search(client, library):
    found = get(client, "/search", query="perros en la playa", limit=40).json()
    assert found["n_matches"] == 0
    assert len({*found["pictures"]} & {*BEACH}) >= 15
    library.accept([77], ["playa"])
    found = get(client, "/search", query="playa", limit=3).json()
    assert found["n_matches"] == 1
    assert found["pictures"][0] == 77
    like = get(client, "/search", like=BEACH[0], limit=20).json()["pictures"]
    assert len({*like} & {*BEACH}) >= 15
    get(client, "/search", 400, query="x" * 501)


def test_memory_is_released_after_idle_time():
    released = threading.Event()
    idle = IdleRelease(released.set, idle_s=0.2)
    idle.mark_used()
    assert not released.wait(0.05)
    assert released.wait(5)
    released.clear()
    idle.mark_used()
    idle.close()
    assert not released.wait(0.4)
