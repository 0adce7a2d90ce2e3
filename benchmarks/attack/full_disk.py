"""A full disk (a tmpfs of a few hundred kilobytes, as root) and read-only folders.

A failed write raises an error of ProtoTag or an OSError that names the file; existing files keep
their content, and no temporary file remains.
"""

from __future__ import annotations

import os
import pwd
import random
import shutil
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.attack.model_files import Eyes
from benchmarks.attack.runner import Found
from benchmarks.attack.sigkill import WORDS, collection
from prototag import Annotator, Library, metadata
from prototag.errors import PrototagError
from prototag.features.extractor import Extractor
from prototag.features.vector_cache import VectorCache

Step = Callable[[Path, list[Path]], None]


def _model(folder: Path, files: list[Path]) -> None:
    tags = [[WORDS[n % 3], WORDS[3]][: 1 + n % 2] for n in range(len(files))]
    annotator = Annotator(backbone=Eyes(), crops="fast", cache=None, keep_thumbnails=False)
    annotator.fit(files, tags).save(folder / "model.prototag")


def _sidecar(_: Path, files: list[Path]) -> None:
    for file in files:
        metadata.apply(metadata.plan(file, ["sea", "x" * 2000]))


def _inside(_: Path, files: list[Path]) -> None:
    metadata.apply_inside(metadata.plan_embed(files[0], ["sea"]))


def _cache(folder: Path, files: list[Path]) -> None:
    with VectorCache(folder / "cache.sqlite") as cache:
        result = Extractor(Eyes(), crops="fast", cache=cache).extract(files)
    assert len(result.vectors) == len(files), "a cache that cannot be written lost pictures"


def _library(folder: Path, _: list[Path]) -> None:
    with Library.create(folder, crops="fast", cache=None) as library:
        library.extractor.backbone = Eyes()
        library.scan()
        library.accept([1], ["sea"])


STEPS: dict[str, Step] = {
    "model": _model,
    "sidecar": _sidecar,
    "inside": _inside,
    "cache": _cache,
    "library": _library,
}


def _try(step: Step, folder: Path, files: list[Path]) -> tuple[str, str | None]:
    """Return the outcome, and an explanation if it is wrong."""
    before = {file: file.read_bytes() for file in files}
    try:
        step(folder, files)
        outcome = "done"
    except (PrototagError, OSError) as error:
        outcome = "refused" if str(error).strip() else "refused without words"
    except Exception as error:
        return "traceback", f"{type(error).__name__}: {error}"[:300]
    if step is not _inside and any(file.read_bytes() != data for file, data in before.items()):
        return outcome, "a picture has changed"
    if [*folder.glob(".prototag-*.tmp")]:
        return outcome, "a temporary file was left"
    with suppress(metadata.sidecar.MetadataError):
        for beside in folder.glob("*.xmp"):
            metadata.sidecar.read(beside)
    return outcome, None


def full(name: str, rng: random.Random) -> tuple[str, str | None]:
    """Attempt a write on a disk that is full, or nearly full."""
    folder = Path(tempfile.mkdtemp(prefix="prototag-attack-"))
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", folder], check=False
    )
    if mounted.returncode:
        folder.rmdir()
        return "skipped: no tmpfs may be mounted", None
    try:
        files = collection(folder)
        free = shutil.disk_usage(folder).free
        with suppress(OSError):
            (folder / "ballast").write_bytes(
                b"x" * (free - rng.choice((0, 0, 4096, 20_000, 60_000)))
            )
        return _try(STEPS[name], folder, files)
    finally:
        subprocess.run(["umount", "-l", folder], check=True)
        folder.rmdir()


def forbidden(name: str, _: random.Random) -> tuple[str, str | None]:
    """Attempt a write in a folder that is read-only for the user."""
    if os.getuid() != 0:
        return "skipped: only root becomes another user", None
    folder = Path(tempfile.mkdtemp(prefix="prototag-attack-"))
    files = collection(folder)
    for path in folder.iterdir():
        path.chmod(0o444)
    folder.chmod(0o555)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        nobody = pwd.getpwnam("nobody")
        os.setgroups([])
        os.setgid(nobody.pw_gid)
        os.setuid(nobody.pw_uid)
        outcome, wrong = _try(STEPS[name], folder, files)
        if outcome == "done" and name != "cache":
            wrong = "it was written where nothing may be"
        os.write(write, f"{outcome}\0{wrong or ''}".encode())
        os._exit(0)
    os.close(write)
    output = b""
    while part := os.read(read, 4096):
        output += part
    os.close(read)
    os.waitpid(child, 0)
    folder.chmod(0o755)
    shutil.rmtree(folder)
    outcome, _, wrong = output.decode().partition("\0")
    return (outcome, wrong or None) if output else ("crash", "the process ended without a word")


def run(count: int, seed: int, seconds: float) -> Found:
    began, outcomes = time.monotonic(), Counter[str]()
    findings: list[dict[str, Any]] = []
    rng = random.Random(seed)
    for number in range(count):
        if time.monotonic() - began > seconds:
            break
        name = [*STEPS][number // 2 % len(STEPS)]
        where, act = (("full disk", full), ("read-only", forbidden))[number % 2]
        outcome, wrong = act(name, rng)
        outcomes[f"{where}, {name}: {'wrong' if wrong else outcome}"] += 1
        if wrong:
            findings.append(
                {"attempt": number, "what": wrong, "where": f"{where}, {name}", "times": 1}
            )
    attempts = sum(outcomes.values())
    return Found(attempts, dict(outcomes), findings, round(time.monotonic() - began, 1))
