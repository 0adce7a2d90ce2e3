"""``prototag demo`` from pictures to report, on a part of the collection that takes seconds."""

from __future__ import annotations

import json

from prototag.cli import demo
from prototag.research.datasets import clipart


def some(folder, part):
    """Of the embedded collection the flags and the shapes, which are easy to tell apart."""
    collection = clipart()
    rows = collection.train if part == "train" else collection.test
    lines = []
    for row in rows:
        tags = [collection.tags[c] for c in collection.Y[[row]].indices]
        if {"flag", "shape"} & set(tags) and len(lines) < (60 if part == "train" else 12):
            path = folder / part / f"{row}.webp"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(collection.images[row])
            lines.append(json.dumps({"file_name": path.name, "tags": tags}))
    (folder / part / "metadata.jsonl").write_text("\n".join(lines))
    return folder / part


def test_the_demo_learns_tags_explains_and_reports(run, tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "unpacked", some)
    result = run("demo", tmp_path / "demo")
    assert result.exit_code == 0, result.stderr
    for words in (
        "1. Training",
        "2. Tagging 12",
        "3. Some",
        "4. An explanation",
        "Accuracy report:",
    ):
        assert words in result.stderr
    assert "score; applied" in result.stdout
    for name in ("model.prototag", "report.html", "why-1.html"):
        assert (tmp_path / "demo" / name).stat().st_size > 1000


def test_the_collection_is_unpacked_once(tmp_path):
    first = demo.unpacked(tmp_path, "test")
    stamp = (first / "metadata.jsonl").stat().st_mtime_ns
    assert demo.unpacked(tmp_path, "test") == first
    assert (first / "metadata.jsonl").stat().st_mtime_ns == stamp
    assert len(list(first.rglob("*.webp"))) == len(clipart().test)
