"""Latency of the review page in Chromium, from key press to paint, with a large library.

    python -m benchmarks.service.page_latency [--quick] [--work FOLDER]

The library is planted and has learned; making it takes minutes, and it is kept in the folder of
work, if one is given. The page measures itself, from the key press to the paint after all pictures
concerned are decoded (static/perf.js). Written to benchmarks/results/service_pages.json.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Page, sync_playwright

from benchmarks.machine import stamp

from .server import serving
from .synthetic_library import TAUGHT, plant

TARGET = Path(__file__).parents[1] / "results" / "service_pages.json"
ASKED = {"next_picture_ms": 50, "review_batch_ms": 150}
PACE = 250  # milliseconds between two key presses of somebody who looks
ROUNDS = 60


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


def run(page: Page, address: str, tags: list[str], rounds: int) -> dict[str, Any]:
    """Measure the frequent actions of the page."""
    result: dict[str, Any] = {}
    page.goto(f"{address}/review?tag={tags[0]}")
    page.locator("[role=option]:focus").wait_for(timeout=600_000)
    waited = page.evaluate("performance.now()")
    result["first batch, while the model is loaded"] = {"ms": round(waited)}
    page.goto(f"{address}/review?tag={tags[0]}&order=instructive")
    page.locator("[role=option]:focus").wait_for(timeout=600_000)
    waited += page.evaluate("performance.now()")
    result["until the model is loaded"] = {"ms": round(waited)}
    page.goto(f"{address}/picture/40000")
    page.locator(".suggestions li").first.wait_for()
    page.wait_for_timeout(1500)
    press(page, "ArrowRight", rounds)
    result["next picture, four a second"] = quantiles(measured(page, "picture"))
    press(page, "ArrowRight", rounds, 60)
    page.wait_for_timeout(500)
    result["next picture, a key held down"] = quantiles(measured(page, "picture"))

    batches: list[float] = []
    for tag in tags:
        page.goto(f"{address}/review?tag={tag}")
        page.locator("[role=option]:focus").wait_for(timeout=120_000)
        page.wait_for_timeout(1500)
        measured(page, "batch")
        for _ in range(max(2, rounds // 10)):
            press(page, "x", 1, 150)
            press(page, "a", 4, 150)
            page.wait_for_timeout(600)
            page.keyboard.press("Enter")
            page.wait_for_timeout(1200)
        batches += measured(page, "batch")
    result["next batch of 40, after five decisions"] = quantiles(batches)
    result["a decision on a batch"] = quantiles(measured(page, "decision"))

    page.goto(f"{address}/library")
    page.locator(".virtual [role=option]:focus").wait_for(timeout=60_000)
    began = page.evaluate("performance.now()")
    result["library of all pictures, from the start"] = {"ms": round(began, 1)}
    press(page, "PageDown", rounds // 2, 100)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="2,000 pictures, few rounds")
    parser.add_argument("--work", type=Path, help="where the library is kept")
    given = parser.parse_args()
    count, rounds = (6_000, 10) if given.quick else (100_000, ROUNDS)
    with tempfile.TemporaryDirectory() as scratch:
        work = given.work or Path(scratch)
        with plant(work / f"library-{count}", count) as library:
            known = sorted(library.tags(), key=lambda tag: -tag.suggestions)
            tags = [known[place].name for place in (0, len(known) // 8, len(known) // 4)]
            file, model = library.path, library.status().model
        record: dict[str, Any] = {
            "machine": stamp(0, "playwright", "starlette", "uvicorn"),
            "asked": ASKED,
            "library": {"pictures": count, "taught": TAUGHT, "tags": model.tags if model else 0},
        }
        with serving(file) as server, sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox"]
            )
            record["chromium"] = browser.version
            page = browser.new_page(viewport={"width": 1280, "height": 800})
            record["measured"] = run(page, f"http://127.0.0.1:{server.port}", tags, rounds)
            record["memory"] = server.memory()
            browser.close()
    print(json.dumps(record["measured"], indent=2))
    if not given.quick:
        TARGET.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
