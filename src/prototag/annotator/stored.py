"""What a model file says of an annotator, checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prototag.annotator.results import Learned
from prototag.errors import ModelFileError


def names(given: Any, t: int) -> list[str]:
    """The vocabulary of a file, checked."""
    text = isinstance(given, list) and all(isinstance(n, str) and n.strip() for n in given)
    if not text or not 0 < len(set(given)) == len(given) == t:
        raise ModelFileError(f"The vocabulary does not name {t} different tags.")
    return list(given)


def learned(values: Mapping[str, Any]) -> Learned:
    """The counts of a file, checked."""
    rare = values["too_rare"]
    counts = [values[name] for name in ("pictures", "tags", "untagged", "unreadable")]
    whole = all(type(count) is int and count >= 0 for count in (*counts, *rare.values()))
    if not whole or not all(isinstance(tag, str) for tag in rare):
        raise ModelFileError("The counts of what was learned make no sense: it is damaged.")
    return Learned(counts[0], counts[1], dict(rare), counts[2], counts[3])
