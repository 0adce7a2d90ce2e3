"""``prototag inspect``: tags, accuracy and origin of a model."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from prototag.cli import library_common, terminal
from prototag.cli.terminal import Json, Model
from prototag.errors import InputError, ModelFileError

if TYPE_CHECKING:
    from prototag.annotator.annotator import Annotator


def inspect(
    context: typer.Context,
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE",
            help="A model, instead of -m; a picture, or a library.",
            show_default=False,
        ),
    ] = None,
    model: Model = Path(terminal.MODEL),
    json: Json = False,
) -> None:
    """Show the tags of a model, their expected accuracy, and how the model was trained.

    Of a picture it shows the tags in the file and its sidecars: your own, those that prototag
    added, and those that you removed. Of a library it shows what `prototag library status` shows.
    """
    if file is not None and file.is_file() and library_common.is_library(file):
        from prototag.cli.library import status

        status(file, json=json)
        return
    if file is not None and _is_picture(file):
        _show_picture(file, as_json=json)
        return
    from prototag.annotator.annotator import Annotator
    from prototag.cli.train import tag_rows, tag_table

    model = terminal.named_model(context, file, model)
    annotator = Annotator.load(model)
    try:
        facts = _facts(model, annotator)
    except (KeyError, TypeError) as error:
        raise ModelFileError(f"{model} does not say how it was made: {error}.") from None
    if json:
        import json as jsonlib

        print(jsonlib.dumps({**facts, "tags": tag_rows(annotator)}, indent=2))
        return
    for name, value in _described(facts).items():
        terminal.print_result(f"{name:12s}{value}")
    terminal.print_result()
    tag_table(annotator)


def _is_picture(path: Path) -> bool:
    from prototag.metadata.find_files import PICTURES, RAW

    return path.suffix.lower() in PICTURES | RAW


def _show_picture(path: Path, *, as_json: bool) -> None:
    """Print the tags of a picture by their origin."""
    from prototag import metadata

    if not path.is_file():
        raise InputError(f"{path} does not exist: give a model, a picture or a library.")
    keywords = metadata.read_keywords(path)
    tags = {"own": keywords.tags, "added": keywords.added, "removed": keywords.rejected}
    if as_json:
        import json

        print(json.dumps({"path": str(path), **tags}))
        return
    terminal.print_result(f"{'Picture':12s}{path}")
    for name, origin in (("Own tags", "own"), ("Added", "added"), ("Removed", "removed")):
        terminal.print_result(f"{name:12s}{terminal.leaves(tags[origin]) or '-'}")


def _described(facts: dict[str, Any]) -> dict[str, str]:
    """Format facts as lines of text."""
    rare = facts["tags_too_rare"]
    return {
        "Model": f"{facts['model']} ({facts['size_mb']} MB)",
        "Created": f"{facts['created']} by {facts['created_by']}",
        "Network": f"{facts['network']}, crops {facts['crops']}",
        "Pictures": f"{facts['pictures']:,}",
        "Tags": f"{facts['tags_learned']:,} learned"
        + f", {facts['tags_not_learned']:,} not learnable" * (facts["tags_not_learned"] > 0)
        + f", {rare:,} too rare" * (rare > 0),
        "Prototypes": f"{facts['prototypes']:,}",
        "Precision": f"{terminal.percent(facts['expected_precision'])} (cross-validated)"
        if facts["expected_precision"]
        else "no tag is reliable enough to be applied yet",
        "F1": f"{terminal.percent(facts['expected_f1'])} by the thresholds of --research",
        "Codes": f"within {facts['codes_gap']:.0e} of the optimum"
        + f", {facts['codes_stalled']:,} stalled" * (facts["codes_stalled"] > 0),
    }


def _facts(path: Path, annotator: Annotator) -> dict[str, Any]:

    points = annotator.operating_points
    header = annotator.header
    learned = header["training"]
    provenance = header["provenance"]
    return {
        "model": str(path),
        "size_mb": round(os.path.getsize(path) / 1e6, 1),
        "created": provenance["created"],
        "created_by": f"prototag {provenance['prototag']}",
        "network": header["features"]["backbone"],
        "crops": header["features"]["crops"],
        "pictures": learned["pictures"],
        "tags_learned": int(points.learnable.sum()),
        "tags_not_learned": int((~points.learnable).sum()),
        "tags_too_rare": len(annotator.training_summary.too_rare),
        "prototypes": annotator.model.semantics.shape[0],
        "expected_precision": round(points.estimated_precision(points.default_threshold), 4),
        "expected_f1": round(annotator.choices["out_of_fold_f1"], 4),
        "codes_gap": annotator.choices["codes_gap"],
        "codes_stalled": int(annotator.choices["codes_stalled"]),
    }
