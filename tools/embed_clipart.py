"""Build the demo collection of the package: tagged clip art of the Open Clip Art Library.

    apt-get download openclipart-svg openclipart-png
    python -m tools.embed_clipart openclipart-svg_*.deb openclipart-png_*.deb
    python -m tools.embed_clipart UNPACKED_FOLDER

Reads two Debian packages (public domain) or the folder they were unpacked to, and writes
``src/prototag/research/datasets/clipart.zip``: a folder of WebP pictures with a
``metadata.jsonl``, stored so that each member can be read alone. The steps, each a function below:

1. pairs of SVG and PNG whose RDF says public domain, and nothing else;
2. words to tags (``tools/clipart_tags.py``); copies of the same PNG become one picture;
3. pictures of at most 256 pixels on white, without very large, very small and blank ones;
4. groups of near duplicates by the vectors of the embedded network, of each group a few;
5. tags on at least 20 pictures, pictures with at least 2 tags, at most 60 with the same tags;
6. a split that cuts no group.

The same packages and the same Pillow, onnxruntime and zlib give the same bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import tempfile
import zipfile
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from PIL import Image
from scipy import sparse

from prototag.evaluation import splits
from prototag.images.decode import open_image
from tools.clipart_source import Pair, pairs, unpack
from tools.clipart_tags import UNFIT, spelled, tags_of

TARGET = Path(__file__).parents[1] / "src/prototag/research/datasets/clipart.zip"
MAX_SIDE = 256  # pixels of the longer side
WEBP_QUALITY = 75
MIN_SOURCE_SIDE = 48  # pixels of the longer side of the drawing
MAX_SOURCE_PIXELS = 40_000_000  # a few drawings have 170 to 620 million
MAX_DARKEST_LEVEL = 231  # of any channel; paler drawings are invisible on white
NEAR_DUPLICATE_COSINE = 0.93
MAX_NEAR_DUPLICATES = 8  # kept of a group
MAX_SAME_TAGS = 60  # pictures with equal tags that are kept
MIN_TAG_PICTURES = 20
MIN_PICTURE_TAGS = 2
TEST_SHARE = 0.2


@dataclass(frozen=True)
class Picture:
    name: str
    png: Path
    tags: frozenset[str]
    title: str = ""
    author: str = ""
    group: int = 0
    split: str = "train"
    webp: bytes = field(default=b"", repr=False)


def shareable(pairs: Iterable[Pair]) -> list[Pair]:
    """Return complete pictures in the public domain that are suitable for all audiences."""
    return [
        pair
        for pair in pairs
        if pair.description.public_domain
        and not pair.description.incomplete
        and not UNFIT & set(map(spelled, (*words(pair), *pair.description.title.split())))
    ]


def words(pair: Pair) -> tuple[str, ...]:
    return (*pair.description.keywords, *pair.name.split("/")[:-1])


def tagged(pairs: Sequence[Pair], refused: Iterable[Pair] = ()) -> list[Picture]:
    """Merge copies of a PNG and their tags; a rejected copy rejects all."""
    out = {_checksum(pair.png) for pair in refused}
    tags = tags_of([words(p) for p in pairs], [p.description.author for p in pairs])
    pictures = [
        Picture(pair.name, pair.png, given, pair.description.title, pair.description.author)
        for pair, given in zip(pairs, tags, strict=True)
    ]
    content = {picture.name: _checksum(picture.png) for picture in pictures}
    free = [picture for picture in pictures if content[picture.name] not in out]
    return joined(free, lambda picture: content[picture.name])


def joined(pictures: Iterable[Picture], key: Callable[[Picture], Hashable]) -> list[Picture]:
    """Return the first picture by name of each group, with the tags of the group."""
    first: dict[Hashable, Picture] = {}
    for picture in sorted(pictures, key=lambda picture: picture.name):
        known = first.setdefault(key(picture), picture)
        first[key(picture)] = replace(known, tags=known.tags | picture.tags)
    return list(first.values())


def _checksum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def drawn(picture: Picture) -> Picture | None:
    """Encode a picture as WebP without transparent margin; None if it would be hardly visible."""
    with Image.open(picture.png) as image:
        if image.width * image.height > MAX_SOURCE_PIXELS:
            return None
        clear = image.convert("RGBA")
    image = open_image(clear.crop(clear.getchannel("A").getbbox()))
    if max(image.size) < MIN_SOURCE_SIDE:
        return None
    image.thumbnail((MAX_SIDE, MAX_SIDE))
    if min(low for low, _ in image.getextrema()) > MAX_DARKEST_LEVEL:
        return None
    stream = io.BytesIO()
    image.save(stream, "WEBP", quality=WEBP_QUALITY, method=6)
    return replace(picture, webp=stream.getvalue())


def settled(pictures: Sequence[Picture]) -> list[Picture]:
    """Remove rare tags, pictures with few tags and large groups until nothing changes."""
    while True:
        count = Counter(tag for picture in pictures for tag in picture.tags)
        common = {tag for tag, n in count.items() if n >= MIN_TAG_PICTURES}
        kept = [replace(picture, tags=picture.tags & common) for picture in pictures]
        kept = [picture for picture in kept if len(picture.tags) >= MIN_PICTURE_TAGS]
        kept = thinned(kept, lambda picture: picture.tags, MAX_SAME_TAGS)
        if kept == pictures:
            return kept
        pictures = kept


def thinned(
    pictures: Sequence[Picture], key: Callable[[Picture], Hashable], most: int
) -> list[Picture]:
    """Keep at most ``most`` per group, evenly spread over names: adjacent names are alike."""
    kinds = defaultdict(list)
    for picture in sorted(pictures, key=lambda picture: picture.name):
        kinds[key(picture)].append(picture)
    kept = []
    for kind in kinds.values():
        step = max(1.0, len(kind) / most)
        kept += [kind[int(step * i)] for i in range(min(most, len(kind)))]
    return sorted(kept, key=lambda picture: picture.name)


def grouped(pictures: Sequence[Picture], vectors: np.ndarray) -> list[Picture]:
    """Return pictures with the number of their near-duplicate group."""
    groups = splits.near_duplicate_groups(vectors, NEAR_DUPLICATE_COSINE)
    return [replace(p, group=int(g)) for p, g in zip(pictures, groups, strict=True)]


def network_vectors(pictures: Sequence[Picture]) -> np.ndarray:
    from prototag import FeatureExtractor

    extractor = FeatureExtractor(crops="whole", cache=None)
    return extractor.transform([picture.webp for picture in pictures])


def parted(pictures: Sequence[Picture]) -> list[Picture]:
    """Assign pictures to a split that keeps groups together; groups are numbered from 0."""
    names = sorted({tag for picture in pictures for tag in picture.tags})
    Y = np.array([[tag in picture.tags for tag in names] for picture in pictures], np.float32)
    groups = np.unique([picture.group for picture in pictures], return_inverse=True)[1]
    test = set(
        splits.stratified_split(sparse.csr_array(Y), TEST_SHARE, groups=groups, random_state=0)[
            1
        ].tolist()
    )
    return [
        replace(picture, group=int(group), split="test" if i in test else "train")
        for i, (picture, group) in enumerate(zip(pictures, groups, strict=True))
    ]


def packed(pictures: Sequence[Picture]) -> bytes:
    """Write the container: an uncompressed zip file with fixed dates."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as container:
        for picture in pictures:
            container.writestr(_member(f"{picture.name}.webp"), picture.webp)
        lines = [json.dumps(_line(picture), ensure_ascii=False) for picture in pictures]
        text = "".join(f"{line}\n" for line in lines).encode()
        container.writestr(_member("metadata.jsonl"), text, zipfile.ZIP_DEFLATED, 9)
    return stream.getvalue()


def _member(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, (2005, 1, 1, 0, 0, 0))
    info.create_system = 3
    info.external_attr = 0o644 << 16
    return info


def _line(picture: Picture) -> dict[str, object]:
    facts = {"title": picture.title, "author": picture.author}
    return {
        "file_name": f"{picture.name}.webp",
        "tags": sorted(picture.tags),
        "split": picture.split,
        "group": picture.group,
        **{key: value for key, value in facts.items() if value},
    }


def make(root: Path, vectors_of: Callable[[Sequence[Picture]], np.ndarray]) -> list[Picture]:
    """Run all steps, from the unpacked packages to the pictures of the container."""
    Image.MAX_IMAGE_PIXELS = None  # drawn() has its own limit, and skips pictures above it
    all_pairs = list(pairs(root))
    free = shareable(all_pairs)
    print(f"{len(all_pairs):,} pairs, {len(free):,} free to share")
    names = {pair.name for pair in free}
    pictures = tagged(free, [pair for pair in all_pairs if pair.name not in names])
    print(f"{len(pictures):,} different pictures")
    # Of a thousand stars drawn by one script, the families' cap first spares drawing most.
    pictures = [done for picture in settled(pictures) if (done := drawn(picture))]
    pictures = joined(pictures, lambda picture: picture.webp)
    pictures = grouped(pictures, vectors_of(pictures))
    pictures = settled(thinned(pictures, lambda picture: picture.group, MAX_NEAR_DUPLICATES))
    return parted(pictures)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("source", type=Path, nargs="+", help="two .deb files, or a folder")
    parser.add_argument("--target", type=Path, default=TARGET)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = arguments.source[0]
        if not root.is_dir():
            root = Path(folder)
            unpack(arguments.source, root)
        pictures = make(root, network_vectors)
    data = packed(pictures)
    arguments.target.parent.mkdir(parents=True, exist_ok=True)
    arguments.target.write_bytes(data)
    n_tags = sum(len(picture.tags) for picture in pictures)
    print(
        f"{len(pictures):,} pictures, {len({t for p in pictures for t in p.tags})} tags, "
        f"{n_tags / len(pictures):.2f} a picture, "
        f"{sum(picture.split == 'test' for picture in pictures):,} held out\n"
        f"{arguments.target.name}: {len(data) / 1e6:.2f} MB, "
        f"sha256 {hashlib.sha256(data).hexdigest()}"
    )


if __name__ == "__main__":
    main()
