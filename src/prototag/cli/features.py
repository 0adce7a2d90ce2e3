"""``prototag features``: compute the vectors of a collection into a folder for training."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

import typer

from prototag.cli import cluster_option as clusters
from prototag.cli import terminal
from prototag.cli.cluster_option import Cluster
from prototag.cli.terminal import Cache, Column, Jobs, Json, Kind, Quiet

SHOWN = 10  # unreadable pictures


def features(
    sources: Annotated[
        list[Path],
        typer.Argument(
            help="Folders of tagged pictures, and lists of pictures with their tags (CSV, JSON "
            "lines).",
            metavar="SOURCE...",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="The folder to write, or to continue."),
    ],
    kind: Kind = "auto",
    column: Column = None,
    hierarchy: Annotated[
        Literal["path", "leaf"],
        typer.Option(help="Keep a tag such as animal|cat as it is (path), or as cat (leaf)."),
    ] = "path",
    crops: Annotated[
        str,
        typer.Option(metavar="large|fast|paper", help="Crops of the pictures: see train."),
    ] = "large",
    network: Annotated[
        str,
        typer.Option(
            metavar="embedded|quick|best|FILE.onnx",
            help="Network that computes the vectors: see train.",
        ),
    ] = "embedded",
    untagged: Annotated[
        Literal["ignore", "negative"],
        typer.Option(
            help="Ignore pictures without any tag (ignore), or treat every tag as absent in them "
            "(negative)."
        ),
    ] = "ignore",
    rows: Annotated[
        int, typer.Option(min=1, help="Pictures in a piece; a killed run loses at most one piece.")
    ] = 8192,
    json: Json = False,
    quiet: Quiet = False,  # noqa: ARG001 - handled by its callback
    jobs: Jobs = -1,
    cluster: Cluster = None,
    cache: Cache = None,
) -> None:
    """Compute the vectors of tagged pictures into a folder.

    `prototag train` and `prototag evaluate` take the folder instead of the pictures and read it in
    pieces. The same command resumes an interrupted run. Pictures are never changed.
    """
    import prototag.metadata as metadata
    from prototag.annotator.vector_export import write_vectors
    from prototag.cli.train import check_network
    from prototag.features.extractor import Extractor
    from prototag.images.crops import crops_by_name

    crops_by_name(crops)
    check_network(network)
    if output.exists() and not output.is_dir():
        raise typer.BadParameter(f"{output} is a file: give the name of a folder.")
    engine = clusters.join(cluster) if cluster else None
    with terminal.progress() as progress:
        collected = metadata.collect(
            sources,
            kind=terminal.kinds(kind),
            column=column,
            hierarchy=hierarchy,
            progress=progress,
        )
    for note in collected.notes:
        terminal.print_info(terminal.printable(note))
    extractor = Extractor(
        os.path.abspath(network) if network.endswith(".onnx") else network,
        crops=crops,
        n_jobs=jobs,
        engine=engine,
        cache=terminal.opened(cache),
    )
    with terminal.progress() as progress:
        export = write_vectors(
            collected, extractor, output, rows=rows, untagged=untagged, progress=progress
        )
    folder = export.folder
    skipped = export.skipped
    for one in skipped[:SHOWN]:
        terminal.print_error(str(one))
    if export.n_resumed:
        terminal.print_info(
            f"{terminal.count(export.n_resumed, 'piece')} found from an earlier run."
        )
    terminal.print_info(
        f"{output} has the vectors of {terminal.count(len(folder), 'picture')} with "
        f"{terminal.count(len(folder.tags), 'tag')}. To train on them:\n  prototag train {output}"
    )
    if json:
        import json as jsonlib

        figures = {
            "folder": str(output),
            "pictures": len(folder),
            "tags": len(folder.tags),
            "resumed_pieces": export.n_resumed,
            "skipped": [one.to_dict() for one in skipped],
        }
        print(jsonlib.dumps(figures))
    if skipped:
        terminal.print_error(f"{terminal.count(len(skipped), 'picture')} could not be read.")
        raise typer.Exit(terminal.SOME_FAILED)
