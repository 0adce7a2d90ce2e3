"""A small tagged collection whose tags can be seen, and an annotator that learned it."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path

import numpy as np
from PIL import Image

from prototag import Annotator

TAGS = ("red", "green", "blue", "striped", "dotted")
_COLOURS = {"red": (200, 30, 30), "green": (30, 170, 40), "blue": (40, 60, 200)}


def picture(tags: list[str], seed: int) -> Image.Image:
    """64 x 48: a colour, and a pattern on it."""
    rng = np.random.default_rng(seed)
    colour = next((_COLOURS[tag] for tag in tags if tag in _COLOURS), (128, 128, 128))
    pixels = np.full((48, 64, 3), colour, np.float64)
    if "striped" in tags:
        pixels[:, (np.arange(64) // 6 + seed) % 2 == 0] *= 0.35
    if "dotted" in tags:
        y, x = np.mgrid[:48, :64]
        pixels[((y + seed) % 12 - 6) ** 2 + (x % 12 - 6) ** 2 < 10] = 245
    return Image.fromarray((pixels + rng.normal(0, 8, pixels.shape)).clip(0, 255).astype(np.uint8))


def tags_of(number: int) -> list[str]:
    tags = [TAGS[number % 3]]
    return tags + (["striped"] if number % 4 < 2 else []) + (["dotted"] if number % 5 < 2 else [])


def collection(folder: Path, count: int = 60, *, start: int = 0, listed: bool = True) -> list[Path]:
    """JPEG files, with a metadata.jsonl unless not ``listed``."""
    folder.mkdir(parents=True, exist_ok=True)
    files, lines = [], []
    for number in range(start, start + count):
        path = folder / f"{number:03}.jpg"
        picture(tags_of(number), number).save(path, quality=90)
        files.append(path)
        lines.append(json.dumps({"file_name": path.name, "tags": tags_of(number)}))
    if listed:
        (folder / "metadata.jsonl").write_text("\n".join(lines) + "\n")
    return files


@lru_cache(maxsize=1)
def _learned() -> tuple[bytes, Annotator]:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        files = collection(Path(folder) / "train")
        annotator = Annotator(crops="fast", cache=None)
        annotator.fit(files, [tags_of(number) for number in range(len(files))])
        path = Path(folder) / "model.prototag"
        annotator.save(path)
        return path.read_bytes(), annotator


def annotator() -> Annotator:
    """Fitted once for all tests; they must not change it."""
    return _learned()[1]


def model(folder: Path) -> Path:
    """The same in a file."""
    path = folder / "model.prototag"
    path.write_bytes(_learned()[0])
    return path
