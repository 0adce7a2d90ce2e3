"""``prototag explain``: why a picture is given its tags."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from prototag.cli import console
from prototag.cli.console import Cache, Image, Jobs, Json, Model

if TYPE_CHECKING:
    from prototag.annotation import ExplainedTag
    from prototag.report import Markup

REASONS = 5  # shown for each tag


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
        page(image, found).write(html)
    if json:
        import json as jsonlib

        print(jsonlib.dumps({"path": str(image), "tags": [_record(one) for one in found]}))
    elif not found:
        console.out("No tag reaches its threshold; --tag NAME explains one all the same.")
    else:
        console.table(
            ["Tag", "Likely", "Share", "From", "With the tags"], _rows(found), right=["Share"]
        )
    if html is not None:
        console.say(f"The page is {html}.")


def _rows(found: list[ExplainedTag]) -> list[list[str]]:
    rows = []
    for one in found:
        name, likely = one.tag.name, console.percent(one.tag.probability)
        for reason in one.reasons[:REASONS]:
            rows.append([name, likely, f"{reason.share:.3f}", reason.name, ", ".join(reason.tags)])
            name = likely = ""
        others = sum(reason.share for reason in one.reasons[REASONS:]) + one.rest
        rows.append([name, likely, f"{others:.3f}", "all other pictures together", ""])
        total = f"{one.tag.score:.3f}"
        rows.append(["", "", total, f"the score; {one.threshold:.3f} is needed", ""])
    return rows


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


def page(image: Path, found: list[ExplainedTag]) -> Any:
    """The explanation as a page of one file."""
    from prototag.report import Card, Mark, Page, Thumbnails, sheet

    made = Page(
        f"Why {image.name} has its tags",
        lead="Each tag's score is the sum of what training pictures give it.",
    )
    pictures = Thumbnails()
    tags = [Mark(one.tag.name, note=console.percent(one.tag.probability)) for one in found]
    made.section("The picture", sheet([Card(image, image.name, tags)], pictures))
    for one in found:
        made.section(one.tag.name, *blocks(one, pictures))
    return made


def blocks(one: ExplainedTag, pictures: Any) -> list[Markup | str]:
    """One tag: its score in words, and the training pictures behind it."""
    from prototag.report import Card, Mark, sheet

    verdict = "given" if one.tag.score > one.threshold else "not given"
    words = (
        f"Score {one.tag.score:.3f}, {verdict} (above {one.threshold:.3f} is needed); right with a "
        f"probability of {console.percent(one.tag.probability)}. All other pictures together give "
        f"{sum(r.share for r in one.reasons[REASONS:]) + one.rest:.3f} of it."
    )
    cards = [
        Card(
            reason.thumbnail or None,
            f"{reason.share:.3f} from {reason.name}",
            [Mark(tag, "right" if tag == one.tag.name else "plain") for tag in reason.tags],
        )
        for reason in one.reasons[:REASONS]
    ]
    return [words, sheet(cards, pictures, small=True)]
