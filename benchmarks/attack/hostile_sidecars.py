"""Sidecars: entity bombs, external entities, encodings, size, links, and concurrent changes.

Each raises a MetadataError and is not changed, or its tags are read, and tags of ProtoTag are
written and removed again: the tags of a person remain.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

from PIL import Image

from benchmarks.attack import mutations
from benchmarks.attack.runner import Attempt, Limits, in_words
from prototag.errors import MetadataError
from prototag.metadata import apply, plan, plan_own, plan_untag, read_keywords, sidecar

LIMITS = Limits(seconds=30.0, grown=900 << 20)
HEAD = '<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">'
SPACES = 'xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:lr="http://ns.adobe.com/lightroom/1.0/"'
TAIL = "</rdf:RDF></x:xmpmeta>"
SECRET = "root:x:0:0"
ENTITIES = (
    '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">'
    + "".join(
        f'<!ENTITY {b} "{f"&{a};" * 10}">' for a, b in zip("abcdefgh", "bcdefghi", strict=True)
    )
    + "]>",
    '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]>',
    '<!DOCTYPE x SYSTEM "http://127.0.0.1:9/x.dtd">',
    '<!DOCTYPE x [<!ENTITY % p SYSTEM "file:///dev/zero"> %p;]>',
    '<?xml-stylesheet href="file:///etc/passwd"?>',
)
ENCODINGS = (
    "utf-8",
    "utf-8-sig",
    "utf-16",
    "utf-16-le",
    "utf-16-be",
    "utf-32",
    "latin-1",
    "utf-7",
    "cp500",
)
WORDS = (
    "sea",
    "a|b|c",
    "<b>&amp;",
    "=1+1",
    "\x1b[2J",
    "‮txt",
    "",
    " ",
    "x" * 3000,
    "\U0001f980",
    "Grüße",
)


def _bag(words: list[str]) -> str:
    def quoted(word: str) -> str:
        return word.replace("&", "&amp;").replace("<", "&lt;")

    return "".join(f"<rdf:li>{quoted(word)}</rdf:li>" for word in words)


def packet(rng: random.Random) -> str:
    """Return a sidecar that is well-formed or nearly so."""
    words = rng.sample(WORDS, rng.randrange(1, 6))
    parts = [f"<dc:subject><rdf:Bag>{_bag(words)}</rdf:Bag></dc:subject>"] * rng.choice(
        (1, 1, 1, 2)
    )
    if rng.random() < 0.5:
        parts.append(
            f"<lr:hierarchicalSubject><rdf:Bag>{_bag(words)}</rdf:Bag></lr:hierarchicalSubject>"
        )
    if rng.random() < 0.1:
        parts.insert(0, "<dc:x>" * 300 + "</dc:x>" * 300)
    if rng.random() < 0.1:
        parts.append(f"<dc:y>{'&a;' if rng.random() < 0.5 else '&i;'}</dc:y>")
    body = f'<rdf:Description rdf:about="" {SPACES}>{"".join(parts)}</rdf:Description>'
    return f"{HEAD}{body}{TAIL}"


def hostile(rng: random.Random) -> bytes:
    text, kind = packet(rng), rng.randrange(10)
    if kind < 2:
        text = rng.choice(ENTITIES) + text.replace("sea", rng.choice(("&a;", "&i;", "sea")))
    if kind == 2:
        named = rng.choice(ENCODINGS)
        text = f'<?xml version="1.0" encoding="{rng.choice(ENCODINGS)}"?>{text}'
        return text.encode(named, errors="replace")
    if kind == 3:
        return text.encode() * rng.choice((0, 2))
    if kind == 4 and rng.random() < 0.01:
        return text.encode().replace(b"sea", b"x" * (100 << 20))  # 100 MB
    if kind == 5:
        many = _bag([f"tag {n}" for n in range(rng.choice((*[10] * 15, *[100] * 9, 4000)))])
        text = text.replace("<rdf:Bag>", f"<rdf:Bag>{many}", 1)
    data = text.encode(errors="replace")
    return mutations.damage(rng, data) if kind >= 6 else data


def place(rng: random.Random, path: Path, data: bytes) -> Callable[[], bool]:
    """Write the sidecar, sometimes as a link; return a check that other files are unchanged."""
    other = path.with_name("other.bin")
    kind = rng.random()
    if kind < 0.85:
        path.write_bytes(data)
        return lambda: True
    if kind < 0.9:
        other.write_bytes(data)
        os.link(other, path)
        return lambda: other.read_bytes() == data
    if kind < 0.95:
        other.write_bytes(data)
        path.symlink_to(other)
        return lambda: path.is_symlink()
    if kind < 0.97:
        path.symlink_to(rng.choice((path.name, "/dev/zero", "/etc/passwd", "/nowhere/x")))
        return lambda: path.is_symlink()
    if kind < 0.98:
        os.mkfifo(path)
        return lambda: path.is_fifo()
    path.mkdir()
    return lambda: path.is_dir()


def prepare(folder: Path) -> Attempt:
    image = folder / "photo.jpg"
    Image.new("RGB", (8, 8)).save(image)
    pixels, passwords = image.read_bytes(), Path("/etc/passwd").read_bytes()
    path = folder / "photo.jpg.xmp"

    def clean() -> None:
        for name in os.listdir(folder):
            if name != "photo.jpg":
                (folder / name).rmdir() if (folder / name).is_dir() and not (
                    folder / name
                ).is_symlink() else (folder / name).unlink()

    def attempt(rng: random.Random, _: Path) -> str:
        clean()
        untouched = place(rng, path, hostile(rng))
        before = path.read_bytes() if path.is_file() and path.resolve().parent == folder else None
        outcome = "sound"
        try:
            keywords = read_keywords(image)
            assert not any(SECRET in tag for tag in keywords.tags), (
                "an external entity was followed"
            )
            mine = ["fox", rng.choice(WORDS)]
            change = (plan_own if rng.random() < 0.1 else plan)(image, mine)
            change.diff()
            if rng.random() < 0.1 and before is not None and os.lstat(path).st_nlink == 1:
                before = hostile(rng)  # somebody is faster
                path.write_bytes(before)
            apply(change)
            now = sidecar.read(path) if path.exists() else None
            assert now is None or "fox" in {*now.added, *now.tags}, "our tag was not written"
            apply(plan_untag(image))
        except MetadataError as error:
            in_words(error)
            outcome = "refused"
            if before is not None and path.is_file() and path.read_bytes() != before:
                sidecar.read(path)  # it was written, and what is there is whole
        assert untouched() or outcome == "sound", "what was linked to has changed"
        assert image.read_bytes() == pixels, "the picture has changed"
        assert Path("/etc/passwd").read_bytes() == passwords, "a file outside was changed"
        left = [name for name in os.listdir(folder) if name.endswith(".tmp")]
        assert not left, "a temporary file was left behind"
        return outcome

    return attempt
