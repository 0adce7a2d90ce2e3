"""Draws a sheet of photographs with the words that the general vocabulary gives to them.

The photographs are not part of the project, so that the sheet is looked at and not committed:
``python -m benchmarks.knowledge.day_zero --sheet FILE.png`` draws it.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from benchmarks.collections import DATA
from prototag.knowledge.concepts import name_scores
from prototag.knowledge.general import Vocabulary

PHOTOS = DATA / "iaprtc12_photos"
SHOWN = 50
COLUMNS = 5
CELL = (300, 290)
PICTURE_HEIGHT = 190
LINES = 6
LIKELY = 0.5


def draw(vocabulary: Vocabulary, path: Path) -> None:
    """Draw the test photographs, each with its words of at least 50% and the tags of people."""
    lines = (PHOTOS / "metadata.jsonl").read_text("utf-8").splitlines()
    photos = [json.loads(line) for line in lines][-SHOWN:]
    vectors = np.load(DATA / "iaprtc12_lite0_large.npz", allow_pickle=False)
    row_of = {str(name): row for row, name in enumerate(vectors["image_names"])}
    rows = [row_of[photo["file_name"]] for photo in photos]
    X = np.hstack([vectors["X"][rows], vectors["mid"][rows]]).astype(np.float32)
    p = 1 / (1 + np.exp(-name_scores(vocabulary.log_odds, X)))
    height = CELL[1] * -(-len(photos) // COLUMNS)
    sheet = Image.new("RGB", (CELL[0] * COLUMNS, height), "white")
    pen = ImageDraw.Draw(sheet)
    for number, photo in enumerate(photos):
        left = CELL[0] * (number % COLUMNS)
        top = CELL[1] * (number // COLUMNS)
        with Image.open(PHOTOS / photo["file_name"]) as image:
            image.thumbnail((CELL[0] - 10, PICTURE_HEIGHT))
            sheet.paste(image, (left, top))
        likely = [column for column in np.argsort(-p[number]) if p[number, column] >= LIKELY]
        words = [f"{vocabulary.names[column]} {p[number, column]:.0%}" for column in likely]
        text = _wrapped(f"{number + 1}: " + ", ".join(words)) + _wrapped(
            "(" + ", ".join(photo["tags"]) + ")"
        )
        pen.multiline_text((left, top + PICTURE_HEIGHT + 2), "\n".join(text[:LINES]), "black")
    sheet.save(path)


def _wrapped(text: str, width: int = 48) -> list[str]:
    lines = [""]
    for word in text.split(" "):
        if len(lines[-1]) + len(word) > width:
            lines.append("")
        lines[-1] += word + " "
    return lines
