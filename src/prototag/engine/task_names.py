"""Display names of batch functions on the dashboard of a cluster.

:func:`batch_name` sets the name at the definition. Without it, the name is the first clause of the
docstring; for functions of other packages it is the function name.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

ATTRIBUTE = "__batch_name__"
MAX_CHARACTERS = 48

F = TypeVar("F", bound=Callable[..., Any])


def batch_name(words: str) -> Callable[[F], F]:
    """Give a batch function its display name; the function itself is returned unchanged."""

    def name(function: F) -> F:
        setattr(function, ATTRIBUTE, words)
        return function

    return name


def display_name(function: Callable[..., Any]) -> str:
    """Return the display name, without hyphens, which separate fields in Dask's task keys."""
    name = getattr(function, ATTRIBUTE, None) or _first_clause(function) or _name_in_words(function)
    words = re.sub(r"\W+", " ", name).strip() or "batch"
    return (words[0].upper() + words[1:])[:MAX_CHARACTERS].rstrip()


def _first_clause(function: Callable[..., Any]) -> str:
    module = getattr(function, "__module__", None) or ""
    if module.partition(".")[0] != __name__.partition(".")[0]:
        return ""  # docstrings of other packages often begin with signatures
    text = (getattr(function, "__doc__", None) or "").strip()
    return re.split(r"[.;:,(`\n]", text)[0].strip()


def _name_in_words(function: Callable[..., Any]) -> str:
    name: str = getattr(function, "__qualname__", type(function).__name__)
    return name.strip("_").removesuffix("_batch").replace("_", " ")
