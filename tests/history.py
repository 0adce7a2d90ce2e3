"""What stands in the journal of a library, for tests that undo."""

from __future__ import annotations

from itertools import islice

from prototag import Library
from prototag.library.types import Decision


def standing(library: Library) -> list[int]:
    """The batches of which something stands, the last first."""
    return list(dict.fromkeys(one.batch for one in library.history(100_000) if not one.undone))


def undo_last(library: Library, batches: int = 1) -> list[Decision]:
    """Undo the last batches that stand; all if there are fewer."""
    found = islice(standing(library), batches)
    return [one for batch in found for one in library.undo(batch).decisions]
