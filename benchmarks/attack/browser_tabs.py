"""Two tabs that decide, undo and redo at random in one library, over HTTP.

In half of the rounds the tabs alternate at random, and after each step the library is compared with
a reference: a list of decisions of which the last one that is not undone counts. In the other half
both tabs run concurrently on the same pictures and tags, so that they override each other. Each
response to undo and redo must be of the tab's own batch, or 409; and after both have undone all
their batches, the library must be as before.
"""

from __future__ import annotations

import random
import shutil
import tempfile
import threading
import time
from collections import Counter
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.attack.concurrent_writers import Client
from benchmarks.attack.runner import Found
from benchmarks.attack.sigkill import PICTURES, collection
from benchmarks.service.server import serving
from prototag import Library

ROUND = 200  # steps of both tabs together
TAGS = ("left", "right")
VERDICTS = ("accepted", "rejected", "cleared")
CONFLICT = 409

Pair = tuple[int, str]
State = dict[Pair, str]  # what stands of each pair: accepted or rejected


class Wrong(AssertionError):
    """Wrong response, or wrong state of the library."""


class Entry(NamedTuple):
    """A decision of the reference."""

    batch: int
    pair: Pair
    verdict: str


class Reference:
    """Reference of the library: decisions in their order, and which of them are undone."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.undone: set[Entry] = set()

    def state(self) -> State:
        verdicts: State = {}
        for entry in self.entries:
            if entry not in self.undone:
                verdicts[entry.pair] = entry.verdict
        return {pair: verdict for pair, verdict in verdicts.items() if verdict != "cleared"}

    def decide(self, batch: int | None, given: dict[Pair, str]) -> None:
        now = self.state()
        changes = [
            Entry(batch or 0, pair, verdict)
            for pair, verdict in given.items()
            if now.get(pair, "cleared") != verdict
        ]
        if bool(changes) != (batch is not None):
            raise Wrong(f"{len(changes)} decisions change something, and the batch is {batch}")
        self.entries += changes

    def change(self, batch: int, is_undo: bool) -> set[Pair]:
        """The pairs of a batch that undo or redo changes."""
        now, changed = self.state(), set()
        for place, entry in enumerate(self.entries):
            if entry.batch != batch or (entry in self.undone) == is_undo:
                continue
            later = self.entries[place + 1 :]
            if any(one.pair == entry.pair and one not in self.undone for one in later):
                continue
            if not is_undo and now.get(entry.pair, "cleared") == entry.verdict:
                continue
            changed.add(entry)
        self.undone = self.undone | changed if is_undo else self.undone - changed
        return {entry.pair for entry in changed}


class Tab:
    """One client, with the undo stack of a tab of the page."""

    def __init__(self, port: int, seed: int, pictures: int) -> None:
        self._client, self.rng = Client(port), random.Random(seed)
        self._pictures = range(1, pictures + 1)
        self.done: list[int] = []
        self.undone: list[int] = []
        self.pairs: dict[int, set[Pair]] = {}  # of each batch of this tab
        self.answers = Counter[str]()

    def close(self) -> None:
        self._client.close()

    def step(self, reference: Reference | None = None) -> None:
        """Decide, undo or redo."""
        action = self.rng.choice(("decide", "decide", "undo", "undo", "redo"))
        if action == "decide":
            self._decide(reference)
        elif action == "undo" and self.done:
            self._change("undo", self.done, self.undone, reference)
        elif action == "redo" and self.undone:
            self._change("redo", self.undone, self.done, reference)

    def _decide(self, reference: Reference | None) -> None:
        pictures = self.rng.sample(self._pictures, self.rng.randint(1, 3))
        given = {
            (one, tag): self.rng.choice(VERDICTS)
            for one in pictures
            for tag in self.rng.sample(TAGS, self.rng.randint(1, 2))
        }
        decisions = [
            {"picture": picture, "tag": tag, "verdict": verdict}
            for (picture, tag), verdict in given.items()
        ]
        status, answer = self._client.post("/decisions", {"decisions": decisions})
        if status != 201 or (answer["changed"] == 0) != (answer["batch"] is None):
            raise Wrong(f"decisions were answered {status}: {answer}")
        self.answers["decisions"] += 1
        if (batch := answer["batch"]) is not None:
            if batch in self.pairs:
                raise Wrong(f"batch {batch} was given twice")
            self.pairs[batch] = set(given)
            self.done.append(batch)
            self.undone.clear()
        if reference is not None:
            reference.decide(batch, given)

    def _change(
        self, verb: str, source: list[int], target: list[int], reference: Reference | None
    ) -> None:
        batch = source.pop()
        status, answer = self._client.post(f"/{verb}", {"batch": batch})
        if status not in (200, CONFLICT):
            raise Wrong(f"{verb} of batch {batch} was answered {status}: {answer}")
        changed = set[Pair]()
        if status == 200:
            decisions = [*answer["decisions"], *answer["overridden"]]
            if {one["batch"] for one in decisions} != {batch}:
                raise Wrong(f"{verb} of batch {batch} means other batches: {answer}")
            changed = {(one["picture"], one["tag"]) for one in answer["decisions"]}
            if not changed <= self.pairs[batch]:
                raise Wrong(f"{verb} of batch {batch} changed what is not this tab's: {answer}")
            target.append(batch)
        self.answers[f"{verb}: {status}"] += 1
        if reference is not None:
            expected = reference.change(batch, verb == "undo")
            if expected != changed:
                raise Wrong(f"{verb} of batch {batch} changed {changed}, not {expected}")

    def undo_what_stands(self) -> bool:
        """Undo all batches of this tab, the last first; return whether any was undone."""
        answers = [
            self._client.post("/undo", {"batch": batch})[0] for batch in sorted(self.pairs)[::-1]
        ]
        if not {*answers} <= {200, CONFLICT}:
            raise Wrong(f"undo was answered {answers}")
        return 200 in answers


def state(library: Path, pictures: int) -> State:
    """Return the verdicts of the pairs that tabs decide on; raise an error if they are damaged."""
    with Library(library, cache=None) as opened:
        if damage := opened.check():
            raise Wrong(f"damaged: {damage[0]}")
        verdicts: State = {}
        for number in range(1, pictures + 1):
            view = opened.picture(number)
            for verdict, names in (("accepted", view.accepted), ("rejected", view.rejected)):
                verdicts |= {(number, name): verdict for name in names if name in TAGS}
    return verdicts


def in_turn(tabs: list[Tab], steps: int, rng: random.Random, library: Path, pictures: int) -> None:
    """Alternate the steps of two tabs and compare each response with the reference."""
    reference = Reference()
    for number in range(steps):
        rng.choice(tabs).step(reference)
        if number % 20 == 0 or number == steps - 1:
            stored = state(library, pictures)
            if stored != reference.state():
                raise Wrong(f"after step {number} {stored} stands, not {reference.state()}")
    give_back(tabs, library, pictures)


def at_once(tabs: list[Tab], steps: int, library: Path, pictures: int) -> None:
    """Run both tabs concurrently; then each undoes its own batches."""
    wrong: list[BaseException] = []

    def work(tab: Tab) -> None:
        try:
            for _ in range(steps // len(tabs)):
                tab.step()
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(tab,)) for tab in tabs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if wrong:
        raise wrong[0]
    state(library, pictures)
    give_back(tabs, library, pictures)


def give_back(tabs: list[Tab], library: Path, pictures: int) -> None:
    """Undo all batches, each tab its own; no decision may remain."""
    while sum(tab.undo_what_stands() for tab in tabs):
        pass
    if left := state(library, pictures):
        raise Wrong(f"all is undone, and {left} stands")


def one_round(
    template: Path, root: Path, steps: int, seed: int, is_at_once: bool, answers: Counter[str]
) -> None:
    """Two tabs of one service."""
    folder = root / "round"
    shutil.copytree(template, folder)
    library, rng = folder / "prototag.library", random.Random(seed)
    few = 6  # pictures, so that the tabs meet
    try:
        with serving(library, "--cache", root / "cache.sqlite") as service:
            tabs = [Tab(service.port, rng.randrange(1 << 30), few) for _ in range(2)]
            if is_at_once:
                at_once(tabs, steps, library, few)
            else:
                in_turn(tabs, steps, rng, library, few)
            for tab in tabs:
                tab.close()
        for tab in tabs:
            answers += tab.answers
        if left := state(library, few):
            raise Wrong(f"after the service has ended {left} stands")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run(count: int, seed: int, seconds: float) -> Found:
    """Run ``count`` steps of two tabs, in rounds."""
    began, findings = time.monotonic(), list[dict[str, Any]]()
    answers = Counter[str]()
    root = Path(tempfile.mkdtemp(prefix="prototag-attack-"))
    try:
        template = root / "made"
        template.mkdir()
        collection(template)
        with Library.create(template, crops="fast", cache=None) as library:
            library.scan()
            library.accept([PICTURES], TAGS)  # only tags that are known can be rejected
        done, kinds = 0, cycle(("in turn", "at once"))
        while done < count and time.monotonic() - began < seconds:
            size, kind = min(ROUND, count - done), next(kinds)
            wrong = ""
            try:
                one_round(template, root, size, seed + done, kind == "at once", answers)
            except Exception as error:
                wrong = f"{type(error).__name__}: {error}"[:300]
            done += size
            answers[f"{kind}: {'wrong' if wrong else 'each its own'}"] += 1
            if wrong:
                findings.append({"attempt": done, "what": wrong, "where": kind, "times": 1})
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return Found(done, dict(answers), findings, round(time.monotonic() - began, 1))
