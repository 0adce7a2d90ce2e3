"""Data frames: pictures and tags in columns, of pandas or another package."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from prototag.annotator.input_validation import is_data_frame, pictures
from prototag.errors import InputError
from prototag.metadata.csv_jsonl import FILE_COLUMNS, TAG_COLUMNS, split_tags

if TYPE_CHECKING:
    from pandas import DataFrame

    from prototag.annotator.annotator import Annotator
    from prototag.annotator.operating_points import TagSelector


def pictures_and_tags(
    source: Any, path_column: str | None, tags_column: str | None
) -> tuple[Any, Sequence[Collection[str]] | None]:
    """Return the pictures and the tags of a data frame; another source unchanged, without tags."""
    if not is_data_frame(source):
        if path_column is not None or tags_column is not None:
            raise InputError(
                "path_column and tags_column are for data frames: leave them out for other sources."
            )
        return source, None
    paths = list(source[_column(source, path_column, "path_column", FILE_COLUMNS)])
    tags = list(source[_column(source, tags_column, "tags_column", TAG_COLUMNS)])
    return paths, [_row_of_tags(value) for value in tags]


def annotate_frame(
    annotator: Annotator, images: Any, path_column: str | None, selector: TagSelector
) -> DataFrame:
    """Annotate into a data frame; see :meth:`prototag.Annotator.annotate_frame`."""
    try:
        import pandas
    except ModuleNotFoundError:
        raise InputError(
            "annotate_frame needs pandas, which is not installed: pip install pandas."
        ) from None
    if is_data_frame(images):
        sources = list(images[_column(images, path_column, "path_column", FILE_COLUMNS)])
        if isinstance(images, pandas.DataFrame):
            frame = images.copy()
        else:  # of another package, such as polars
            frame = pandas.DataFrame({name: list(images[name]) for name in images.columns})
    else:
        sources = list(pictures(images))
        frame = pandas.DataFrame({"path": pandas.Series(sources, dtype=object)})
    annotations = list(annotator.annotate_with(selector, sources))
    columns: dict[str, list[Any]] = {
        "tags": [one.names for one in annotations],
        "probabilities": [[tag.probability for tag in one.tags] for one in annotations],
        "estimates": [[tag.name for tag in one.estimates] for one in annotations],
        "suggestions": [[tag.name for tag in one.suggestions] for one in annotations],
        "error": [one.error for one in annotations],
    }
    for name, values in columns.items():
        frame[name] = pandas.Series(values, index=frame.index, dtype=object)
    return frame


def _column(frame: Any, name: str | None, parameter: str, usual: Sequence[str]) -> str:
    """Return the name of an existing column: the given one, or the first of the usual names."""
    columns = [str(column) for column in frame.columns]
    candidates = usual if name is None else (name,)
    for candidate in candidates:
        if candidate in columns:
            return candidate
    missing = f"has no column {name!r}" if name is not None else f"has no column {usual[0]!r}"
    raise InputError(
        f"the data frame {missing}, only {', '.join(map(repr, columns))}: name one as {parameter}."
    )


def _row_of_tags(value: Any) -> Collection[str]:
    """Return the tags of one cell: a list, text with separators, or a missing value."""
    if isinstance(value, str):
        return split_tags(value)
    is_nan = isinstance(value, float) and math.isnan(value)
    is_missing = value is None or is_nan or type(value).__name__ == "NAType"  # of pandas
    return () if is_missing else value
