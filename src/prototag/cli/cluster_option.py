"""The option ``--cluster``: a Dask cluster in the place of this machine's threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from prototag.engine import Engine
    from prototag.engine.dask import Dask

Cluster = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Work on the Dask cluster whose scheduler is at this address (tcp://host:8786), or "
        "wrote this file (`dask scheduler --scheduler-file FILE`; needs prototag[cluster]).",
    ),
]
joined: list[Dask] = []


def join(address: str) -> Engine:
    """The engine of a cluster, until the command ends."""
    try:
        from prototag.engine.dask import Dask
    except ImportError as error:
        raise typer.BadParameter(
            'a cluster needs Dask: pip install "prototag[cluster]".'
        ) from error
    joined.append(Dask(address))
    return joined[-1]


def leave() -> None:
    """The command has ended."""
    while joined:
        joined.pop().close()
