"""Contact sheets of applied and own tags, and lists of likely missing or wrong own tags."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from prototag.evaluation.evaluate import Evaluation, LabelIssue
from prototag.report import (
    Card,
    Column,
    Mark,
    Markup,
    Thumbnails,
    details,
    element,
    heading,
    key,
    picture_sheet,
    table,
)
from prototag.report.contact_sheet import Kind
from prototag.report.formatting import percent, tag_name, tag_names

if TYPE_CHECKING:
    from prototag.images.decode import Source

MAX_SUSPECTS = 12  # pictures on each list of suspected label errors
MAX_TAGS = 12  # under one picture


def sheets(
    result: Evaluation, pictures: Sequence[Source | None], small: Thumbnails, count: int
) -> list[Markup | str]:
    """Return contact sheets of the best, of average and of the worst pictures."""
    judged = np.flatnonzero(result.present.any(axis=1) | result.applied.any(axis=1))
    # Many pictures have equal scores; shuffling avoids showing only the first folder.
    judged = np.random.default_rng(0).permutation(judged)
    order = judged[np.argsort(-result.image_f1[judged], kind="stable")]
    if not result.applied.any():
        cards = [_card(result, image, pictures[image]) for image in order[:count].tolist()]
        return [
            key(missing="yours, not applied, with the estimated probability"),
            picture_sheet(cards, small),
        ]
    count = min(count, max(len(order) // 3, 1))
    best, rest, worst = np.split(order, [count, max(len(order) - count, count)])
    even = np.linspace(0, len(rest) - 1, min(count, len(rest))).astype(np.intp)
    groups = (
        ("The best", best),
        ("In between", rest[even]),
        ("The worst", worst[::-1]),
    )
    blocks: list[Markup | str] = [
        "Pictures are ordered by how well the applied tags and yours agree (F1 of the picture): "
        "both ends, and evenly spaced ones between.",
        key(right="applied, and yours", wrong="applied, not yours", missing="yours, not applied"),
    ]
    for name, chosen in groups:
        if len(chosen):
            cards = [_card(result, image, pictures[image]) for image in chosen.tolist()]
            blocks += [heading(name), picture_sheet(cards, small)]
    return blocks


def _card(result: Evaluation, image: int, picture: Source | None) -> Card:
    marks = []
    for kind, chosen in (
        ("right", result.applied[image] & result.present[image]),
        ("wrong", result.applied[image] & ~result.present[image]),
        ("missing", ~result.applied[image] & result.present[image]),
    ):
        marks += _marks(result, image, np.flatnonzero(chosen), kind)  # type: ignore[arg-type]
    if len(marks) > MAX_TAGS:
        marks = [*marks[:MAX_TAGS], Mark(f"and {len(marks) - MAX_TAGS} more")]
    return Card(picture, result.images[image], marks)


def _marks(result: Evaluation, image: int, tags: npt.NDArray[np.intp], kind: Kind) -> list[Mark]:
    chances = result.probabilities
    if chances is None:
        return [Mark(result.tags[tag].name, kind) for tag in tags]
    likely = tags[np.argsort(-chances[image, tags], kind="stable")]
    return [
        Mark(result.tags[tag].name, kind, percent(chances[image, tag])) for tag in likely.tolist()
    ]


def suspects(
    result: Evaluation, pictures: Sequence[Source | None] | None, small: Thumbnails
) -> list[Markup | str]:
    """Return own tags that may be missing and own tags that may be wrong."""
    groups: tuple[tuple[str, str, tuple[LabelIssue, ...], Kind], ...] = (
        (
            "Perhaps missing",
            "Tags that ProtoTag would apply and that you did not give, the most probable first. "
            "Where they are right, you may want to add them.",
            result.missing,
            "likely",
        ),
        (
            "Perhaps wrong",
            "Tags that you gave and that are less probable on this picture than on a random one. "
            "The strongest evidence comes first.",
            result.wrong,
            "doubtful",
        ),
    )
    blocks: list[Markup | str] = []
    for name, words, issues, kind in groups:
        if not issues:
            continue
        blocks += [heading(name), words]
        if pictures is not None:
            blocks.append(picture_sheet(_second_look(result, pictures, issues, kind), small))
        rows = [
            [result.images[one.image], tag_name(result.tags[one.tag].name), one.probability]
            for one in issues
        ]
        columns: list[Column | str] = [
            "Picture",
            Column("Tag"),
            Column("Probability", "percent", bar=True),
        ]
        listed = table(columns, rows, caption=f"{name}: {len(rows):,} tags")
        blocks.append(details(f"All {len(rows):,} as a list", listed) if pictures else listed)
    return blocks


def _second_look(
    result: Evaluation,
    pictures: Sequence[Source | None],
    issues: Sequence[LabelIssue],
    kind: Kind,
) -> list[Card]:
    """Return one card per picture, ordered by its strongest suspected error."""
    by_image: dict[int, list[Mark]] = {}
    for one in issues:
        if one.image in by_image or len(by_image) < MAX_SUSPECTS:
            mark = Mark(result.tags[one.tag].name, kind, percent(one.probability))
            by_image.setdefault(one.image, []).append(mark)
    return [
        Card(pictures[image], result.images[image], marks[:MAX_TAGS], _yours(result, image, marks))
        for image, marks in by_image.items()
    ]


def _yours(result: Evaluation, image: int, marks: Sequence[Mark]) -> Markup | None:
    """Return the other tags of the person, as context."""
    names = [result.tags[tag].name for tag in np.flatnonzero(result.present[image]).tolist()]
    others = [name for name in names if name not in {mark.name for mark in marks}]
    if not others:
        return None
    before = "yours: " if len(others) == len(names) else "your others: "
    return element("div", before, tag_names(others), class_="name")
