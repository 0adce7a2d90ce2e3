"""Latency of the review page in Chromium with a scripted person who knows the true tags.

    python -m benchmarks.service.page_latency [--quick] [--work FOLDER]

The library is planted and has learned; making it takes minutes, and it is kept in the folder of
work, if one is given. The page measures itself, from the key press to the paint after all pictures
concerned are decoded (static/perf.js). Written to benchmarks/results/service_pages.json.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Page, sync_playwright

from benchmarks.machine import stamp

from .server import serving
from .synthetic_library import TAUGHT, pictures_with, plant

TARGET = Path(__file__).parents[1] / "results" / "service_pages.json"
LIMITS_P95_MS = {
    "a decision on a batch": 30,
    "next batch of 40, after answering one": 150,
    "open large": 80,
    "next large picture": 80,
    "search": 150,
}
PACE = 250  # milliseconds between two key presses of somebody who looks
FAST = 120  # of somebody who decides as fast as the keyboard allows
ROUNDS = 60
QUERIES = ("img_0001", "tag", "dog on a beach", "boats", "img_019", "snow", "red car", "img_012")


def measured(page: Page, name: str) -> list[float]:
    """Return and clear the measured milliseconds."""
    values = page.evaluate(
        "(name) => { const all = performance.getEntriesByName(name).map((one) => one.duration);"
        " performance.clearMeasures(name); return all; }",
        f"prototag {name}",
    )
    return [float(value) for value in values]


def quantiles(values: list[float]) -> dict[str, float]:
    at = np.percentile(values, [50, 95, 100]).round(1).tolist()
    return {"rounds": len(values), "median_ms": at[0], "p95_ms": at[1], "most_ms": at[2]}


def press(page: Page, key: str, rounds: int, pause: int = PACE) -> None:
    for _ in range(rounds):
        page.keyboard.press(key)
        page.wait_for_timeout(pause)


def run(
    page: Page, address: str, tags: list[str], truth: dict[str, set[int]], rounds: int
) -> dict[str, Any]:
    """Measure the frequent actions of the page."""
    result: dict[str, Any] = {}
    page.goto(f"{address}/review?tag={tags[0]}")
    page.locator("[role=option]:focus").wait_for(timeout=600_000)
    waited = page.evaluate("performance.now()")
    result["first batch, while the model is loaded"] = {"ms": round(waited)}
    page.goto(f"{address}/review?tag={tags[0]}&order=informative")
    page.locator("[role=option]:focus").wait_for(timeout=600_000)
    waited += page.evaluate("performance.now()")
    result["until the model is loaded"] = {"ms": round(waited)}
    result |= step_through_pictures(page, address, rounds)
    result |= review(page, address, tags, truth, rounds)
    result |= search(page, address)
    page.goto(f"{address}/library")
    page.locator(".virtual [role=option]:focus").wait_for(timeout=60_000)
    began = page.evaluate("performance.now()")
    result["library of all pictures, from the start"] = {"ms": round(began, 1)}
    return result


def step_through_pictures(page: Page, address: str, rounds: int) -> dict[str, Any]:
    """Measure stepping from picture to picture."""
    result: dict[str, Any] = {}
    page.goto(f"{address}/picture/8000")
    page.locator(".suggestions li").first.wait_for()
    page.wait_for_timeout(1500)
    press(page, "ArrowRight", rounds)
    result["next picture, four a second"] = quantiles(measured(page, "picture"))
    press(page, "ArrowRight", rounds, 60)
    page.wait_for_timeout(500)
    result["next picture, a key held down"] = quantiles(measured(page, "picture"))
    return result


def review(
    page: Page, address: str, tags: list[str], truth: dict[str, set[int]], rounds: int
) -> dict[str, Any]:
    """Answer batches by the truth, with every second batch partly in large pictures."""
    batches: list[float] = []
    large: dict[str, list[float]] = {"open large": [], "next large picture": []}
    behind = 0
    shown = 0
    for tag in tags:
        page.goto(f"{address}/review?tag={tag}")
        page.locator("[role=option]:focus").wait_for(timeout=120_000)
        page.wait_for_timeout(1500)
        measured(page, "batch")
        for number in range(max(2, rounds // 10)):
            if number % 2:
                for _ in range(4):
                    page.keyboard.press("o")
                    page.wait_for_timeout(PACE)
                    press(page, "ArrowRight", 2)
                    page.keyboard.press("Escape")
                    page.wait_for_timeout(PACE)
                large["open large"] += measured(page, "open large")
                large["next large picture"] += measured(page, "large picture, next")
            answer(page, truth[tag])
            page.wait_for_timeout(PACE)
            page.keyboard.press("Enter")
            page.wait_for_timeout(1200)
            shown += 1
            behind += page.locator(".ranking:visible").count()
        batches += measured(page, "batch")
    return {
        "next batch of 40, after answering one": quantiles(batches),
        "a decision on a batch": quantiles(measured(page, "decision")),
        **{name: quantiles(values) for name, values in large.items()},
        "batches that said that their order lacks answers": {"batches": behind, "of": shown},
    }


def answer(page: Page, right: set[int]) -> None:
    """Decide on every picture of the batch that is shown, as fast as a person can."""
    page.keyboard.press("Home")
    pictures = page.locator(".batch img").evaluate_all(
        "all => all.map((one) => Number(one.src.match(/pictures.(\\d+)/)[1]))"
    )
    for picture in pictures:
        press(page, "a" if picture in right else "x", 1, FAST)


def search(page: Page, address: str) -> dict[str, Any]:
    """Measure searches, from the Enter key to the paint of the grid."""
    page.goto(f"{address}/library")
    page.locator(".virtual [role=option]:focus").wait_for(timeout=60_000)
    for query in QUERIES:  # the first search by words loads their index
        _search(page, query)
    measured(page, "library")
    for query in QUERIES * 4:
        _search(page, query)
    return {"search": quantiles(measured(page, "library"))}


def _search(page: Page, query: str) -> None:
    page.keyboard.press("Escape")
    page.locator("input[type=search]").first.fill(query)
    page.keyboard.press("Enter")
    page.wait_for_timeout(1000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="2,000 pictures, few rounds")
    parser.add_argument("--work", type=Path, help="where the library is kept")
    given = parser.parse_args()
    count, rounds = (6_000, 10) if given.quick else (20_000, ROUNDS)
    with tempfile.TemporaryDirectory() as scratch:
        work = given.work or Path(scratch)
        with plant(work / f"library-{count}", count) as library:
            known = sorted(library.tags(), key=lambda tag: -tag.suggestions)
            tags = [known[place].name for place in (0, len(known) // 8, len(known) // 4)]
            truth = {tag: pictures_with(tag, count) for tag in tags}
            file, model = library.path, library.status().model
        record: dict[str, Any] = {
            "machine": stamp(0, "playwright", "starlette", "uvicorn"),
            "limits_p95_ms": LIMITS_P95_MS,
            "library": {"pictures": count, "taught": TAUGHT, "tags": model.tags if model else 0},
        }
        with serving(file) as server, sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox"]
            )
            record["chromium"] = browser.version
            page = browser.new_page(viewport={"width": 1280, "height": 800})
            record["measured"] = run(page, f"http://127.0.0.1:{server.port}", tags, truth, rounds)
            record["memory"] = server.memory()
            # More than the number of cores: other programs ran, and times are longer.
            record["load_average_of_15_minutes"] = round(os.getloadavg()[2], 1)
            browser.close()
    print(json.dumps(record["measured"], indent=2))
    if not given.quick:
        TARGET.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
