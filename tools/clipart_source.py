"""The Debian packages of the Open Clip Art Library -> pairs of SVG and PNG with their RDF."""

from __future__ import annotations

import hashlib
import re
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

RDF = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}"
DC = "{http://purl.org/dc/elements/1.1/}"
LINK = "{http://www.w3.org/1999/xlink}href"
FOLDER = Path("usr/share/openclipart")

# Debian 12, version 1:0.18+dfsg-19.
PACKAGES = {
    "openclipart-svg": "989712d90d57dfa3230049f553bb43b76c30ee4d4b8c5f6e106e33f7db5cbdc5",
    "openclipart-png": "f07f1545a2970c2cf3fa339bc2405da1a95cf2b1827bfa05bf73eb1c20291c02",
}


class Description(NamedTuple):
    """The RDF metadata of a picture, inside its SVG."""

    keywords: tuple[str, ...]
    title: str
    author: str
    licences: tuple[str, ...]  # every mark that is there, empty ones too
    incomplete: bool  # it links to another picture, which was missing when it was drawn

    @property
    def public_domain(self) -> bool:
        """Return whether all licence marks, at least one, are of the public domain."""
        plain = [re.sub("[^a-z]", "", mark.lower()) for mark in self.licences]
        return bool(plain) and all(mark.endswith("publicdomain") for mark in plain)


class Pair(NamedTuple):
    name: str  # folder/file, without ending
    png: Path
    description: Description


def unpack(packages: list[Path], folder: Path) -> None:
    """Unpack the two packages after checking their digests."""
    by_checksum = {hashlib.sha256(path.read_bytes()).hexdigest(): path for path in packages}
    for name, checksum in PACKAGES.items():
        if checksum not in by_checksum:
            given = ", ".join(f"{path.name} ({known})" for known, path in by_checksum.items())
            raise SystemExit(f"{name} with SHA-256 {checksum} is needed; given: {given or 'none'}")
    for path in packages:
        subprocess.run(["dpkg-deb", "-x", str(path), str(folder)], check=True)


def pairs(root: Path) -> Iterator[Pair]:
    """Return every SVG with its PNG, by name."""
    base = root / FOLDER if (root / FOLDER).is_dir() else root
    if not (base / "svg").is_dir():
        raise SystemExit(f"{root} holds neither svg/ and png/ nor {FOLDER}: give an unpacked tree.")
    for svg in sorted((base / "svg").rglob("*.svg")):
        name = svg.relative_to(base / "svg").with_suffix("")
        png = base / "png" / name.parent / f"{name.name}.png"
        if png.is_file():
            yield Pair(name.as_posix(), png, describe(svg.read_bytes()))


def describe(svg: bytes) -> Description:
    """Return keywords, title, author and licence marks of an SVG; missing ones are empty."""
    tree = ET.fromstring(svg)
    work = next((e for e in tree.iter() if _plain(e) == "Work"), tree)
    keywords = tuple(
        text
        for subject in work.iter(f"{DC}subject")
        for li in subject.iter(f"{RDF}li")
        if (text := (li.text or "").strip())
    )
    creators = (t for creator in work.iter(f"{DC}creator") for t in creator.iter(f"{DC}title"))
    licences = [element for element in tree.iter() if _plain(element).lower() == "license"]
    marks = [mark for e in licences for mark in map(e.get, (f"{RDF}resource", f"{RDF}about"))]
    links = (e.get(LINK, "data:") for e in tree.iter() if _plain(e) == "image")
    return Description(
        keywords,
        _text(work.find(f"{DC}title")),
        next(filter(None, map(_text, creators)), ""),
        tuple(mark for mark in marks if mark is not None),
        any(not link.startswith("data:") for link in links),
    )


def _plain(element: ET.Element) -> str:
    # Old and new Creative Commons namespaces are both in use.
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def _text(element: ET.Element | None) -> str:
    return " ".join((element.text or "").split()) if element is not None else ""
