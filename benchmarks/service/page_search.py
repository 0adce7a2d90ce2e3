"""Latency of searches in the page, in Chromium, from Enter to the paint of the pictures.

    python -m benchmarks.service.page_search [--pictures 20000] [--rounds 5]

The library is synthetic: random coordinates of concepts, tags, EXIF and thumbnails, without files.
Queries combine words, tags, "or", "without", dates and cameras; new words were not asked before.
Written to benchmarks/results/service_search.json, with the time of facets.
"""

from __future__ import annotations

import argparse
import io
import json
import tempfile
import time
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from playwright.sync_api import Page, sync_playwright

from benchmarks.library import synthetic_library
from benchmarks.library.search import fill
from benchmarks.machine import stamp
from benchmarks.service.page_latency import measured, quantiles
from benchmarks.service.server import serving
from prototag.knowledge.concepts import WIDTH

TARGET = Path(__file__).parents[1] / "results" / "service_search.json"
SEED = 0
ASKED_MS = 150
TAGS = ("beach", "dog", "New York", "red car", "sunset", "people", "snow", "boat", "city", "night")
WORDS = (
    "castle",
    "horse",
    "Regen",
    "montagne",
    "bridge",
    "bicycle",
    "cake",
    "Wald",
    "perro",
    "train",
)
QUERIES = (
    "dog", "dog on a beach", "Hund am Strand", "beach or snow", "beach without people",
    '"New York" night', "tag:sunset -dog", "date:2019 boat", "camera:leica", "IMG_001",
    "is:untagged", "red car date:2015..2018 -people",
)  # fmt: skip
CAMERAS = ("Leica M11", "Canon EOS R5", "Apple iPhone 12", "NIKON D850")


def library(folder: Path, pictures: int) -> Path:
    """Create the library and return its file."""
    rng = np.random.default_rng(SEED)
    first = rng.normal(size=(1, WIDTH)).astype(np.float32)
    made = synthetic_library.library(folder, first, np.zeros((1, 0), bool), jobs=1)
    fill(made, pictures)
    thumbnails = []
    for _ in range(50):
        image = Image.fromarray(rng.integers(0, 256, (6, 8, 3), np.uint8)).resize((256, 192))
        stream = io.BytesIO()
        image.save(stream, "WEBP", quality=70)
        thumbnails.append(stream.getvalue())
    with made.store.write() as conn:
        for number in range(1, pictures + 1):
            time_taken = f"{rng.integers(2005, 2024)}-{rng.integers(1, 13):02}-15T12:00:00"
            conn.execute(
                "INSERT OR REPLACE INTO captures VALUES (?, ?, ?, NULL, ?, ?)",
                (number, time_taken, CAMERAS[number % 4], *rng.uniform(-60, 60, 2).round(3)),
            )
            conn.execute(
                "INSERT OR REPLACE INTO thumbnails VALUES (?, ?)", (number, thumbnails[number % 50])
            )
        conn.execute("UPDATE files SET search_name = 'img_' || search_name WHERE picture % 2")
    numbers = np.arange(1, pictures + 1)
    pairs = [
        (int(number), tag, "accepted")
        for place, tag in enumerate(TAGS)
        for number in rng.choice(numbers, pictures // (3 + place), replace=False)
    ]
    made.decide(pairs)
    path = made.path
    made.close()
    return path


def searches(page: Page, queries: list[str]) -> list[float]:
    times = []
    for query in queries:
        page.locator("input[type=search]").fill(query)
        page.locator("input[type=search]").press("Enter")
        for _ in range(600):  # the policy of the page forbids to wait for an expression
            page.wait_for_timeout(50)
            if found := measured(page, "library"):
                times.append(found[0])
                break
        page.wait_for_timeout(400)  # facets are counted meanwhile
    return times


def facet_times(address: str) -> list[float]:
    times = []
    for query in QUERIES:
        start = time.perf_counter()
        asked = urllib.parse.urlencode({"query": query})
        urllib.request.urlopen(f"{address}/api/v1/facets?{asked}").read()
        times.append(1000 * (time.perf_counter() - start))
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pictures", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    result: dict[str, Any] = {"pictures": given.pictures, "asked_ms": ASKED_MS}
    with tempfile.TemporaryDirectory() as folder:
        path = library(Path(folder), given.pictures)
        with serving(path) as service, sync_playwright() as playwright:
            address = f"http://127.0.0.1:{service.port}"
            browser = playwright.chromium.launch(
                executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"]
            )
            page = browser.new_page(viewport={"width": 1280, "height": 800})
            page.goto(f"{address}/library")
            page.locator("[role=option]").first.wait_for()
            result["first search, which loads the words"] = searches(page, ["warm up"])[0]
            new = [f"{one} {word}" for word in WORDS for one in QUERIES[:2]]
            asked = [*QUERIES] * given.rounds
            result["new words"] = quantiles(searches(page, new))
            result["queries"] = quantiles(searches(page, asked))
            result["facets"] = quantiles(facet_times(address))
            result["memory"] = service.memory()
            browser.close()
    print(json.dumps(result, indent=1))
    record = {"machine": stamp(SEED), "results": result}
    TARGET.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
