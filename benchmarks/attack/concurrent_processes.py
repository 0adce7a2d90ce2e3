"""Two and four concurrent processes on the same sidecars, cache and library.

No update may be lost: every tag and every decision that was acknowledged is stored.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.attack.model_files import Eyes
from benchmarks.attack.runner import Found
from benchmarks.attack.sigkill import PICTURES, collection
from prototag import Library, metadata
from prototag.features.extractor import Extractor
from prototag.features.vector_cache import VectorCache
from prototag.metadata import sidecar

TIMES = 12  # what each process does


def _sidecars(_: Path, files: list[Path], me: int) -> None:
    for number in range(TIMES):
        change = metadata.plan(files[number % 4], [f"tag {me} {number}"], replace=False)
        metadata.apply(change)


def _check_sidecars(_: Path, files: list[Path], crowd: int) -> str | None:
    for number in range(TIMES):
        added = {*sidecar.read(files[number % 4].with_name(files[number % 4].name + ".xmp")).added}
        lost = {f"tag {me} {number}" for me in range(crowd)} - added
        if lost:
            return f"lost {sorted(lost)}"
    return None


def _cache(folder: Path, files: list[Path], me: int) -> None:
    for number in range(TIMES):
        with VectorCache(folder / "cache.sqlite") as cache:
            Extractor(Eyes(), crops="fast", cache=cache, batch_size=2).extract(
                random.Random(f"{me} {number}").sample(files, 8)
            )


def _check_cache(folder: Path, files: list[Path], _: int) -> str | None:
    expected = Extractor(Eyes(), crops="fast", cache=None).extract(files).vectors
    with VectorCache(folder / "cache.sqlite") as cache:
        vectors = Extractor(Eyes(), crops="fast", cache=cache).extract(files).vectors
    return None if (vectors == expected).all() else "other vectors"


def _path(folder: Path) -> Path:
    return next(p for p in folder.iterdir() if p.is_file() and p.read_bytes()[:6] == b"SQLite")


def _library(folder: Path, _: list[Path], me: int) -> None:
    for number in range(TIMES):
        with Library(_path(folder), cache=None) as library:
            library.accept([1 + (me + number) % PICTURES], [f"tag {me} {number}"])


def _check_library(folder: Path, _: list[Path], crowd: int) -> str | None:
    with Library(_path(folder), cache=None) as library:
        if library.check():
            return "damage"
        for me in range(crowd):
            for number in range(TIMES):
                tags = library.picture(1 + (me + number) % PICTURES).accepted
                if f"tag {me} {number}" not in tags:
                    return f"lost tag {me} {number}"
    return None


def _make_library(folder: Path) -> None:
    with Library.create(folder, crops="fast", cache=None) as library:
        library.extractor.backbone = Eyes()
        library.scan()


KINDS: dict[str, tuple[Callable[..., Any], Callable[..., Any], Callable[[Path], None]]] = {
    "sidecars": (_sidecars, _check_sidecars, lambda _: None),
    "cache": (_cache, _check_cache, lambda _: None),
    "library": (_library, _check_library, _make_library),
}


def _together(work: Callable[..., Any], folder: Path, files: list[Path], crowd: int) -> str | None:
    children = []
    for me in range(crowd):
        child = os.fork()
        if child == 0:
            try:
                work(folder, files, me)
            except BaseException:
                (folder / f"error {me}").write_text(traceback.format_exc())
                os._exit(1)
            os._exit(0)
        children.append(child)
    failed = [os.waitpid(child, 0)[1] for child in children]
    errors = [path.read_text().strip().splitlines()[-1] for path in folder.glob("error *")]
    return f"{failed}: {errors}"[:400] if any(failed) else None


def run(count: int, seed: int, seconds: float) -> Found:
    began, outcomes = time.monotonic(), Counter[str]()
    findings: list[dict[str, Any]] = []
    for number in range(count):
        if time.monotonic() - began > seconds:
            break
        name, crowd = [*KINDS][number % 3], (2, 4)[number // 3 % 2]
        work, look, make = KINDS[name]
        folder = Path(tempfile.mkdtemp(prefix="prototag-attack-"))
        try:
            files = collection(folder)
            make(folder)
            wrong = _together(work, folder, files, crowd) or look(folder, files, crowd)
        except Exception as error:
            wrong = f"{type(error).__name__}: {error}"[:300]
        shutil.rmtree(folder, ignore_errors=True)
        outcomes[f"{name}, {crowd} at once: {'wrong' if wrong else 'whole'}"] += 1
        if wrong:
            findings.append({"attempt": number, "what": wrong, "where": name, "times": 1})
    del seed
    attempts = sum(outcomes.values())
    return Found(attempts, dict(outcomes), findings, round(time.monotonic() - began, 1))
