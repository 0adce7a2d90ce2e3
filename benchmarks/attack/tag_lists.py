"""Lists of tags: metadata.jsonl, CSV and text files that are deeply nested or huge, or contain NUL,
surrogates or path traversal.

Each list raises an error of ProtoTag, or its pictures are inside the folder and its tags are text.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

from PIL import Image

from benchmarks.attack import mutations
from benchmarks.attack.runner import Attempt, Limits, in_words
from prototag.errors import PrototagError
from prototag.metadata import collect, vocabulary

LIMITS = Limits(seconds=30.0, grown=900 << 20)
NAMES = ("metadata.jsonl", "metadata.csv", "tags.csv", "list.tsv", "0.txt", "list.txt")
OUT = ("../../etc/passwd", "/etc/passwd", "0.jpg/../../x.jpg", "\\\\server\\x", "0.jpg\0", "~", "")


def _line(rng: random.Random, number: int) -> dict[str, object]:
    name = f"{number % 4}.jpg" if rng.random() < 0.8 else rng.choice((*OUT, *mutations.TEXTS))
    tags: object = [rng.choice(("sea", "sky", *mutations.TEXTS)) for _ in range(rng.randrange(4))]
    if rng.random() < 0.2:
        tags = mutations.value(rng)
    return {
        rng.choice(("file_name", "file_name", "path")): name,
        rng.choice(("tags", "tags", "x")): tags,
    }


def hostile(rng: random.Random, kind: str) -> bytes:
    lines = [_line(rng, number) for number in range(rng.choice((1, 4, 30)))]
    if kind.endswith("jsonl"):
        text = "\n".join(json.dumps(line, ensure_ascii=rng.random() < 0.5) for line in lines)
        if rng.random() < 0.05:
            text = '{"file_name": "0.jpg", "tags": ' + "[" * 100_000
    else:
        comma = rng.choice((",", ";", "\t"))
        rows = [["file_name", "tags"], *[[str(v) for v in line.values()] for line in lines]]
        text = "\n".join(comma.join(row) for row in rows)
        if rng.random() < 0.05:
            text += comma.join(["x" * 300_000] * 5)
        if rng.random() < 0.1:
            text = '"' + text
    data = text.encode(rng.choice(("utf-8", "utf-8", "utf-16", "latin-1")), errors="replace")
    return mutations.damage(rng, data) if rng.random() < 0.4 else data


def prepare(folder: Path) -> Attempt:
    for number in range(4):
        Image.new("RGB", (8, 8)).save(folder / f"{number}.jpg")

    def attempt(rng: random.Random, _: Path) -> str:
        name = rng.choice(NAMES)
        path = folder / name
        path.write_bytes(hostile(rng, name))
        try:
            collected = collect(path if rng.random() < 0.3 and name != "0.txt" else folder)
            for image, tags in zip(collected.images, collected.tags, strict=True):
                inside = Path(image).resolve().is_relative_to(folder.resolve())
                assert inside or Path(image).is_file() is False or "passwd" not in str(image), (
                    "outside"
                )
                assert all(isinstance(tag, str) and tag for tag in tags), "tags that are no text"
            vocabulary(collected.tags, min_count=1)
        except PrototagError as error:
            in_words(error)
            return f"{path.suffix[1:]}: refused"
        finally:
            path.unlink()
        return f"{path.suffix[1:]}: sound"

    return attempt
