"""Actions that a person needs from an empty library of untagged photographs to tags in files.

    python -m benchmarks.service.usability PHOTOGRAPHS

PHOTOGRAPHS is a folder with a metadata.jsonl, whose tags are the truth. Its pictures are copied
without it and filled up to 300 with embedded clip art. A scripted person in Chromium, who knows the
truth, tags ten words and writes them to sidecars; in a second run the person misjudges one picture
in a hundred. Every key and every click counts as 1.2 seconds. Written to
benchmarks/results/service_usability.json.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from playwright.sync_api import Locator, Page, sync_playwright

from benchmarks.machine import stamp
from prototag import metadata
from prototag.research.datasets import unpack_clipart

TARGET = Path(__file__).parents[1] / "results" / "service_usability.json"
PICTURES = 300
TAGS = 10
NOT_VISIBLE = {"front", "middle", "view"}  # words of the truth that no one would search for
SECONDS_PER_ACTION = 1.2
MISTAKES = (0.0, 0.01)  # shares of pictures that the person misjudges, a run for each
MAX_BATCHES = 3  # of one tag
REJECTED_AT_FIRST = 5  # wrong pictures of a first batch that are rejected
LIMITS = {"minutes": 12, "precision": 0.95}


class Person:
    """A person who counts the own actions."""

    def __init__(self, page: Page, truth: dict[int, set[str]], mistakes: float) -> None:
        self.page = page
        self.truth = truth
        self.mistakes = mistakes
        self.actions: Counter[str] = Counter()
        self._rng = random.Random(0)

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)
            self.actions["keys"] += 1

    def write(self, text: str) -> None:
        self.page.keyboard.type(text)
        self.actions["keys"] += len(text)

    def select(self, cells: Iterable[Locator]) -> bool:
        """Select cells by clicks; return whether there is any."""
        count = 0
        for cell in cells:
            cell.click(modifiers=["Control"] if count else [])
            count += 1
        self.actions["clicks"] += count
        return bool(count)

    def thinks(self, picture: int, tag: str) -> bool:
        return (tag in self.truth[picture]) != (self._rng.random() < self.mistakes)


def tag_pictures(person: Person, tag: str) -> int:
    """Add a tag to pictures, batch by batch; return how many batches were reviewed."""
    page = person.page
    person.press("n")
    page.get_by_role("dialog").wait_for()
    person.write(tag)
    person.press("Enter")
    for batch in range(MAX_BATCHES):
        page.locator(".actions-bar .main:enabled").or_(page.locator(".end h2")).first.wait_for()
        if page.locator(".end h2").is_visible():
            return batch
        found = review(person, tag, is_first=batch == 0)
        shown = page.locator(".batch img").first.get_attribute("src")
        person.press("Enter")
        page.wait_for_function(
            "(shown) => document.querySelector('.end:not([hidden])') || "
            "document.querySelector('.batch img')?.getAttribute('src') !== shown",
            arg=shown,
        )
        if found < 2:
            return batch + 1
    return MAX_BATCHES


def review(person: Person, tag: str, *, is_first: bool) -> int:
    """Answer one batch; return how many of its pictures have the tag."""
    cells = person.page.locator(".batch [role=option]").all()
    numbers = [
        int(cell.locator("img").get_attribute("src").split("/")[4])  # type: ignore[union-attr]
        for cell in cells
    ]
    right = [person.thinks(number, tag) for number in numbers]
    ticked = ["certain" in (cell.get_attribute("class") or "") for cell in cells]
    pairs = list(zip(cells, right, ticked, strict=True))
    if person.select(cell for cell, is_right, is_ticked in pairs if is_right and not is_ticked):
        person.press("a")
    wrong = [cell for cell, is_right, is_ticked in pairs if is_ticked and not is_right]
    if is_first:
        wrong += [cell for cell, is_right, _ in pairs if not is_right][:REJECTED_AT_FIRST]
    if person.select(wrong):
        person.press("x")
    return sum(right)


def collection(photographs: Path, folder: Path) -> dict[str, set[str]]:
    """Copy photographs and clip art without their tags; return the truth by file name."""
    rows = [json.loads(line) for line in (photographs / "metadata.jsonl").open(encoding="utf-8")]
    truth = {row["file_name"]: set(row["tags"]) for row in rows}
    folder.mkdir(parents=True)
    for name in truth:
        shutil.copy(photographs / name, folder / name)
    with tempfile.TemporaryDirectory() as scratch:
        unpack_clipart(Path(scratch) / "art", "train")
        art = metadata.collect(Path(scratch) / "art")
        for image, tags in list(zip(art.images, art.tags, strict=True))[: PICTURES - len(truth)]:
            name = f"art-{image.name}"
            shutil.copy(image, folder / name)
            truth[name] = set(tags)
    return truth


def ask(address: str, path: str) -> Any:
    with urllib.request.urlopen(f"{address}/api/v1{path}") as answer:
        return json.load(answer)


def run(
    address: str, folder: Path, truth: dict[str, set[str]], tags: list[str], mistakes: float
) -> dict[str, Any]:
    """Let the person work, and judge the sidecars."""
    began = time.monotonic()
    while (status := ask(address, "/library"))["unread"] or status["pictures"] < len(truth):
        time.sleep(0.5)
    while any(job["state"] == "running" for job in ask(address, "/jobs")["jobs"]):
        time.sleep(0.5)
    scanned = time.monotonic() - began
    by_number = {
        number: truth[Path(ask(address, f"/pictures/{number}")["files"][0]).name]
        for number in ask(address, "/pictures?limit=1000")["pictures"]
    }
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.set_default_timeout(120_000)
        person = Person(page, by_number, mistakes)
        page.goto(address)
        page.get_by_role("heading", name="Tags", exact=True).wait_for()
        page.wait_for_timeout(1000)
        began = time.monotonic()
        batches = 0
        for tag in tags:
            batches += tag_pictures(person, tag)
            person.press("Escape")
            page.get_by_role("heading", name="Tags", exact=True).wait_for()
        write_tags(person, folder)
        elapsed = time.monotonic() - began
        browser.close()
    actions = sum(person.actions.values())
    return {
        "actions": dict(person.actions),
        "minutes": round(actions * SECONDS_PER_ACTION / 60, 2),
        "batches": batches,
        "minutes_of_the_script": round(elapsed / 60, 2),
        "seconds_of_the_scan": round(scanned),
        **judge(folder, truth, tags),
    }


def write_tags(person: Person, folder: Path) -> None:
    """Write the accepted tags, after a look at what would be written."""
    person.press("g", "h", "w")
    button = person.page.locator(".card button.main", has_text="Write")
    button.wait_for()
    person.press("Enter")
    deadline = time.monotonic() + 120
    count = -1
    while time.monotonic() < deadline:
        written = len([*folder.glob("*.xmp")])
        if written and written == count:
            return
        count = written
        time.sleep(2)


def judge(folder: Path, truth: dict[str, set[str]], tags: list[str]) -> dict[str, Any]:
    """Compare the tags in the sidecars with the truth."""
    for name in ("metadata.jsonl", "metadata.csv"):
        assert not (folder / name).exists()
    found = metadata.collect(folder, kind="xmp")
    written = {
        (image.name, tag)
        for image, own in zip(found.images, found.tags, strict=True)
        for tag in own
    }
    right = {(name, tag) for name, own in truth.items() for tag in own if tag in tags}
    return {
        "written": len(written),
        "tags_written": len({tag for _, tag in written}),
        "precision": round(len(written & right) / max(len(written), 1), 4),
        "share_of_the_truth": round(len(written & right) / len(right), 4),
    }


def from_empty(photographs: Path, work: Path, mistakes: float) -> dict[str, Any]:
    """Start with an empty library and return what the person needed."""
    folder = work / "photographs"
    truth = collection(photographs, folder)
    counts = Counter(
        tag
        for name, own in truth.items()
        for tag in own - NOT_VISIBLE
        if not name.startswith("art-")
    )
    tags = [tag for tag, _ in counts.most_common(TAGS)]
    command = [sys.executable, "-m", "prototag", "open", str(folder), "--no-browser"]
    command += ["--cache", str(work / "vectors")]
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"}
    )
    assert process.stderr is not None
    try:
        line = ""
        while "http://" not in line:
            line = process.stderr.readline()
        address = line[line.index("http://") :].split()[0].rstrip("/")
        result = run(address, folder, truth, tags, mistakes)
    finally:
        process.terminate()
        process.wait(60)
    photographed = sum(not name.startswith("art-") for name in truth)
    return {
        "pictures": {
            "photographs of IAPRTC-12": photographed,
            "embedded clip art": len(truth) - photographed,
        },
        "tags": tags,
        **result,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("photographs", type=Path)
    given = parser.parse_args()
    results = {}
    for mistakes in MISTAKES:
        with tempfile.TemporaryDirectory() as work:
            results[f"{mistakes:.0%} misjudged"] = from_empty(
                given.photographs, Path(work), mistakes
            )
    record = {
        "machine": stamp(0, "playwright", "starlette", "uvicorn"),
        "limits": LIMITS,
        "seconds_per_action": SECONDS_PER_ACTION,
        "results": results,
    }
    TARGET.write_text(json.dumps(record, indent=2) + "\n")
    print(json.dumps(record, indent=2))


if __name__ == "__main__":
    main()
