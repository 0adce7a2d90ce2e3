"""Loaders of FLICKR-60K and FLICKR-125K, built from MIRFLICKR-1M by the paper's rules.

The images are numbered, 10,000 per folder: the tags of ``images/0/0.jpg`` are the lines of
``meta/tags/0/0.txt`` (``tags/0/0.txt`` if only that archive was unpacked).
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from prototag.errors import DatasetError, InputError
from prototag.evaluation.splits import stratified_split
from prototag.research.datasets.collection import Collection, Ints, Seed, tag_matrix
from prototag.research.datasets.file_access import checksum, read_lines, report_problem
from prototag.research.datasets.matlab import release

_WHERE = (
    "MIRFLICKR-1M is on the MIRFLICKR page of LIACS, Leiden University: unpack images0.zip ... "
    "images9.zip (one for each 100,000 images that are needed) and tags.zip into one folder."
)
# A photograph on Flickr has at most 75 tags of at most 255 characters.
_MAX_TAG_BYTES = 1 << 18


def mirflickr(
    folder: str | os.PathLike[str],
    first: int,
    *,
    at_least: int = 500,
    fewest: int = 2,
    test_share: float = 0.3,
    split: str = "random",
    random_state: Seed = 0,
    encoding: str = "utf-8",
    strict: bool = True,
    name: str = "MIRFLICKR",
) -> Collection:
    """Build a collection of tagged photographs from MIRFLICKR-1M.

    1. Take the ``first`` images by number.
    2. Keep the tags that at least ``at_least`` of them have.
    3. Drop images that have fewer than ``fewest`` of these tags.
    4. Split the rest: ``test_share`` of them are test images.

    Tags are stripped of surrounding blanks. Rules 2 and 3 are applied once, in this order, so that
    a tag may be on fewer than ``at_least`` of the remaining images.

    Parameters
    ----------
    folder : path
        The folder of the unpacked archives: ``images`` (or ``images0``, ``images1``, ...) and
        ``meta/tags`` or
        ``tags``.
    first : int
        The number of images to read.
    at_least : int, default=500
        The smallest number of images of a tag.
    fewest : int, default=2
        The smallest number of tags of an image.
    test_share : float, default=0.3
    split : {"random", "stratified"}, default="random"
        The paper's split is random; for stratified splits see
        :func:`prototag.evaluation.splits.stratified_split`.
    random_state : int, Generator or None, default=0
        The seed of the split.
    encoding : str, default="utf-8"
        The encoding of the tag files.
    strict : bool, default=True
        A missing picture is an error; otherwise a warning, and its image is omitted.
    name : str
        The name of the collection.

    Returns
    -------
    Collection
        With ``images`` and ``names`` (the numbers), in the order of the numbers.
    """
    _check_counts(first=first, at_least=at_least, fewest=fewest)
    if not 0 < test_share < 1:
        raise InputError(f"test_share={test_share!r}: give a share between 0 and 1.")
    if split not in ("random", "stratified"):
        raise InputError(f"split={split!r}: give 'random' or 'stratified'.")
    root = Path(folder)
    listed = _numbered(_tag_folders(root), ".txt", first)
    pictures = _numbered(_image_folders(root), ".jpg", first)
    numbers = _consecutive(listed, first, root)
    lost = [number for number in numbers if number not in pictures]
    if lost:
        report_problem(
            f"{root}: {len(lost):,} of {first:,} pictures are missing (the first: {lost[0]}.jpg). "
            f"{_WHERE}",
            strict=strict,
        )
        numbers = [number for number in numbers if number in pictures]

    digest = hashlib.sha256()
    tag_lists: list[list[str]] = []
    for number in numbers:
        tags = read_lines(listed[number], encoding=encoding, max_bytes=_MAX_TAG_BYTES)
        tag_lists.append(list(dict.fromkeys(tags)))
        digest.update(f"{number}\t{chr(9).join(tags)}\n".encode())
    count = Counter(tag for tags in tag_lists for tag in tags)
    frequent = {tag for tag, images in count.items() if images >= at_least}
    if not frequent:
        raise DatasetError(
            f"No tag is on at least {at_least:,} of {len(numbers):,} images (the most frequent on "
            f"{max(count.values(), default=0):,}): give a smaller at_least, or more images."
        )
    rows = []
    for row, tags in enumerate(tag_lists):
        tag_lists[row] = [tag for tag in tags if tag in frequent]
        if len(tag_lists[row]) >= fewest:
            rows.append(row)
    if len(rows) < 2:
        raise DatasetError(
            f"{len(rows)} of {len(numbers):,} images have at least {fewest} of the "
            f"{len(frequent):,} frequent tags: give a smaller fewest."
        )
    Y, names = tag_matrix((tag_lists[row] for row in rows), sorted(frequent))
    train, test = _split(Y, test_share, split, random_state)
    return Collection(
        name=name,
        Y=Y,
        tags=names,
        train=train,
        test=test,
        images=[pictures[numbers[row]] for row in rows],
        names=[str(numbers[row]) for row in rows],
        source=(
            f"the first {first:,} images of MIRFLICKR-1M, tags on at least {at_least:,} of them, "
            f"images with at least {fewest} of these tags, {split} split, seed {random_state}"
        ),
        checksum=digest.hexdigest(),
    )


def _check_counts(**counts: int) -> None:
    for what, value in counts.items():
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
            raise InputError(f"{what}={value!r}: give a whole number of at least 1.")


def flickr60k(
    folder: str | os.PathLike[str], *, feature: str | None = None, **options: Any
) -> Collection:
    """Load FLICKR-60K: the first 100,000 images of MIRFLICKR-1M by the paper's rules.

    Parameters
    ----------
    folder : path
        An unpacked MIRFLICKR-1M; or the authors' ``trainAnnotationFlickr60k.mat``,
        ``testAnnotationFlickr60k.mat`` and ``deepFeature_*Flickr60k.mat``, with their own split.
    feature : str, optional
        The ``deepFeature_*`` file to read, if there are several, such as ``"dense161"``.
    **options
        Options of :func:`mirflickr`, for a collection that is built.

    Returns
    -------
    Collection
    """
    return _released_or_built("FLICKR-60K", 100_000, folder, feature, options)


def flickr125k(
    folder: str | os.PathLike[str], *, feature: str | None = None, **options: Any
) -> Collection:
    """Load FLICKR-125K: the first 200,000 images of MIRFLICKR-1M, as :func:`flickr60k`."""
    return _released_or_built("FLICKR-125K", 200_000, folder, feature, options)


def _released_or_built(
    name: str,
    first: int,
    folder: str | os.PathLike[str],
    feature: str | None,
    options: dict[str, Any],
) -> Collection:
    ending = name.replace("-", "").capitalize()  # Flickr60k
    annotated = Path(folder) / f"trainAnnotation{ending}.mat"
    if not annotated.exists():
        if feature is not None:
            raise DatasetError(f"feature={feature!r}: {annotated} is not there.")
        return mirflickr(folder, **{"first": first, "name": name, **options})
    if options:
        raise DatasetError(
            f"{annotated} has its own split: omit {', '.join(options)}, or give a folder "
            "without it to build the collection."
        )
    authors = release(annotated, feature, None)
    n = authors.Y.shape[0]
    return Collection(
        name=name,
        Y=authors.Y,
        tags=authors.tags,
        train=np.arange(authors.n_train),
        test=np.arange(authors.n_train, n),
        X=authors.X,
        source=authors.source,
        checksum=checksum(authors.files),
    )


def _split(
    Y: sparse.csr_array, test_share: float, split: str, random_state: Seed
) -> tuple[Ints, Ints]:
    if split == "stratified":
        return stratified_split(Y, test_share, random_state=random_state)
    n = Y.shape[0]
    size = min(max(round(n * test_share), 1), n - 1)
    order = np.random.default_rng(random_state).permutation(n)
    return np.sort(order[size:]), np.sort(order[:size])


def _tag_folders(root: Path) -> list[Path]:
    for inner in ("meta/tags", "tags"):
        if (root / inner).is_dir():
            return _by_number(root / inner)
    raise DatasetError(f"{root} has neither meta/tags nor tags. {_WHERE}")


def _image_folders(root: Path) -> list[Path]:
    tops = [root / "images", *(root / f"images{number}" for number in range(10))]
    tops += [top / "images" for top in tops]
    folders = [folder for top in tops if top.is_dir() for folder in _by_number(top)]
    if not folders:
        raise DatasetError(f"{root} has no images/0, images/1, ... {_WHERE}")
    return sorted(folders, key=lambda folder: int(folder.name))


def _by_number(top: Path) -> list[Path]:
    folders = [path for path in top.iterdir() if path.name.isdecimal() and path.is_dir()]
    return sorted(folders, key=lambda folder: int(folder.name))


def _numbered(folders: list[Path], suffix: str, enough: int) -> dict[int, Path]:
    """Files by number; folders after the one that completes ``enough`` are not opened."""
    files: dict[int, Path] = {}
    for folder in folders:
        # One more than enough: should the numbers start at 1, as in MIRFLICKR-25000.
        if len(files) > enough:
            break
        for name in os.listdir(folder):
            stem, ending = os.path.splitext(name)
            if ending.lower() == suffix and stem.isdecimal():
                number = int(stem)
                if number in files:
                    raise DatasetError(f"{files[number]} and {folder / name} are both {number}.")
                files[number] = folder / name
    return files


def _consecutive(listed: dict[int, Path], first: int, root: Path) -> list[int]:
    start = min(listed, default=0)
    if start > 1:
        raise DatasetError(f"{root}: the tag files start at {start}.txt, not at 0. {_WHERE}")
    numbers = list(range(start, start + first))
    lost = [number for number in numbers if number not in listed]
    if lost:
        raise DatasetError(
            f"{root}: {first - len(lost):,} of the first {first:,} tag files are there "
            f"(the first that is missing: {lost[0]}.txt). {_WHERE}"
        )
    return numbers
