"""What a model file says of an annotator, checked."""

from __future__ import annotations

from typing import Any

from prototag.annotator.results import Learned
from prototag.errors import ModelFileError


def is_needed_at_once(name: str) -> bool:
    """Whether an array is needed to annotate; the rest of the gallery waits."""
    return name in ("gallery/digests", "gallery/others") or not name.startswith("gallery/")


def names(given: Any, t: int) -> list[str]:
    """The vocabulary of a file, checked."""
    text = isinstance(given, list) and all(isinstance(n, str) and n.strip() for n in given)
    if not text or not 0 < len(set(given)) == len(given) == t:
        raise ModelFileError(f"The vocabulary does not name {t} different tags.")
    return list(given)


def learned(values: dict[str, Any]) -> Learned:
    """The counts of a file, checked."""
    rare, names = values["too_rare"], ("pictures", "tags", "untagged", "unreadable")
    counts = {name: values[name] for name in names}
    whole = all(type(count) is int and count >= 0 for count in [*counts.values(), *rare.values()])
    if not (whole and all(isinstance(tag, str) for tag in rare)):
        raise ModelFileError("The counts of what was learned make no sense: it is damaged.")
    return Learned(too_rare=dict(rare), **counts)
