"""``prototag explain``: explain the tags of a picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from prototag.cli import general_option, terminal
from prototag.cli.general_option import General, GeneralOptions, Language, Network, Vocabulary
from prototag.cli.terminal import Cache, Image, Jobs, Json, Model

if TYPE_CHECKING:
    from prototag.annotator.annotator import Annotator
    from prototag.annotator.types import ExplainedTag, Tag
    from prototag.report import Page

REASONS = 5  # shown for each tag
SIMILAR = 12  # pictures on the page
OTHERS = "everything else"


def explain(
    context: typer.Context,
    image: Image,
    model: Model = Path(terminal.MODEL),
    general: General = False,
    language: Language = None,
    vocabulary: Vocabulary = None,
    network: Network = None,  # noqa: ARG001 - its callback refuses it
    tag: Annotated[
        list[str] | None,
        typer.Option("--tag", "-t", help="Explain this tag, applied or not; may be repeated."),
    ] = None,
    html: Annotated[
        Path | None, typer.Option(help="Also write a page with the pictures to this file.")
    ] = None,
    json: Json = False,
    jobs: Jobs = -1,
    cache: Cache = None,
) -> None:
    """Explain the tags of a picture by the training pictures and the words behind each score.

    The score of a tag is the sum of the contributions of similar training pictures and of its name:
    concepts whose words are similar are listed with their contributions. Without a model, names
    are everything. Tags with high probabilities are applied, less probable ones are suggested.
    """
    terminal.check_output(html, *terminal.PAGE)
    without_model = GeneralOptions(general, language, vocabulary)
    annotator = general_option.load(context, model, without_model, jobs, cache)
    explained = annotator.explain(image, None if tag is None else _selected_tags(tag, annotator))
    if html is not None:
        page(annotator, image, explained).write(html)
    if json:
        import json as jsonlib

        print(jsonlib.dumps(explained.to_dict()))
    elif not explained:
        terminal.print_result(
            "No tag is probable enough to suggest. To explain a tag anyway: --tag NAME."
        )
    else:
        show(annotator, explained)
    if html is not None:
        terminal.print_info(f"The page is {html}.")


def _selected_tags(given: list[str], annotator: Annotator) -> list[str]:
    from prototag.metadata.tag_names import TagLookup, split_tag_options

    names = TagLookup(annotator.tags)
    return names.find_all(split_tag_options(given, names), owner="the model knows")


def show(annotator: Annotator, explained: list[ExplainedTag]) -> None:
    """Print the explanation as a table."""
    columns = ["Tag", "Probability", "Contribution", "Training picture", "Its tags"]
    terminal.table(columns, _rows(annotator, explained), right=["Probability", "Contribution"])


def _outcome(annotator: Annotator, tag: Tag) -> str:
    """Return whether `annotate` applies a tag, and if not, why."""
    selector = annotator.selector()
    if not selector.allowed[annotator.tags.index(tag.name)]:
        return "not applied: not learnable"
    threshold = selector.min_probability
    if threshold is None or tag.probability >= threshold:
        return "applied"
    if threshold > 1:
        return "not applied: no tag is reliable enough yet"
    return f"not applied: from {terminal.percent(threshold)} on"


def _rows(annotator: Annotator, explained: list[ExplainedTag]) -> list[list[str]]:
    answer = []
    for one in explained:
        name = terminal.shown(one.tag.name)
        likely = terminal.percent(one.tag.probability)
        for reason in one.reasons[:REASONS]:
            picture = reason.picture
            answer.append(
                [name, likely, f"{reason.share:.3f}", picture.name, terminal.leaves(picture.tags)]
            )
            name = likely = ""
        if one.concepts:
            concepts = ", ".join(map(str, one.concepts))
            answer.append([name, likely, "", f"its name is like: {concepts}", ""])
            name = likely = ""
        if one.reasons or not one.concepts:
            others = sum(reason.share for reason in one.reasons[REASONS:]) + one.rest
            rest = "a rule about pixels or metadata" if one.tag.source == "rule" else OTHERS
            answer.append([name, likely, f"{others:z.3f}", rest, ""])
        total = f"{one.tag.score:.3f}"
        answer.append(["", "", total, f"score; {_outcome(annotator, one.tag)}", ""])
    return answer


def page(annotator: Annotator, image: Path, explained: list[ExplainedTag]) -> Page:
    """Build the explanation as a page of one file."""
    from prototag.report.pages import explanation_page

    applied = [one.tag.name for one in explained if _outcome(annotator, one.tag) == "applied"]
    near = annotator.similar(image, SIMILAR) if annotator.training_summary.pictures else []
    return explanation_page(image, image.name, explained, near, applied=applied)
