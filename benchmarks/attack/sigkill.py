"""SIGKILL at any instant while training, computing vectors, annotating, writing and reviewing.

Afterwards each file has its old or its new content, never a mixture: models load, the cache opens,
sidecars and lists are complete, a library passes its checks, pictures keep their bytes; and the
killed operation can be repeated.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from benchmarks.attack.model_files import Eyes
from benchmarks.attack.runner import KEPT, Found
from prototag import Annotator, Library, metadata
from prototag.features.extractor import Extractor
from prototag.features.vector_cache import VectorCache
from prototag.metadata import sidecar

PICTURES = 24
WORDS = ("sea", "sky", "sand", "boat")


def collection(folder: Path) -> list[Path]:
    rng = np.random.default_rng(0)
    lines, files = [], []
    for number in range(PICTURES):
        files.append(folder / f"{number:02}.jpg")
        Image.fromarray(rng.integers(0, 255, (24, 32, 3), np.uint8)).save(files[-1])
        lines.append(
            {"file_name": files[-1].name, "tags": [WORDS[number % 3], WORDS[3]][: 1 + number % 2]}
        )
    (folder / "metadata.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return files


def _annotator(cache: Any = None) -> Annotator:
    return Annotator(backbone=Eyes(), crops="fast", cache=cache, keep_thumbnails=False)


class Train:
    """Train a model and save it over an older one, repeatedly."""

    def __init__(self, folder: Path, files: list[Path]) -> None:
        self.path, self.files = folder / "model.prototag", files
        self.tags = [[WORDS[n % 3], WORDS[3]][: 1 + n % 2] for n in range(PICTURES)]
        self.learned = _annotator().fit(files, self.tags)
        self.learned.save(self.path)

    def work(self, rng: random.Random) -> None:
        learned = self.learned if rng.random() < 0.8 else _annotator().fit(self.files, self.tags)
        while True:
            learned.save(self.path)

    def look(self) -> str | None:
        Annotator.load(self.path, cache=None).gallery.names  # noqa: B018
        return None


class Features:
    """Compute and cache vectors; the cache of a killed run returns the same vectors."""

    def __init__(self, folder: Path, files: list[Path]) -> None:
        self.path, self.files = folder / "cache.sqlite", files
        self.expected = Extractor(Eyes(), crops="fast", cache=None).extract(files).vectors

    def work(self, rng: random.Random) -> None:
        while True:
            if rng.random() < 0.3:
                self.path.unlink(missing_ok=True)
            for file in rng.sample(self.files, 5):
                os.utime(file)
            with VectorCache(self.path) as cache:
                extractor = Extractor(Eyes(), crops="fast", cache=cache, batch_size=2)
                extractor.extract(rng.sample(self.files, 12))

    def look(self) -> str | None:
        with VectorCache(self.path) as cache:
            vectors = Extractor(Eyes(), crops="fast", cache=cache).extract(self.files).vectors
        return None if (vectors == self.expected).all() else "other vectors"


class Write:
    """Write tags to sidecars and remove them again."""

    def __init__(self, _: Path, files: list[Path]) -> None:
        self.files = files
        for file in files[::2]:
            metadata.apply(metadata.plan_own(file, ["home"]))

    def work(self, rng: random.Random) -> None:
        while True:
            file = rng.choice(self.files)
            if rng.random() < 0.7:
                metadata.apply(metadata.plan(file, rng.sample(WORDS, 2)))
            else:
                metadata.apply(metadata.plan_untag(file))

    def look(self) -> str | None:
        for number, file in enumerate(self.files):
            beside = file.with_name(file.name + ".xmp")
            if beside.exists():
                keywords = sidecar.read(beside)
                if number % 2 == 0 and "home" not in keywords.tags:
                    return "a person's tag was lost"
            elif number % 2 == 0:
                return "a person's sidecar was lost"
        return None


class Embed:
    """Write tags into JPEG files; their pixels do not change."""

    def __init__(self, folder: Path, files: list[Path]) -> None:
        self.files = [shutil.copy(file, folder / f"in-{file.name}") for file in files[:6]]
        self.files = [Path(file) for file in self.files]
        self.pixels = [np.asarray(Image.open(file)) for file in self.files]

    def work(self, rng: random.Random) -> None:
        while True:
            file = rng.choice(self.files)
            metadata.apply_inside(metadata.plan_embed(file, rng.sample(WORDS, 2)))

    def look(self) -> str | None:
        for file, pixels in zip(self.files, self.pixels, strict=True):
            if not np.array_equal(np.asarray(Image.open(file)), pixels):
                return "a picture has other pixels"
            metadata.read_keywords(file)
        return None


class Annotate:
    """Annotate pictures into a list that the next run continues."""

    def __init__(self, folder: Path, files: list[Path]) -> None:
        self.learned = Train(folder, files).learned
        self.files, self.folder = files, folder

    def work(self, _: random.Random) -> None:
        while True:
            for annotation in self.learned.annotate(self.files, top=2):
                metadata.apply(
                    metadata.plan(annotation.source, [tag.name for tag in annotation.tags])
                )

    def look(self) -> str | None:
        for file in self.folder.glob("*.xmp"):
            sidecar.read(file)
        return None


def undo_last(library: Library) -> None:
    """Undo the last batch that is not undone."""
    stands = (one.batch for one in library.history(100) if not one.undone)
    if (batch := next(stands, None)) is not None:
        library.undo(batch)


class Review:
    """Make and undo decisions in a library, and write them to sidecars."""

    def __init__(self, folder: Path, files: list[Path]) -> None:
        with Library.create(folder, crops="fast", cache=None) as library:
            library.extractor.backbone = Eyes()
            library.scan()
            self.path = library.path
        del files

    def work(self, rng: random.Random) -> None:
        with Library(self.path, cache=None) as library:
            while True:
                chosen = rng.sample(range(1, PICTURES + 1), 3)
                if rng.random() < 0.2:
                    undo_last(library)
                elif rng.random() < 0.3:
                    library.sync()
                else:
                    library.accept(chosen, [rng.choice(WORDS)])

    def look(self) -> str | None:
        with Library(self.path, cache=None) as library:
            damage = library.check()
            library.history(10)
        return str(damage) if damage else None


KINDS: dict[str, Callable[[Path, list[Path]], Any]] = {
    "train": Train,
    "features": Features,
    "sidecars": Write,
    "embed": Embed,
    "annotate": Annotate,
    "library": Review,
}


def kill(kind: Any, rng: random.Random) -> None:
    """Run an operation in a child process and kill it."""
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            kind.work(rng)
        os._exit(3)
    time.sleep(rng.random() * rng.choice((0.02, 0.2, 0.4)))
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if not os.WIFSIGNALED(status):
        raise RuntimeError("the work ended by itself, with an error")


def run(count: int, seed: int, seconds: float) -> Found:
    """Make ``count`` kills, cycling over all kinds."""
    began, outcomes = time.monotonic(), Counter[str]()
    findings: list[dict[str, Any]] = []
    root = Path(tempfile.mkdtemp(prefix="prototag-attack-"))  # on a disk, where writing takes time
    prepared: dict[str, tuple[Any, dict[Path, bytes]]] = {}
    for number in range(count):
        if time.monotonic() - began > seconds:
            break
        name = [*KINDS][number % len(KINDS)]
        if name not in prepared:
            (root / name).mkdir()
            files = collection(root / name)
            prepared[name] = (KINDS[name](root / name, files), {f: f.read_bytes() for f in files})
        kind, pictures = prepared[name]
        try:
            kill(kind, random.Random(f"{seed} {number}"))
            wrong = kind.look()
            if any(file.read_bytes() != data for file, data in pictures.items()):
                wrong = "a picture has other bytes"
        except Exception as error:
            wrong = f"{type(error).__name__}: {error}"[:300]
        outcomes[f"{name}: {'wrong' if wrong else 'whole'}"] += 1
        if wrong and len(findings) < KEPT:
            findings.append({"attempt": number, "what": wrong, "where": name, "times": 1})
            print(name, wrong, file=sys.stderr)
        if wrong:
            prepared.pop(name)
            shutil.rmtree(root / name, ignore_errors=True)
    left = len([*root.rglob(".prototag-*.tmp")])
    shutil.rmtree(root, ignore_errors=True)
    outcomes["temporary files left (swept after an hour)"] = left
    attempts = sum(outcomes.values()) - left
    return Found(attempts, dict(outcomes), findings, round(time.monotonic() - began, 1))
