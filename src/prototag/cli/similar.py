"""``prototag similar``: find similar training pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from prototag.cli import terminal
from prototag.cli.terminal import Cache, Image, Jobs, Json, Model


def similar(
    image: Image,
    model: Model = Path(terminal.MODEL),
    count: Annotated[
        int, typer.Option("--count", "-n", min=1, help="Number of pictures to show.")
    ] = 10,
    by: Annotated[
        Literal["vector", "code"],
        typer.Option(
            help="Compare feature vectors (vector), or codes of prototypes (code), which also "
            "reflect tags."
        ),
    ] = "vector",
    json: Json = False,
    jobs: Jobs = -1,
    cache: Cache = None,
) -> None:
    """Find the training pictures that are most similar to a picture."""
    neighbors = terminal.load(model, jobs, cache).similar(image, count, by=by)
    if json:
        import json as jsonlib

        print(jsonlib.dumps({"path": str(image), **neighbors.to_dict()}))
        return
    terminal.table(
        ["Similarity", "Picture", "Tags"],
        [
            [f"{near.similarity:.2f}", near.picture.name, terminal.leaves(near.picture.tags)]
            for near in neighbors
        ],
        right=["Similarity"],
    )
