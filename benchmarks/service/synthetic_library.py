"""Synthetic library of many pictures with thumbnails, a trained model and no files."""

from __future__ import annotations

import io
import os
from pathlib import Path

import numpy as np
from PIL import Image

from prototag import Library
from prototag.library.database import vector_checksum

from .collection import vectors

KINDS = 200  # pictures that differ
TAUGHT = 5_000  # with tags of their own
RECIPE = b"planted"  # what the vectors were made by, as the library has it
NOISE = 0.15  # of a standard deviation, between pictures of one kind


def pictures_with(tag: str, count: int) -> set[int]:
    """Return the pictures of a planted library that truly have a tag."""
    _, _, tags = vectors(17_665)
    return {number for number in range(1, count + 1) if tag in tags[number % len(tags)]}


def _photograph(number: int, size: tuple[int, int]) -> Image.Image:
    """Return a JPEG with edges and gradients, of about the size of a photograph."""
    rng = np.random.default_rng(number)
    small = rng.integers(0, 256, (9, 12, 3), np.uint8)
    image = Image.fromarray(small).resize(size, Image.Resampling.BICUBIC)
    grain = rng.normal(0, 6, (size[1], size[0], 1))
    return Image.fromarray((np.asarray(image) + grain).clip(0, 255).astype(np.uint8))


def plant(folder: Path, count: int) -> Library:
    """Create the library, or open the one that was created before."""
    file = folder / "prototag.library"
    if file.exists():
        return Library(file, n_jobs=-1, cache=None)
    files = folder / "kinds"
    files.mkdir(parents=True)
    thumbnails = []
    for number in range(KINDS):
        image = _photograph(number, (1600, 1200))
        image.save(files / f"{number}.jpg", quality=85)
        image.thumbnail((256, 256))
        stream = io.BytesIO()
        image.save(stream, "WEBP", quality=75)
        thumbnails.append(stream.getvalue())
    _, X, tags = vectors(17_665)
    library = Library.create(folder, n_jobs=-1, cache=None)
    _fill(library, folder, count, X, tags, thumbnails)
    library.store.set_setting("recipe", RECIPE.hex())
    library.learn(full=True)
    return library


def _fill(
    library: Library,
    folder: Path,
    count: int,
    X: np.ndarray,
    tags: list[list[str]],
    thumbnails: list[bytes],
) -> None:
    rng = np.random.default_rng(0)
    scale = X.std(axis=0) * NOISE
    names = sorted({name for row in tags for name in row})
    numbers = {name: place + 1 for place, name in enumerate(names)}
    with library.store.write() as base:
        root = base.execute("SELECT id FROM roots").fetchone()[0]
        base.executemany(
            "INSERT INTO tags (id, name, key) VALUES (?, ?, ?)",
            [(numbers[name], name, name) for name in names],
        )
        for number in range(1, count + 1):
            row = number % len(X)
            place = folder / f"{number // 1000:03}" / f"IMG_{number:06}.jpg"
            place.parent.mkdir(exist_ok=True)
            os.link(folder / "kinds" / f"{number % KINDS}.jpg", place)
            vector = (X[row] + scale * rng.standard_normal(X.shape[1])).astype("<f4").tobytes()
            digest = number.to_bytes(20, "big")
            base.execute(
                "INSERT INTO pictures (id, digest, added_at) VALUES (?, ?, 0)", (number, digest)
            )
            base.execute(
                "INSERT INTO files (path, folder, search_name, picture, root, parsed_tags) "
                "VALUES (?, ?, ?, ?, ?, '[[],null]')",
                (os.fsencode(place), os.fsencode(place.parent), place.name.lower(), number, root),
            )
            base.execute(
                "INSERT INTO vectors VALUES (?, ?, ?, ?)",
                (number, RECIPE, vector, vector_checksum(number, vector)),
            )
            base.execute(
                "INSERT INTO thumbnails VALUES (?, ?)", (number, thumbnails[number % KINDS])
            )
            if number <= TAUGHT:
                base.executemany(
                    "INSERT INTO labels VALUES (?, ?, 1, 'file', 1)",
                    [(number, numbers[name]) for name in tags[row]],
                )
