"""``prototag reject``: reject tags of pictures in a library."""

from __future__ import annotations

from prototag.cli.accept import Alike, By, decide
from prototag.cli.library_common import Named, Tags
from prototag.cli.terminal import Json, Pictures, Quiet


def reject(
    tags: Tags,
    paths: Pictures,
    library: Named = None,
    alike: Alike = False,
    by: By = "person",
    json: Json = False,
    quiet: Quiet = False,  # noqa: ARG001 - handled by its callback
) -> None:
    """Reject tags of pictures in a library: they are not suggested for these pictures again."""
    decide("rejected", tags, paths, library, False, alike, by, json)
