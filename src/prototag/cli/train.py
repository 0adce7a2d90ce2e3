"""``prototag train``: learn the tags of a collection."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from prototag.cli import cluster_option as clusters
from prototag.cli import terminal
from prototag.cli.cluster_option import Cluster
from prototag.cli.terminal import Cache, Column, Jobs, Json, Kind, Quiet

if TYPE_CHECKING:
    from prototag.annotator.annotator import Annotator
    from prototag.metadata import Collected

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}
SHOWN = 10  # items of a list


def seconds(text: str) -> float:
    """Parse a duration: ``90s``, ``10m``, ``1.5h`` or plain seconds."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smh]?)\s*", text.lower())
    if not match or not float(match[1]):
        raise typer.BadParameter(f"{text!r} is not a time: give for example 90s, 10m or 1h.")
    return float(match[1]) * _UNITS[match[2]]


def train(
    sources: Annotated[
        list[Path],
        typer.Argument(
            help="Folders of tagged pictures, and lists of pictures with their tags (CSV, JSON "
            "lines); or one folder of vectors that `prototag features` made.",
            metavar="SOURCE...",
            show_default=False,
        ),
    ],
    model: Annotated[
        Path,
        typer.Option("--model", "-m", envvar="PROTOTAG_MODEL", help="The model file to write."),
    ] = Path(terminal.MODEL),
    ignore: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TAG", help="Ignore this tag; may be repeated, or a list with commas."
        ),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TAG",
            help="Train only this tag; may be repeated, or a list with commas.",
        ),
    ] = None,
    tune: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Spend this time, such as 10m or 1h, on finding better settings than the "
            "recommended ones.",
        ),
    ] = None,
    min_pictures: Annotated[
        int, typer.Option(min=2, help="Learn only tags that at least this many pictures have.")
    ] = 5,
    kind: Kind = "auto",
    column: Column = None,
    hierarchy: Annotated[
        Literal["path", "leaf"],
        typer.Option(help="Learn a tag such as animal|cat as it is (path), or as cat (leaf)."),
    ] = "path",
    crops: Annotated[
        str,
        typer.Option(
            metavar="large|fast|paper",
            help="Crops of a picture: the whole picture, large; at 224 x 224 in less than half the "
            "time (fast); or that and five parts in twice the time (paper).",
        ),
    ] = "large",
    network: Annotated[
        str,
        typer.Option(
            metavar="embedded|quick|best|FILE.onnx",
            help="Network that computes the vectors: the small built-in one, the same with 8-bit "
            "arithmetic in half the time (quick), both built-in ones in more than twice the time "
            "(best), or your own in an ONNX file.",
        ),
    ] = "embedded",
    thumbnails: Annotated[
        bool, typer.Option(help="Keep small copies of the pictures in the model, for explanations.")
    ] = True,
    work: Annotated[
        Path | None,
        typer.Option(
            help="For a folder of vectors of more than 20,000 pictures: a folder that keeps "
            "finished stages, so that an interrupted run resumes. By default it is beside the "
            "model and is removed at the end."
        ),
    ] = None,
    untagged: Annotated[
        Literal["ignore", "negative"],
        typer.Option(
            help="Ignore pictures without any tag (ignore), or treat every tag as absent in them "
            "(negative)."
        ),
    ] = "ignore",
    json: Json = False,
    quiet: Quiet = False,  # noqa: ARG001 - handled by its callback
    jobs: Jobs = -1,
    cluster: Cluster = None,
    cache: Cache = None,
) -> None:
    """Train a model on the tags of your pictures.

    Tags are read from XMP sidecars, from keywords inside the files (XMP, IPTC), from a
    metadata.jsonl or CSV list, from a .txt file beside each picture, or else from the names of
    folders. Pictures are never changed. Prints which tags were found, which were too rare, and the
    expected precision and recall of each trained tag, estimated by cross-validation. The exit code
    is 1 if no tag was learned.
    """
    time = None if tune is None else seconds(tune)
    terminal.check_output(model)
    check_replaced(model)
    import prototag.metadata as metadata
    from prototag.annotator.annotator import Annotator
    from prototag.features.vector_folder import VectorFolder, is_vector_folder
    from prototag.images.crops import crops_by_name

    crops_by_name(crops)  # refuses an unknown name before any picture is read
    check_network(network)
    engine = clusters.join(cluster) if cluster else None
    if len(sources) == 1 and is_vector_folder(sources[0]):
        if ignore or only:
            raise typer.BadParameter("--ignore and --only are for pictures, not for vectors.")
        folder = model.with_name(f"{model.name}.work") if work is None else work
        with terminal.progress() as progress:
            annotator = Annotator(
                n_jobs=jobs,
                engine=engine,
                cache=terminal.opened(cache),
                min_pictures=min_pictures,
                tuning_seconds=time,
                progress=progress,
            ).fit(VectorFolder(sources[0]), work=folder)
        _finish(annotator, model, as_json=json)
        if work is None:  # only interrupted runs need it
            shutil.rmtree(folder, ignore_errors=True)
        return

    with terminal.progress() as progress:
        collected = metadata.collect(
            sources,
            kind=terminal.kinds(kind),
            column=column,
            hierarchy=hierarchy,
            progress=progress,
        )
    _print_collected(collected)
    if ignore:
        collected = collected.restricted(ignore=ignore)
    if only:
        if untagged == "ignore":
            _print_untagged(len(collected.images) - collected.n_tagged)
            collected = collected.tagged()
        # Tagged pictures without these tags are negative examples.
        collected, untagged = collected.restricted(only=only), "negative"
    with terminal.progress() as progress:
        annotator = Annotator(
            backbone=os.path.abspath(network) if network.endswith(".onnx") else network,
            crops=crops,
            n_jobs=jobs,
            engine=engine,
            cache=terminal.opened(cache),
            min_pictures=min_pictures,
            untagged=untagged,
            tuning_seconds=time,
            keep_thumbnails=thumbnails,
            progress=progress,
        ).fit(collected)
    _finish(annotator, model, as_json=json)


def _finish(annotator: Annotator, model: Path, *, as_json: bool) -> None:
    _print_learned(annotator)
    annotator.save(model)
    tag_table(annotator, as_json=as_json)
    _warn(annotator)
    size = os.path.getsize(model) / 1e6
    terminal.print_info(f"\nThe model is {model} ({size:.1f} MB). To tag pictures with it:")
    terminal.print_info(f"  prototag annotate PATH... -m {model}")
    if not annotator.operating_points.learnable.any():
        raise typer.Exit(terminal.FAILED)  # stops scripts


def check_network(network: str) -> None:
    if network not in ("embedded", "quick", "best") and not network.endswith(".onnx"):
        raise typer.BadParameter(
            f"--network {network!r} is unknown: give embedded, quick, best, or a file that ends in "
            ".onnx."
        )
    if network.endswith(".onnx") and not os.path.isfile(network):
        raise typer.BadParameter(f"--network {network}: there is no such file.")


def check_replaced(output: Path) -> None:
    """Refuse to overwrite a file that is not a model."""
    if not output.exists():
        return
    from prototag.errors import ModelFileError
    from prototag.storage import modelfile

    try:
        modelfile.read_header(output)
    except ModelFileError:
        raise typer.BadParameter(
            f"{output} exists and is not a model: give another name, or move it away."
        ) from None


def _print_collected(collected: Collected) -> None:
    for note in collected.notes:
        terminal.print_info(terminal.printable(note))
    _list("file", "could not be read", collected.problems)


def _print_untagged(number: int) -> None:
    if number:
        terminal.print_info(
            f"{terminal.count(number, 'picture')} without tags were ignored. If no tag applies to "
            "them, give --untagged negative."
        )


def _learned_as(rare_tag: str, annotator: Annotator) -> str:
    from prototag.metadata.tag_names import nearest_ancestor

    parent = nearest_ancestor(rare_tag, annotator.tags)
    return "" if parent is None else f", learned as {parent}"


def _print_learned(annotator: Annotator) -> None:
    learned = annotator.training_summary
    _list("picture", "could not be read", [str(skipped) for skipped in annotator.skipped])
    _print_untagged(learned.untagged)
    if learned.too_rare:
        rare = sorted(learned.too_rare.items(), key=lambda item: (-item[1], item[0]))
        names = [f"{tag} ({count}{_learned_as(tag, annotator)})" for tag, count in rare]
        words = f"not learned, with fewer than {annotator.min_pictures} pictures"
        _list("tag", words, names, inline=True)
    points = annotator.operating_points
    terminal.print_info(
        f"Learned {int(points.learnable.sum()):,} of {terminal.count(learned.tags, 'tag')} from "
        f"{terminal.count(learned.pictures, 'picture')}."
    )
    precision = points.estimated_precision(points.default_threshold)
    if not precision:
        terminal.print_info(_only_suggested(bool(points.learnable.any())))
        return
    terminal.print_info(
        f"Expected precision of applied tags, by cross-validation: {terminal.percent(precision)}."
    )
    right = 100 * float((points.recall * points.positives)[points.learnable].sum())
    right /= learned.pictures
    terminal.print_info(
        f"On 100 new pictures like these: about {terminal.count(round(right / precision), 'tag')} "
        f"applied, about {round(right):,} of them right.\n"
    )


def _only_suggested(learned: bool) -> str:
    if not learned:
        return (
            "No tag could be learned, so `annotate` will not apply any. The table below shows the "
            "reason for each tag.\n"
        )
    return (
        "No tag is reliable enough to be applied yet: `annotate` will only suggest. More pictures "
        "and complete tags help.\n"
    )


def _list(noun: str, what: str, items: list[str], *, inline: bool = False) -> None:
    """Print a count, what happened to the items, and the first names."""
    if not items:
        return
    head = f"{terminal.count(len(items), noun)} {what}:"
    shown = [terminal.printable(item) for item in items[:SHOWN]]
    more = f"{len(items) - SHOWN:,} more" if len(items) > SHOWN else ""
    if inline:
        terminal.print_info(f"{head} {', '.join([*shown, *([more] if more else [])])}.")
        return
    terminal.print_info(head)
    for line in [*shown, *([f"... and {more}"] if more else [])]:
        terminal.print_info(f"  {line}")


def _warn(annotator: Annotator) -> None:
    points = annotator.operating_points
    unlearned = (~points.learnable).nonzero()[0]
    if len(unlearned):
        names = [f"{annotator.tags[c]} ({points.positives[c]})" for c in unlearned]
        terminal.print_info()
        _list("tag", "not learned, so never applied", names, inline=True)
        if (points.positives[unlearned] < annotator.training_summary.pictures).any():
            terminal.print_info(
                "On held-out pictures they are no better than chance. Tag more examples of these, "
                "or exclude tags that are not visible in a picture (such as a year) with --ignore."
            )


def tag_rows(annotator: Annotator) -> list[dict[str, Any]]:
    """Return the cross-validated figures of each tag."""
    return [tag.to_dict() for tag in annotator.estimate().tags]


def tag_table(annotator: Annotator, *, as_json: bool = False) -> None:
    """Print the figures of each tag as a table, the most frequent first, or as JSON lines."""
    rows = tag_rows(annotator)
    if as_json:
        import json

        for row in rows:
            print(json.dumps(row))
        return
    rows.sort(key=lambda row: (-row["pictures"], row["tag"]))
    terminal.table(
        ["Tag", "Pictures", "Precision", "Recall", ""],
        [
            [
                r["tag"],
                f"{r['pictures']:,}",
                "-" if r["precision"] is None else terminal.percent(r["precision"]),
                "-" if r["precision"] is None else terminal.percent(r["recall"]),
                _note(r, annotator.training_summary.pictures),
            ]
            for r in rows
        ],
        right=["Pictures", "Precision", "Recall"],
    )


def _note(row: dict[str, Any], pictures: int) -> str:
    """Explain why a tag is not applied."""
    if row["learned"]:
        return "suggest only" if row["precision"] is None else ""
    if row["pictures"] == pictures:
        return "not learned: no picture without it to compare with"
    return f"not learned: no better than chance on held-out pictures (AUC {row['auc']:.2f})"
