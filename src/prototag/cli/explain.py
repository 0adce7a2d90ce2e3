"""``prototag explain``: why a picture is given its tags."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from prototag.cli import console
from prototag.cli.console import Cache, Image, Jobs, Json, Model

if TYPE_CHECKING:
    from prototag.annotator.results import ExplainedTag, Neighbour
    from prototag.report import Page

REASONS = 5  # shown for each tag
SIMILAR = 12  # pictures on the page


def explain(
    image: Image,
    model: Model = Path(console.MODEL),
    tag: Annotated[
        list[str] | None,
        typer.Option("--tag", "-t", help="A tag to explain, also if it is not given; repeatable."),
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page with the pictures, too.")] = None,
    json: Json = False,
    jobs: Jobs = -1,
    cache: Cache = None,
) -> None:
    """Show why a picture is given its tags: the training pictures behind each score.

    A score is the sum of what single training pictures give it, each a prototype in the mixture
    that the picture is coded as, and of what all training pictures together say.
    """
    annotator = console.load(model, jobs, cache)
    found = annotator.explain(image, tag)
    if html is not None:
        page(image, found, annotator.similar(image, SIMILAR)).write(html)
    if json:
        import json as jsonlib

        print(jsonlib.dumps({"path": str(image), "tags": [_record(one) for one in found]}))
    elif not found:
        console.out("No tag reaches its threshold; --tag NAME explains one all the same.")
    else:
        console.table(
            ["Tag", "Likely", "Share", "From", "With the tags"], rows(found), right=["Share"]
        )
    if html is not None:
        console.say(f"The page is {html}.")


def rows(found: list[ExplainedTag]) -> list[list[str]]:
    answer = []
    for one in found:
        name, likely = one.tag.name, console.percent(one.tag.probability)
        for reason in one.reasons[:REASONS]:
            answer.append(
                [name, likely, f"{reason.share:.3f}", reason.name, ", ".join(reason.tags)]
            )
            name = likely = ""
        others = sum(reason.share for reason in one.reasons[REASONS:]) + one.rest
        answer.append([name, likely, f"{others:.3f}", "all other pictures together", ""])
        total = f"{one.tag.score:.3f}"
        answer.append(["", "", total, f"the score; {one.threshold:.3f} is needed", ""])
    return answer


def _record(one: ExplainedTag) -> dict[str, Any]:
    return {
        "tag": one.tag.name,
        "probability": round(one.tag.probability, 4),
        "score": round(one.tag.score, 5),
        "threshold": round(one.threshold, 5),
        "reasons": [
            {"share": round(reason.share, 5), "name": reason.name, "tags": reason.tags}
            for reason in one.reasons
        ],
        "rest": round(one.rest, 5),
    }


def page(image: Path, found: list[ExplainedTag], near: list[Neighbour]) -> Page:
    """The explanation as a page of one file."""
    from prototag.report.pages import Behind, Explained, Prototype, Similar, explanation_page

    return explanation_page(
        image,
        image.name,
        [
            Explained(
                one.tag.name,
                one.tag.probability,
                one.tag.score,
                one.threshold,
                [
                    Behind(
                        reason.share, Prototype(reason.thumbnail or None, reason.name, reason.tags)
                    )
                    for reason in one.reasons
                ],
                one.rest,
            )
            for one in found
        ],
        similar=[
            Similar(one.likeness, Prototype(one.thumbnail or None, one.name, one.tags))
            for one in near
        ],
    )
