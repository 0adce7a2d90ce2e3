"""``prototag similar``: training pictures like a new one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from prototag.cli import console
from prototag.cli.console import Cache, Image, Jobs, Json, Model


def similar(
    image: Image,
    model: Model = Path(console.MODEL),
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="How many to show.")] = 10,
    by: Annotated[
        Literal["vector", "code"],
        typer.Option(
            help="By what the network sees (vector), or by the mixture of prototypes, which also "
            "knows of tags (code)."
        ),
    ] = "vector",
    json: Json = False,
    jobs: Jobs = -1,
    cache: Cache = None,
) -> None:
    """Find the pictures of the training collection that are most like one."""
    found = console.load(model, jobs, cache).similar(image, count, by=by)
    if json:
        import json as jsonlib

        for near in found:
            likeness = round(near.likeness, 4)
            print(jsonlib.dumps({"likeness": likeness, "name": near.name, "tags": near.tags}))
        return
    console.table(
        ["Likeness", "Picture", "Tags"],
        [[f"{near.likeness:.2f}", near.name, ", ".join(near.tags)] for near in found],
        right=["Likeness"],
    )
