"""Pictures that the tests make: good ones, and files that real folders also hold."""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path

import numpy as np
from PIL import Image


def scene(width: int = 96, height: int = 64, seed: int = 0) -> Image.Image:
    """A smooth colour picture that no turn or mirror leaves as it is."""
    rng = np.random.default_rng(seed)
    small = Image.fromarray(rng.integers(0, 256, (6, 8, 3), np.uint8))
    return small.resize((width, height), Image.Resampling.BICUBIC)


def encoded(image: Image.Image, kind: str, **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def png_header(width: int, height: int) -> bytes:
    """A PNG of that size with nothing behind its header."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", b"") + chunk(b"IEND", b"")


def folder(
    path: Path, count: int, *, broken_every: int = 0, size: tuple[int, int] = (48, 36)
) -> list[Path]:
    """Small JPEGs; every ``broken_every``-th is truncated, empty, text or a bomb in turn."""
    path.mkdir(parents=True, exist_ok=True)
    bad = (
        lambda data: data[: len(data) // 2],
        lambda _: b"",
        lambda _: b"no picture",
        lambda _: png_header(50_000, 50_000),
    )
    files = []
    for number in range(count):
        data = encoded(scene(*size, seed=number), "JPEG")
        if broken_every and number % broken_every == broken_every - 1:
            data = bad[number // broken_every % len(bad)](data)
        file = path / f"{number:05}.jpg"
        file.write_bytes(data)
        files.append(file)
    return files


def photographs() -> dict[str, Path]:
    """Photographs that scikit-image and scikit-learn ship, by name."""
    import skimage.data
    import sklearn.datasets

    shipped = Path(skimage.data.__file__).parent, Path(sklearn.datasets.__file__).parent / "images"
    names = (
        "astronaut.png",
        "camera.png",
        "chelsea.png",
        "coffee.png",
        "rocket.jpg",
        "china.jpg",
        "flower.jpg",
    )
    return {name: next(f / name for f in shipped if (f / name).exists()) for name in names}
