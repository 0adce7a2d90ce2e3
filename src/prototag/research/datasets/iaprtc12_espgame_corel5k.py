"""IAPRTC-12, ESP-GAME and Corel-5K with their official splits, as they are distributed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from prototag.errors import DatasetError, InputError
from prototag.research.datasets import annotation_lists, matlab
from prototag.research.datasets.collection import Collection
from prototag.research.datasets.file_access import Tree, checksum, complain, find_all, only_file

_LISTS = (
    "TagProp's annotations are on Matthieu Guillaumin's page of data at INRIA (LEAR, ICCV 2009)"
)
_RELEASE = "the MATLAB files are linked from the repository hamid-amiri/MCDL-Image-Annotation"


class Benchmark(NamedTuple):
    """A data set as the literature counts it."""

    name: str
    key: str  # how its files begin
    train: int
    test: int
    tags: int
    home: str  # of its pictures


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
        Holds, at any depth, one of: TagProp's ``{key}_dictionary.txt``, ``{key}_train_list.txt``,
        ``{key}_train_annot.hvecs`` and the same for test; ``train.json`` and ``test.json``; the
        authors' ``trainAnnotation*.mat`` and ``testAnnotation*.mat`` with ``deepFeature_*.mat``.
    images : path, optional
        The tree of pictures; by default they are looked for in ``folder``. Where none are found at
        all, the collection has names and no pictures.
    feature : str or list of str, optional
        Vectors to read: a network of ``deepFeature_*`` files (``"dense161"``; the only one is taken
        unasked), or features of TagProp's lists (``"Gist"``, ``["Gist", "DenseSift"]``).
    form : {{"tagprop", "json", "matlab"}}, optional
        Which of the three forms to read, if ``folder`` holds several.
    strict : bool, default=True
        Counts other than {train:,} training images, {test:,} test images and {tags} tags, and
        missing pictures, are an error; otherwise a warning, and images without picture are left
        out.

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
        raise DatasetError(f"{root} is no folder. {_where(benchmark)}")
    found = _read(benchmark, root, feature, form)
    n, t = found.Y.shape
    got = (found.n_train, n - found.n_train, t)
    known = benchmark[2:5]
    if got != known:
        complain(
            "{}: {:,} training images, {:,} test images and {:,} tags instead of ".format(
                root, *got
            )
            + "{:,}, {:,} and {:,} of {}.".format(*known, benchmark.name),
            strict=strict,
        )
    collection = Collection(
        name=benchmark.name,
        Y=found.Y,
        tags=found.tags,
        train=np.arange(found.n_train),
        test=np.arange(found.n_train, n),
        X=found.X,
        names=found.names,
        source=found.source,
        checksum=checksum(found.files),
    )
    if found.names is None:
        if images is not None:
            raise DatasetError(f"{found.source} do not name the images: leave out images=.")
        return collection
    return _with_pictures(benchmark, collection, Path(images or root), images is not None, strict)


def _with_pictures(
    benchmark: Benchmark, collection: Collection, root: Path, asked: bool, strict: bool
) -> Collection:
    tree = Tree(root)
    if not tree:
        if asked:
            unread = f" ({tree.problems[0]})" if tree.problems else ""
            raise DatasetError(f"No pictures below {root}{unread}. They are on {benchmark.home}.")
        return collection
    paths, lost = find_all(tree, collection.names or [])
    if lost:
        complain(f"{lost}. The pictures are on {benchmark.home}.", strict=strict)
        rows = np.array([row for row, path in enumerate(paths) if path is not None], dtype=int)
        collection = collection.keep(rows)
    return replace(collection, images=[path for path in paths if path is not None])


def _read(
    benchmark: Benchmark, root: Path, feature: str | Sequence[str] | None, form: str | None
) -> annotation_lists.Release:
    key = benchmark.key
    firsts = {
        "tagprop": only_file(root, f"{key}_train_list.txt"),
        "json": only_file(root, f"{key}_train.json", "train.json"),
        "matlab": only_file(root, *_spellings(key)),
    }
    there = {name: path for name, path in firsts.items() if path is not None}
    if form is not None:
        if form not in firsts:
            raise InputError(f"form={form!r}: give one of {', '.join(firsts)}.")
        there = {name: path for name, path in there.items() if name == form}
    if not there:
        raise DatasetError(
            f"{root} holds no {benchmark.name}: neither {key}_train_list.txt nor train.json nor "
            f"trainAnnotation*.mat. {_where(benchmark)}"
        )
    if len(there) > 1:
        raise DatasetError(f"{root} holds several forms: give form= one of {', '.join(there)}.")
    name, path = next(iter(there.items()))
    if name == "tagprop":
        return annotation_lists.tagprop(path, key, feature)
    if name == "json":
        if feature is not None:
            raise DatasetError("JSON lists come without vectors: leave out feature=.")
        return annotation_lists.json_lists(path)
    if feature is not None and not isinstance(feature, str):
        raise DatasetError(f"feature={feature!r}: give one name for MATLAB files.")
    return matlab.release(path, feature, benchmark[2:5])


def _spellings(key: str) -> list[str]:
    return [f"trainAnnotation{name}.mat" for name in (key.capitalize(), key, key.upper(), "")]


def _where(benchmark: Benchmark) -> str:
    return f"{_LISTS}; {_RELEASE}; the pictures are on {benchmark.home}."


def iaprtc12(
    folder: str | os.PathLike[str],
    *,
    images: str | os.PathLike[str] | None = None,
    feature: str | Sequence[str] | None = None,
    form: str | None = None,
    strict: bool = True,
) -> Collection:
    """IAPRTC-12: 19,627 photographs of travellers, 291 words of their captions."""
    return _load(IAPRTC12, folder, images, feature, form, strict)


def espgame(
    folder: str | os.PathLike[str],
    *,
    images: str | os.PathLike[str] | None = None,
    feature: str | Sequence[str] | None = None,
    form: str | None = None,
    strict: bool = True,
) -> Collection:
    """ESP-GAME: 20,770 pictures with 268 words on which two players agreed."""
    return _load(ESPGAME, folder, images, feature, form, strict)


def corel5k(
    folder: str | os.PathLike[str],
    *,
    images: str | os.PathLike[str] | None = None,
    feature: str | Sequence[str] | None = None,
    form: str | None = None,
    strict: bool = True,
) -> Collection:
    """Corel-5K: 4,999 stock photographs with 1 to 5 of 260 keywords."""
    return _load(COREL5K, folder, images, feature, form, strict)


for _function, _benchmark in ((iaprtc12, IAPRTC12), (espgame, ESPGAME), (corel5k, COREL5K)):
    _function.__doc__ = f"{_function.__doc__}" + _PARAMETERS.format(**_benchmark._asdict())
