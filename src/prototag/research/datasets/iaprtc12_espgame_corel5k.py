"""Loaders of IAPRTC-12, ESP-GAME and Corel-5K with their official splits."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

from prototag.errors import DatasetError, InputError
from prototag.research.datasets import annotation_lists, matlab
from prototag.research.datasets.collection import Collection
from prototag.research.datasets.file_access import (
    Tree,
    checksum,
    find_all,
    only_file,
    report_problem,
)

_LISTS = (
    "TagProp's annotations are on Matthieu Guillaumin's page of data at INRIA (LEAR, ICCV 2009)"
)
_RELEASE = "the MATLAB files are linked from the repository hamid-amiri/MCDL-Image-Annotation"


class Benchmark(NamedTuple):
    """A data set with the counts of the literature."""

    name: str
    key: str  # prefix of its files
    train: int
    test: int
    tags: int
    pictures_at: str  # where its pictures are published


IAPRTC12 = Benchmark(
    "IAPRTC-12", "iaprtc12", 17_665, 1_962, 291, "the ImageCLEF page of the IAPR TC-12 benchmark"
)
ESPGAME = Benchmark(
    "ESP-GAME", "espgame", 18_689, 2_081, 268, "John Langford's page (ESP-ImageSet.tar.gz)"
)
COREL5K = Benchmark(
    "Corel-5K", "corel5k", 4_500, 499, 260, "Kobus Barnard's page of the ECCV 2002 data"
)

_PARAMETERS = """

    Parameters
    ----------
    folder : path
        Contains, at any depth, one of: TagProp's ``{key}_dictionary.txt``,
        ``{key}_train_list.txt``,
        ``{key}_train_annot.hvecs`` and the same for test; ``train.json`` and ``test.json``; the
        authors' ``trainAnnotation*.mat`` and ``testAnnotation*.mat`` with ``deepFeature_*.mat``.
    images : path, optional
        The folder of the pictures; by default ``folder``. If it has no pictures, the collection has
        names only.
    feature : str or list of str, optional
        Vectors to read: a network of ``deepFeature_*`` files (such as ``"dense161"``; by default
        the only one), or features of TagProp's lists (``"Gist"``, ``["Gist", "DenseSift"]``).
    form : {{"tagprop", "json", "matlab"}}, optional
        The form to read, if ``folder`` contains several.
    strict : bool, default=True
        Counts other than {train:,} training images, {test:,} test images and {tags} tags, and
        missing pictures, are errors; otherwise they are warnings, and images without picture are
        omitted.

    Returns
    -------
    Collection
    """


def _load(
    benchmark: Benchmark,
    folder: str | os.PathLike[str],
    images: str | os.PathLike[str] | None,
    feature: str | Sequence[str] | None,
    form: str | None,
    strict: bool,
) -> Collection:
    root = Path(folder)
    if not root.is_dir():
        raise DatasetError(f"{root} is not a folder. {_where(benchmark)}")
    release = _read(benchmark, root, feature, form)
    n, t = release.Y.shape
    counts = (release.n_train, n - release.n_train, t)
    expected = (benchmark.train, benchmark.test, benchmark.tags)
    if counts != expected:
        report_problem(
            "{}: {:,} training images, {:,} test images and {:,} tags instead of ".format(
                root, *counts
            )
            + "{:,}, {:,} and {:,} of {}.".format(*expected, benchmark.name),
            strict=strict,
        )
    collection = Collection(
        name=benchmark.name,
        Y=release.Y,
        tags=release.tags,
        train=np.arange(release.n_train),
        test=np.arange(release.n_train, n),
        X=release.X,
        names=release.names,
        source=release.source,
        checksum=checksum(release.files),
    )
    if release.names is None:
        if images is not None:
            raise DatasetError(f"{release.source} do not name the images: omit images=.")
        return collection
    return _with_pictures(benchmark, collection, Path(images or root), images is not None, strict)


def _with_pictures(
    benchmark: Benchmark, collection: Collection, root: Path, asked: bool, strict: bool
) -> Collection:
    tree = Tree(root)
    if not tree:
        if asked:
            unread = f" ({tree.problems[0]})" if tree.problems else ""
            raise DatasetError(
                f"No pictures below {root}{unread}. They are on {benchmark.pictures_at}."
            )
        return collection
    paths, lost = find_all(tree, collection.names or [])
    if lost:
        report_problem(f"{lost}. The pictures are on {benchmark.pictures_at}.", strict=strict)
        rows = np.array([row for row, path in enumerate(paths) if path is not None], dtype=int)
        collection = collection.keep(rows)
    return replace(collection, images=[path for path in paths if path is not None])


def _read(
    benchmark: Benchmark, root: Path, feature: str | Sequence[str] | None, form: str | None
) -> annotation_lists.Release:
    key = benchmark.key
    first_files = {
        "tagprop": only_file(root, f"{key}_train_list.txt"),
        "json": only_file(root, f"{key}_train.json", "train.json"),
        "matlab": only_file(root, *_spellings(key)),
    }
    available = {name: path for name, path in first_files.items() if path is not None}
    if form is not None:
        if form not in first_files:
            raise InputError(f"form={form!r}: give one of {', '.join(first_files)}.")
        available = {name: path for name, path in available.items() if name == form}
    if not available:
        raise DatasetError(
            f"{root} does not contain {benchmark.name}: neither {key}_train_list.txt nor "
            f"train.json nor trainAnnotation*.mat. {_where(benchmark)}"
        )
    if len(available) > 1:
        raise DatasetError(
            f"{root} contains several forms: give form= one of {', '.join(available)}."
        )
    name, path = next(iter(available.items()))
    if name == "tagprop":
        return annotation_lists.tagprop(path, key, feature)
    if name == "json":
        if feature is not None:
            raise DatasetError("JSON lists come without vectors: omit feature=.")
        return annotation_lists.json_lists(path)
    if feature is not None and not isinstance(feature, str):
        raise DatasetError(f"feature={feature!r}: give one name for MATLAB files.")
    return matlab.release(path, feature, (benchmark.train, benchmark.test, benchmark.tags))


def _spellings(key: str) -> list[str]:
    return [f"trainAnnotation{name}.mat" for name in (key.capitalize(), key, key.upper(), "")]


def _where(benchmark: Benchmark) -> str:
    return f"{_LISTS}; {_RELEASE}; the pictures are on {benchmark.pictures_at}."


class _Loader(Protocol):
    def __call__(
        self,
        folder: str | os.PathLike[str],
        *,
        images: str | os.PathLike[str] | None = None,
        feature: str | Sequence[str] | None = None,
        form: str | None = None,
        strict: bool = True,
    ) -> Collection: ...


def _loader(benchmark: Benchmark, summary: str) -> _Loader:
    """Return the public function that loads a benchmark."""

    def load(
        folder: str | os.PathLike[str],
        *,
        images: str | os.PathLike[str] | None = None,
        feature: str | Sequence[str] | None = None,
        form: str | None = None,
        strict: bool = True,
    ) -> Collection:
        return _load(benchmark, folder, images, feature, form, strict)

    load.__name__ = load.__qualname__ = benchmark.key
    load.__doc__ = summary + _PARAMETERS.format(**benchmark._asdict())
    return load


iaprtc12 = _loader(
    IAPRTC12, "Load IAPRTC-12: 19,627 photographs of travellers, 291 words of their captions."
)
espgame = _loader(
    ESPGAME, "Load ESP-GAME: 20,770 pictures with 268 words on which two players agreed."
)
corel5k = _loader(COREL5K, "Load Corel-5K: 4,999 stock photographs with 1 to 5 of 260 keywords.")
