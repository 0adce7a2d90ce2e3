"""Several clients, services and processes on one library."""

from __future__ import annotations

import json
import os
import random
import threading
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from benchmarks.attack import browser_tabs

import tagged
from prototag import Library

DECISIONS = 30  # through each service


def post(address, path, body):
    request = urllib.request.Request(
        f"{address.rstrip('/')}/api/v1{path}",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


@pytest.fixture
def learned(tmp_path):
    """A library of thirty pictures, which has learned."""
    tagged.collection(tmp_path / "collection", 30)
    with Library.create(tmp_path / "collection", crops="fast", cache=None) as library:
        library.scan()
        library.learn()
        return library.path


def names(library):
    """The files of an open library by their own names, as hard links and as symbolic links."""
    found = []
    for tail in ("", "-wal", "-shm"):
        file = Path(f"{library}{tail}")
        hard, soft = (library.with_name(f"{kind}{tail}.jpg") for kind in ("hard", "soft"))
        os.link(file, hard)
        soft.symlink_to(file)
        found += [file.name, hard.name, soft.name]
    return found


def test_nothing_is_lost_where_clients_name_the_files_of_the_library(serve, learned, tmp_path):
    folder = learned.parent
    command = ["serve", learned, "--allow", folder, "--cache", tmp_path / "cache.sqlite"]
    first, second = serve(command=command), serve(command=command)
    named, acknowledged, wrong = names(learned), set(), []

    def name_files(address):
        for number in range(4 * len(named)):
            operation = ("/annotate", "/similar", "/explain", "/scan")[number % 4]
            body = {} if operation == "/scan" else {"path": named[number % len(named)]}
            status, answer = post(address, operation, body)
            if operation == "/scan":
                if status not in (202, 409):
                    wrong.append((status, answer))
            elif status != 403 or "belongs to the library" not in answer["detail"]:
                wrong.append((status, answer))

    def decide(address, name, numbers):
        for number in numbers:
            one = {"picture": 1 + number % 12, "tag": f"{name} {number}", "verdict": "accepted"}
            status, answer = post(address, "/decisions", {"decisions": [one]})
            if status == 201 and answer["changed"] == 1:
                acknowledged.add((one["picture"], one["tag"]))
            else:
                wrong.append((status, answer))

    work = [threading.Thread(target=name_files, args=(one.address,)) for one in (first, second)]
    work += [
        threading.Thread(target=decide, args=(one.address, name, range(DECISIONS)))
        for one, name in ((first, "first"), (second, "second"))
    ]
    for thread in work:
        thread.start()
    for thread in work:
        thread.join()
    # The second would take the write-ahead log away if it saw no locks of the first.
    assert second.stop() == 0
    assert Path(f"{learned}-wal").exists()
    decide(first.address, "first", range(DECISIONS, 2 * DECISIONS))
    assert first.stop() == 0
    assert not wrong
    with Library(learned, cache=None) as library:
        assert library.check() == []
        assert acknowledged == {
            (one.picture, one.tag) for one in library.history(1000) if not one.undone
        }
    assert len(acknowledged) == 3 * DECISIONS


@pytest.mark.parametrize("is_at_once", [False, True])
def test_two_tabs_decide_and_undo_at_random(serve, learned, is_at_once):
    """Over real HTTP: each client undoes its own batches, and all undone is as before."""
    with Library(learned, cache=None) as library:
        library.accept([12], browser_tabs.TAGS)  # only tags that are known can be rejected
    service = serve(command=["serve", learned, "--cache", learned.with_name("cache.sqlite")])
    two = [browser_tabs.Tab(service.port, seed, 4) for seed in (1, 2)]
    if is_at_once:
        browser_tabs.at_once(two, 100, learned, 4)
    else:
        browser_tabs.in_turn(two, 100, random.Random(3), learned, 4)
    for tab in two:
        tab.close()
    assert sum(tab.answers["undo: 200"] for tab in two) > 10
    assert sum(tab.answers["redo: 200"] for tab in two) > 2
    assert service.stop() == 0
