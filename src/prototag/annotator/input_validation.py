"""Input validation of the annotator: pictures and lists of tags."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from prototag.errors import InputError

if TYPE_CHECKING:
    from prototag.images.decode import Source

_TAGS_HINT = (
    'give one list of tags for each picture, such as [["sky", "wall"], ["sky"], []]. A list may be '
    "empty"
)
_MATRIX_HINT = "a 0/1 matrix is for recommended() and Tagger, which train on vectors"
PIXEL_AXES = 3  # height x width x channels: one picture; an array with one more is a batch


def is_one_picture(images: object) -> bool:
    """Return whether this is a single picture: a path, encoded bytes, a PIL image or pixels."""
    if isinstance(images, str | bytes | os.PathLike):
        return True
    if isinstance(images, np.ndarray):
        return images.dtype.kind in "uif" and images.ndim in (PIXEL_AXES - 1, PIXEL_AXES)
    return hasattr(images, "convert")


def pictures(images: Any) -> Iterator[Source]:
    """Iterate over pictures; one picture or one folder counts as a list.

    Raises
    ------
    InputError
        If ``images`` is none of these, or a folder without pictures.
    """
    if isinstance(images, str | os.PathLike) and os.path.isdir(images):
        return iter(_in_folder(Path(images)))
    if is_one_picture(images):
        return iter([images])
    if is_data_frame(images):
        raise InputError(
            f"{_kind(images)} is not a list of pictures: give its column of paths, or use "
            "annotate_frame."
        )
    if not isinstance(images, Iterable):
        raise InputError(
            f"{_kind(images)} is not a picture: give a path, a folder or a list of pictures."
        )
    return iter(images)


def _in_folder(folder: Path) -> list[Source]:
    from prototag.metadata import find_files

    def report(problem: str) -> None:
        warnings.warn(problem, stacklevel=4)

    paths: list[Source] = [*find_files.pictures(folder, report)]
    if not paths:
        raise InputError(f"{folder} contains no pictures: give another folder, or pictures.")
    return paths


def tag_lists(tags: Any) -> list[list[str]]:
    """Return the tags of each picture as lists of text.

    Raises
    ------
    InputError
        If ``tags`` is a string, a table, a 0/1 matrix or anything else than a list of tags for each
        picture.
    """
    if isinstance(tags, str | bytes | Mapping) or is_data_frame(tags):
        raise InputError(f"tags is {_kind(tags)}: {_TAGS_HINT}.")
    if _is_matrix(tags):
        raise InputError(f"tags is a matrix: {_TAGS_HINT}; {_MATRIX_HINT}.")
    if not isinstance(tags, Iterable):
        raise InputError(f"tags is {_kind(tags)}: {_TAGS_HINT}.")
    return [_tag_list(row, number) for number, row in enumerate(tags)]


def _tag_list(row: Any, number: int) -> list[str]:
    place = f"tags[{number}]"
    if isinstance(row, str):
        raise InputError(f"{place} is the string {row!r}: {_TAGS_HINT}.")
    if not isinstance(row, Iterable) or isinstance(row, bytes | Mapping):
        shown = repr(row) if row is None else _kind(row)
        raise InputError(f"{place} is {shown}: {_TAGS_HINT}.")
    tags = list(row)
    for tag in tags:
        if isinstance(tag, int | np.integer | np.bool_):
            raise InputError(f"{place} contains the number {tag}: {_TAGS_HINT}; {_MATRIX_HINT}.")
        if not isinstance(tag, str):
            raise InputError(f"{place} contains {tag!r}, which is not text: {_TAGS_HINT}.")
    return [str(tag) for tag in tags]  # converts NumPy strings


def is_data_frame(value: Any) -> bool:
    """Return whether this is a data frame of any package; a Series of lists is not."""
    columns = getattr(value, "columns", None)
    return columns is not None and not callable(columns)


def _is_matrix(value: Any) -> bool:
    shape = getattr(value, "shape", ())
    dtype = getattr(value, "dtype", None)
    return len(shape) == 2 and getattr(dtype, "kind", "") in "biuf"


def _kind(value: Any) -> str:
    name = "string" if isinstance(value, str) else type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"
