"""Folders of tiny pictures whose vectors are in the cache already, and a model that learned one.

The tool is measured without the backbone: the vectors are those of IAPRTC-12 where they are
at hand (planted ones otherwise), each given to a picture of four pixels.
"""

from __future__ import annotations

import io
import time
from pathlib import Path

import numpy as np
from PIL import Image

from benchmarks.collections import DATA
from prototag import Annotator
from prototag.features.vector_cache import VectorCache, stamp_of
from prototag.images.decode import digest
from prototag.research.datasets import planted

BATCH = 1000


def vectors(count: int) -> tuple[str, np.ndarray, list[list[str]]]:
    """What they are, whole + five crops (n x 2,560), and tags; repeated where there are fewer."""
    whole, five = (DATA / f"iaprtc12_lite0_{name}.npz" for name in ("whole", "five"))
    if whole.exists() and five.exists():
        with np.load(whole, allow_pickle=False) as a, np.load(five, allow_pickle=False) as b:
            X = np.hstack([a["X"], b["X"]]).astype(np.float32)
            bits = np.unpackbits(a["label_bits"], axis=1)[:, : int(a["n_tags"])]
        name = "IAPRTC-12, EfficientNet-Lite0, whole + five crops"
        rows = [[f"tag {c:03}" for c in np.flatnonzero(row)] for row in bits]
    else:
        data = planted(count, 291, 4000, m=2560, mixed=6, noise=0.6, random_state=0)
        X, name = np.asarray(data.X, np.float32), "planted"
        rows = [[data.tag_names[c] for c in data.Y[[i]].indices] for i in range(count)]
    chosen = np.arange(count) % len(X)
    return name, X[chosen], [rows[i] for i in chosen]


def write(folder: Path, cache: Path, X: np.ndarray) -> list[Path]:
    """As many pictures as vectors, and the vectors in the cache."""
    folder.mkdir(parents=True)
    paths, contents = [], []
    for number in range(len(X)):
        colours = np.frombuffer(np.int64(number).tobytes() + b"\0\0\0\0", np.uint8)
        stream = io.BytesIO()
        Image.fromarray(colours.reshape(2, 2, 3)).save(stream, "PNG")
        path = folder / f"{number // 1000:02}" / f"{number:05}.png"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(stream.getvalue())
        paths.append(path)
        contents.append(digest(stream.getvalue()))
    time.sleep(2.5)  # stamps are trusted from two seconds on
    extractor = Annotator(cache=None).extractor
    plan = extractor._plan(extractor._backbone())
    with VectorCache(cache) as store:
        for start in range(0, len(X), BATCH):
            rows = slice(start, start + BATCH)
            stamps = [(stamp_of(path), digest(path)) for path in paths[rows]]
            for part, columns in plan.split(X[rows]):  # the cache keeps them one by one
                store.store(part.recipe, contents[rows], columns, stamps)
    return paths


def model(work: Path, count: int) -> tuple[Path, str]:
    """A model of ``count`` pictures; kept in the folder of work, because it takes minutes."""
    name, X, tags = vectors(count)
    path = work / f"model-{count}.prototag"
    if not path.exists():
        cache = work / f"train-{count}.sqlite"
        folder = work / f"train-{count}"
        files = sorted(folder.glob("*/*.png")) if folder.exists() else write(folder, cache, X)
        Annotator(n_jobs=-1, cache=cache).fit(files, tags).save(path)
    return path, name
