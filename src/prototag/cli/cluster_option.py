"""The option ``--cluster``: a Dask cluster instead of the threads of this computer."""

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
        help="Compute on the Dask cluster whose scheduler has this address (tcp://host:8786) or "
        "wrote this file (`dask scheduler --scheduler-file FILE`; needs prototag[cluster]).",
    ),
]
joined: list[Dask] = []


def join(address: str) -> Engine:
    """Connect to a cluster until the command ends."""
    try:
        from prototag.engine.dask import Dask
    except ImportError as error:
        raise typer.BadParameter(
            'a cluster needs Dask: pip install "prototag[cluster]".'
        ) from error
    joined.append(Dask(address))
    return joined[-1]


def leave() -> None:
    """Disconnect from all clusters."""
    while joined:
        joined.pop().close()
