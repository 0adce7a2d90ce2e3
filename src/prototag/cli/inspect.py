"""``prototag inspect``: what a model knows and how well."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from prototag.cli import console
from prototag.cli.console import Json


def inspect(
    model: Annotated[Path, typer.Argument(help="The model.", envvar="PROTOTAG_MODEL")] = Path(
        console.MODEL
    ),
    json: Json = False,
) -> None:
    """Show what a model has learned: where it comes from, its tags, how well each is given."""
    from prototag.annotator.annotator import Annotator

    annotator = Annotator.load(model)
    facts = _facts(model, annotator)
    if json:
        import json as jsonlib

        print(jsonlib.dumps({**facts, "tags": console.tag_rows(annotator)}, indent=2))
        return
    for name, value in facts.items():
        console.out(f"{name.replace('_', ' '):16s}{value}")
    console.out()
    console.tag_table(annotator)


def _facts(path: Path, annotator: Any) -> dict[str, Any]:
    header = annotator.header
    learned, made = header["learned"], header["provenance"]
    return {
        "model": str(path),
        "size_mb": round(os.path.getsize(path) / 1e6, 1),
        "made": made["created"],
        "made_by": f"prototag {made['prototag']}",
        "network": header["features"]["backbone"],
        "crops": header["features"]["crops"],
        "pictures": learned["pictures"],
        "tags_learned": learned["tags"],
        "tags_too_rare": learned["too_rare"],
        "prototypes": len(annotator.scorer.semantics),
        "expected_f1": round(header["tagger"]["choices"]["out_of_fold_f1"], 4),
    }
