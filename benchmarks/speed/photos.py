"""Folders of JPEG files cut from the photographs that scikit-image and scikit-learn ship."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image

NAMES = ("astronaut.png", "chelsea.png", "coffee.png", "rocket.jpg", "china.jpg", "flower.jpg")
SMALL = (480, 360)
LARGE = (4000, 3000)  # 12 megapixels


def originals() -> list[Image.Image]:
    import skimage.data
    import sklearn.datasets

    folders = Path(skimage.data.__file__).parent, Path(sklearn.datasets.__file__).parent / "images"
    paths = [folder / name for name in NAMES for folder in folders if (folder / name).exists()]
    return [Image.open(path).convert("RGB") for path in paths]


def pictures(size: tuple[int, int], count: int, seed: int) -> Iterator[Image.Image]:
    """Random parts of the photographs, some mirrored, with the grain that cameras add."""
    rng = np.random.default_rng(seed)
    photos = originals()
    for number in range(count):
        photo = photos[number % len(photos)]
        share = rng.uniform(0.7, 1)
        width, height = photo.width * share, photo.height * share
        left, top = rng.uniform(0, photo.width - width), rng.uniform(0, photo.height - height)
        box = (left, top, left + width, top + height)
        part = photo.resize(size, Image.Resampling.BICUBIC, box=box)
        grain = rng.normal(0, 4, (size[1], size[0], 1)).astype(np.float32)
        pixels = np.asarray(part, np.float32) + grain
        pixels = pixels[:, :: rng.choice([-1, 1])]
        yield Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))


def enlarged(source: Path, folder: Path, size: tuple[int, int], count: int) -> list[Path]:
    """The first photographs of a folder at another size, upright ones upright."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for path in sorted(source.glob("*.jpg"))[:count]:
        with Image.open(path) as photo:
            oriented = size if photo.width >= photo.height else size[::-1]
            large = photo.convert("RGB").resize(oriented, Image.Resampling.BICUBIC)
        files.append(folder / path.name)
        large.save(files[-1], quality=90)
    return files


def write(folder: Path, size: tuple[int, int], count: int, seed: int) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"{number:05}.jpg" for number in range(count)]
    for file, picture in zip(files, pictures(size, count, seed), strict=True):
        picture.save(file, quality=90)
    return files
