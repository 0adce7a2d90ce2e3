"""Sidecars in the shapes of other programs, and what they hold."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from PIL import Image

from prototag.metadata.xmp.packet import HIERARCHICAL, SUBJECT, TAGS_LIST, Packet

GOLDEN = Path(__file__).parent / "golden"


def golden(name: str, encoding: str = "utf-8") -> bytes:
    text = (GOLDEN / f"{name}.xmp").read_bytes().decode()
    return text.encode(encoding)


def texts(data: bytes | None) -> dict[tuple[str, str], list[str]]:
    packet = Packet(data)
    return {name: packet.values(name) for name in (SUBJECT, TAGS_LIST, HIERARCHICAL)}


def beside(image: Path, name: str, encoding: str = "utf-8") -> Path:
    """Put a sidecar of another program beside a picture."""
    path = image.with_name(image.name + ".xmp")
    path.write_bytes(golden(name, encoding))
    return path


def picture(path: Path, **options: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (8, 8)).save(path, **options)
    return path


def found(result, root: Path) -> dict[str, list[str]]:
    names = [str(path.relative_to(root)) for path in result.images]
    return dict(zip(names, result.tags, strict=True))


@contextmanager
def as_somebody(root: Path, *, locked: Path) -> Iterator[None]:
    """``locked`` cannot be entered meanwhile, not even by tests that root runs."""
    for parent in (root, *root.parents[:3]):
        if parent != Path(tempfile.gettempdir()):
            parent.chmod(0o755)
    locked.chmod(0)
    user = os.geteuid()
    try:
        os.seteuid(user or 65534)
        yield
    finally:
        os.seteuid(user)
        locked.chmod(0o755)
