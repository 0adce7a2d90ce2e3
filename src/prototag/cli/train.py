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
SHOWN = 10  # of a list that may be long


def seconds(text: str) -> float:
    """``90s``, ``10m``, ``1.5h`` or plain seconds."""
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
            metavar="TAG", help="Do not learn this tag; may be repeated, or a list with commas."
        ),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TAG",
            help="Learn this tag and no other; may be repeated, or a list with commas.",
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
            help="What the network is shown of a picture: the whole of it, large, or at 224 x 224 "
            "in less than half the time (fast), or that and five parts in twice the time (paper).",
        ),
    ] = "large",
    network: Annotated[
        str,
        typer.Option(
            metavar="embedded|quick|best|FILE.onnx",
            help="What turns pictures into numbers: the small network that is built in, the same "
            "with 8-bit arithmetic in half the time (quick), it and a second one in more than "
            "twice the time (best), or one of your own in an ONNX file.",
        ),
    ] = "embedded",
    thumbnails: Annotated[
        bool, typer.Option(help="Keep small copies of the pictures in the model, for explanations.")
    ] = True,
    work: Annotated[
        Path | None,
        typer.Option(
            help="For a folder of vectors of more than 20,000 pictures: a folder that keeps what "
            "has been found, so that an interrupted run goes on. By default it lies beside the "
            "model, and is removed at the end."
        ),
    ] = None,
    untagged: Annotated[
        Literal["ignore", "negative"],
        typer.Option(
            help="Leave pictures without any tag out (ignore), or take it that they lack every tag "
            "(negative)."
        ),
    ] = "ignore",
    json: Json = False,
    quiet: Quiet = False,  # noqa: ARG001  (heard by its callback)
    jobs: Jobs = -1,
    cluster: Cluster = None,
    cache: Cache = None,
) -> None:
    """Learn the tags of your pictures.

    Tags are read from XMP sidecars, from keywords inside the files (XMP, IPTC), from a
    metadata.jsonl or CSV list, from a .txt file beside each picture, or else from the names of
    folders. Pictures are never changed. Prints what was found, what was left out, and how well each
    tag was learned, measured on held-out pictures.
    Ends with exit code 1 if no tag was learned.
    """
    time = None if tune is None else seconds(tune)
    terminal.check_output(model)
    check_replaced(model)
    import prototag.metadata as metadata
    from prototag.annotator.annotator import Annotator
    from prototag.features.vector_folder import VectorFolder, is_vector_folder
    from prototag.images.crops import crops_by_name

    crops_by_name(crops)  # an unknown name is refused before a picture is read
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
        if work is None:  # what an interrupted run would have gone on from
            shutil.rmtree(folder, ignore_errors=True)
        return

    with terminal.progress() as progress:
        found = metadata.collect(
            sources,
            kind=terminal.kinds(kind),
            column=column,
            hierarchy=hierarchy,
            progress=progress,
        )
    _say_found(found)
    if ignore:
        found = found.restricted(ignore=ignore)
    if only:
        if untagged == "ignore":
            _say_untagged(len(found.images) - found.n_tagged)
            found = found.tagged()
        # What has other tags lacks these.
        found, untagged = found.restricted(only=only), "negative"
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
        ).fit(found)
    _finish(annotator, model, as_json=json)


def _finish(annotator: Annotator, model: Path, *, as_json: bool) -> None:
    _say_learned(annotator)
    annotator.save(model)
    tag_table(annotator, as_json=as_json)
    _warn(annotator)
    size = os.path.getsize(model) / 1e6
    terminal.say(f"\nThe model is {model} ({size:.1f} MB). To tag pictures with it:")
    terminal.say(f"  prototag annotate PATH... -m {model}")
    if not annotator.operating_points.learnable.any():
        raise typer.Exit(terminal.FAILED)  # so that no script goes on with it


def check_network(network: str) -> None:
    if network not in ("embedded", "quick", "best") and not network.endswith(".onnx"):
        raise typer.BadParameter(
            f"--network {network!r} is unknown: give embedded, quick, best, or a file that ends in "
            ".onnx."
        )
    if network.endswith(".onnx") and not os.path.isfile(network):
        raise typer.BadParameter(f"--network {network}: there is no such file.")


def check_replaced(output: Path) -> None:
    """Only a model gives way to a model."""
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


def _say_found(found: Collected) -> None:
    for note in found.notes:
        terminal.say(terminal.printable(note))
    _list("file", "could not be read", found.problems)


def _say_untagged(number: int) -> None:
    if number:
        terminal.say(
            f"{terminal.count(number, 'picture')} without tags left out. If they have none because "
            "none fits, give --untagged negative."
        )


def _say_learned(annotator: Annotator) -> None:

    learned = annotator.training_summary
    _list("picture", "could not be read", [str(skipped) for skipped in annotator.skipped])
    _say_untagged(learned.untagged)
    if learned.too_rare:
        rare = sorted(learned.too_rare.items(), key=lambda item: (-item[1], item[0]))
        names = [f"{tag} ({count})" for tag, count in rare]
        words = f"left out, on fewer than {annotator.min_pictures} pictures"
        _list("tag", words, names, inline=True)
    points = annotator.operating_points
    terminal.say(
        f"Learned {int(points.learnable.sum()):,} of {terminal.count(learned.tags, 'tag')} from "
        f"{terminal.count(learned.pictures, 'picture')}."
    )
    right = points.estimated_precision(points.default_threshold)
    terminal.say(
        f"On pictures that were left out in turn, {terminal.percent(right)} of the tags it would "
        "give are right.\n"
        if right
        else _only_suggested(bool(points.learnable.any()))
    )


def _only_suggested(learned: bool) -> str:
    if not learned:
        return "So `annotate` will give nothing, and the table says why.\n"
    return (
        "None is sure enough to be given yet: `annotate` will only suggest. More pictures and "
        "complete tags help.\n"
    )


def _list(noun: str, what: str, items: list[str], *, inline: bool = False) -> None:
    """How many there are, what became of them, and the names of the first."""
    if not items:
        return
    head = f"{terminal.count(len(items), noun)} {what}:"
    shown = [terminal.printable(item) for item in items[:SHOWN]]
    more = f"{len(items) - SHOWN:,} more" if len(items) > SHOWN else ""
    if inline:
        terminal.say(f"{head} {', '.join([*shown, *([more] if more else [])])}.")
        return
    terminal.say(head)
    for line in [*shown, *([f"... and {more}"] if more else [])]:
        terminal.say(f"  {line}")


def _warn(annotator: Annotator) -> None:
    points = annotator.operating_points
    unlearned = (~points.learnable).nonzero()[0]
    if len(unlearned):
        names = [f"{annotator.tags[c]} ({points.positives[c]})" for c in unlearned]
        terminal.say()
        _list("tag", "not learned, so never given", names, inline=True)
        if (points.positives[unlearned] < annotator.training_summary.pictures).any():
            terminal.say(
                "They do not tell held-out pictures apart better than chance. Whether more "
                "pictures would change that is not known: some tags cannot be seen in a picture."
            )


def tag_rows(annotator: Annotator) -> list[dict[str, Any]]:
    """How well each tag was learned, judged on pictures left out."""
    known = annotator.operating_points
    return [
        {
            "tag": name,
            "pictures": int(known.positives[number]),
            "learned": bool(known.learnable[number]),
            "precision": _rounded(known.precision[number]),
            "recall": _rounded(known.recall[number]),
            "auc": round(float(known.auc[number]), 4),
        }
        for number, name in enumerate(annotator.tags)
    ]


def _rounded(share: float) -> float | None:
    """None where nothing was given."""
    return round(float(share), 4) if share == share else None


def tag_table(annotator: Annotator, *, as_json: bool = False) -> None:
    """The same as a table, the most frequent tags first, or as JSON lines."""
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
    """What there is to say of a tag that is not given."""
    if row["learned"]:
        return "only suggested" if row["precision"] is None else ""
    if row["pictures"] == pictures:
        return "not learned: no picture without it to compare with"
    return f"not learned: no better than chance on held-out pictures (AUC {row['auc']:.2f})"
