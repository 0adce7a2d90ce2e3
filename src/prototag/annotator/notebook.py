"""Display of results in notebooks: HTML with thumbnails as data URIs, without scripts.

All text comes from files, so that it is escaped. Nothing is fetched from another host.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from prototag.annotator.types import described
from prototag.errors import ImageError

if TYPE_CHECKING:
    from prototag.annotator.annotator import Annotator
    from prototag.annotator.types import (
        Annotation,
        ExplainedTag,
        Explanation,
        Neighbour,
        Tag,
        TrainingPicture,
    )

THUMBNAIL_PX = 128
MAX_REASONS = 6  # training pictures shown for each tag
MAX_TAGS = 15  # tags shown for an annotator
# Control characters and surrogates of file names cannot be displayed.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_ROW = "display:flex;flex-wrap:wrap;gap:8px;align-items:flex-start"
_CAPTION = "font-size:smaller;overflow-wrap:anywhere"


def annotation(result: Annotation) -> str:
    """Return a thumbnail of the picture with its tags and their probabilities."""
    if result.error is not None:
        return _box(_text(described(result.source)), f"<em>{_text(result.error)}</em>")
    lines = [f"<strong>{_text(described(result.source))}</strong>"]
    lines.append(_tags("Tags", result.tags) or "No tag is applied.")
    lines.append(_tags("Estimates", result.estimates))
    lines.append(_tags("Suggestions", result.suggestions))
    if result.in_training_set:
        lines.append("<em>The model was trained on this picture.</em>")
    return _box(_source_image(result.source), _lines(lines))


def explanation(result: Explanation) -> str:
    """Return the picture, and each tag with the training pictures that contribute most."""
    head = ""
    if result.source is not None:
        title = f"<strong>{_text(described(result.source))}</strong>"
        head = _box(_source_image(result.source), title)
    return head + ("".join(map(explained_tag, result)) or "<p>No tag is explained.</p>")


def explained_tag(result: ExplainedTag) -> str:
    """Return a tag with the training pictures that contribute most to its score."""
    others = sum(reason.share for reason in result.reasons[MAX_REASONS:]) + result.rest
    title = (
        f"<strong>{_text(result.tag.name)}</strong> {result.tag.probability:.0%}: "
        f"score {result.tag.score:.3f}"
    )
    pictures = [
        _figure(reason.picture, f"{reason.share:+.3f}") for reason in result.reasons[:MAX_REASONS]
    ]
    rest = f'<span style="{_CAPTION}">everything else {others:+.3f}</span>'
    return f'<div><div>{title}</div><div style="{_ROW}">{"".join(pictures)}{rest}</div></div>'


def neighbours(results: Iterable[Neighbour]) -> str:
    """Return similar training pictures with their similarities and tags."""
    figures = [_figure(one.picture, f"{one.similarity:.2f}") for one in results]
    return f'<div style="{_ROW}">{"".join(figures)}</div>'


def annotator(model: Annotator) -> str:
    """Return network, training set and expected precision, and a table of the frequent tags."""
    title = _text(repr(model))
    if not model.is_fitted:
        return f"<p>{title}</p>"
    tags = sorted(model.estimate().tags, key=lambda tag: (-tag.pictures, tag.name))
    rows = [
        (
            _text(tag.name),
            f"{tag.pictures:,}",
            _percent(tag.precision),
            _percent(tag.recall if tag.precision is not None else None),
            "" if tag.learnable else "not learnable",
        )
        for tag in tags[:MAX_TAGS]
    ]
    more = f"<p>and {len(tags) - MAX_TAGS:,} more tags</p>" if len(tags) > MAX_TAGS else ""
    table = _table(("Tag", "Pictures", "Precision", "Recall", ""), rows)
    return f"<p>{title}</p>{table}{more}"


def data_uri(image: bytes) -> str:
    """Return a WebP image as a data URI."""
    return f"data:image/webp;base64,{base64.b64encode(image).decode('ascii')}"


def _source_image(source: Any) -> str:
    """Return a thumbnail of a source, or nothing if it can no longer be read."""
    from prototag.images.crops import thumbnail
    from prototag.images.decode import open_image

    if source is None:
        return ""
    try:
        small = thumbnail(open_image(source, at_least=(THUMBNAIL_PX,) * 2), THUMBNAIL_PX)
    except (ImageError, OSError):
        return ""
    return _image(small)


def _image(thumbnail: bytes) -> str:
    style = f"max-width:{THUMBNAIL_PX}px;max-height:{THUMBNAIL_PX}px"
    return f'<img alt="" src="{data_uri(thumbnail)}" style="{style}">' if thumbnail else ""


def _figure(picture: TrainingPicture, caption: str) -> str:
    words = f"{caption}<br>{_text(picture.name)}<br>{_text(', '.join(picture.tags))}"
    style = f"width:{THUMBNAIL_PX}px;{_CAPTION}"
    return f'<div style="{style}">{_image(picture.thumbnail)}<div>{words}</div></div>'


def _tags(title: str, tags: Sequence[Tag]) -> str:
    shown = ", ".join(f"{_text(tag.name)} {tag.probability:.0%}" for tag in tags)
    return f"{title}: {shown}" if shown else ""


def _box(image: str, content: str) -> str:
    return f'<div style="{_ROW}">{image}<div>{content}</div></div>'


def _lines(lines: Iterable[str]) -> str:
    return "".join(f"<div>{line}</div>" for line in lines if line)


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{name}</th>" for name in header)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"


def _text(value: str) -> str:
    """Escape text; the replacement character stands for what cannot be displayed."""
    return escape(_UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", value))
