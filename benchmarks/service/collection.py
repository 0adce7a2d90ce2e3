"""Model of all of IAPRTC-12 on the default vectors, and pictures to annotate."""

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
    """What they are, vectors as the default extractor lays them (n x 2,272), and tags."""
    file = DATA / "iaprtc12_lite0_large.npz"
    if file.exists():
        with np.load(file, allow_pickle=False) as kept:
            X = np.hstack([kept["X"], kept["mid"]]).astype(np.float32)[kept["train_idx"]]
            bits = np.unpackbits(kept["label_bits"], axis=1)[:, : int(kept["n_tags"])]
            bits = bits[kept["train_idx"]]
        rows = [[f"tag {c:03}" for c in np.flatnonzero(row)] for row in bits]
        return "IAPRTC-12, large pass, last and inner maps", X[:count], rows[:count]
    data = planted(count, 291, 4000, m=2272, mixed=6, noise=0.6, random_state=0)
    rows = [[data.tag_names[c] for c in data.Y[[i]].indices] for i in range(count)]
    return "planted", np.asarray(data.X, np.float32), rows


def remembered(folder: Path, cache: Path, X: np.ndarray) -> list[Path]:
    """As many pictures of four pixels as vectors, and the vectors in the cache."""
    folder.mkdir(parents=True)
    paths = []
    for number in range(len(X)):
        colours = np.frombuffer(np.int64(number).tobytes() + b"\0\0\0\0", np.uint8)
        stream = io.BytesIO()
        Image.fromarray(colours.reshape(2, 2, 3)).save(stream, "PNG")
        path = folder / f"{number // 1000:02}" / f"{number:05}.png"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(stream.getvalue())
        paths.append(path)
    time.sleep(2.5)  # stamps are trusted from two seconds on
    extractor = Annotator(cache=None).extractor
    plan = extractor._plan(extractor._backbone())
    with VectorCache(cache) as store:
        for start in range(0, len(X), BATCH):
            chosen = paths[start : start + BATCH]
            contents = [digest(path) for path in chosen]
            stamps = [
                (stamp_of(path), content) for path, content in zip(chosen, contents, strict=True)
            ]
            for part, columns in plan.split(X[start : start + BATCH]):
                store.store(part.recipe, contents, columns, stamps)
    return paths


def model(work: Path, count: int) -> tuple[Path, str]:
    """A model of ``count`` pictures, kept in the folder of work, because it takes minutes."""
    name, X, tags = vectors(count)
    path = work / f"service-{count}.prototag"
    folder, cache = work / f"service-{count}", work / f"service-{count}.sqlite"
    files = sorted(folder.glob("*/*.png")) if folder.exists() else remembered(folder, cache, X)
    if not path.exists():
        Annotator(n_jobs=-1, cache=cache).fit(files, tags).save(path)
    return path, name
