"""``prototag reject``: pictures lack tags."""

from __future__ import annotations

from prototag.cli.accept import Alike, By, decided
from prototag.cli.library_common import Named, Tags
from prototag.cli.terminal import Json, Pictures, Quiet


def reject(
    tags: Tags,
    paths: Pictures,
    library: Named = None,
    alike: Alike = False,
    by: By = "person",
    json: Json = False,
    quiet: Quiet = False,  # noqa: ARG001  (heard by its callback)
) -> None:
    """Say that pictures of the library lack tags: they are not suggested for them again."""
    decided("rejected", tags, paths, library, False, alike, by, json)
