"""Self-contained HTML pages: no requests, and no scripts but the one that sorts tables.

A page has a title and sections. Their content is markup of this package (tables, figures, contact
sheets) or plain text, which becomes a paragraph. The page's content security policy forbids all
requests and all other scripts, so that tags and file names cannot inject any.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from prototag.report import theme
from prototag.report.formatting import breakable
from prototag.report.html import Markup, element, join
from prototag.storage.atomic_write import replacing


class Fact(NamedTuple):
    """A number in large type with its meaning, and an optional note in small type."""

    value: str
    meaning: str
    note: str = ""


class Page:
    """A self-contained page for phones, desktops, dark mode and print.

    Parameters
    ----------
    title : str
    lead : str
        An introduction below the title.
    footer : str
        A note in small type at the end.
    """

    def __init__(self, title: str, *, lead: str = "", footer: str = "Made by ProtoTag.") -> None:
        self.title = title
        self.lead = lead
        self.footer = footer
        self._sections: list[tuple[str, list[Markup]]] = []

    def section(self, name: str, *content: object) -> None:
        """Add a section with content."""
        self._sections.append((name, []))
        self.add(*content)

    def add(self, *content: object) -> None:
        """Add content to the last section: markup unchanged, text as a paragraph."""
        if not self._sections:
            self._sections.append(("", []))
        self._sections[-1][1].extend(
            part if isinstance(part, Markup) else element("p", part)
            for part in content
            if part is not None
        )

    def html(self) -> str:
        """Return the page as an HTML document."""
        script = theme.script()
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        policy = (
            "default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
            f"script-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
        )
        head = element(
            "head",
            element("meta", charset="utf-8"),
            element("meta", http_equiv="Content-Security-Policy", content=policy),
            element("meta", name="viewport", content="width=device-width, initial-scale=1"),
            element("meta", name="referrer", content="no-referrer"),
            element("title", self.title),
            element("style", Markup(theme.page_style())),
        )
        top = element(
            "header",
            element("p", "ProtoTag", class_="brand"),
            element("h1", breakable(self.title)),
            element("p", self.lead, class_="lead") if self.lead else None,
        )
        body = element(
            "body",
            top,
            self._contents(),
            element("main", *self._bodies()),
            element("footer", self.footer) if self.footer else None,
            element("script", Markup(script)),
        )
        return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the page atomically."""
        with replacing(Path(os.path.realpath(path))) as file:
            file.write(self.html().encode("utf-8"))

    def _contents(self) -> Markup | None:
        names = [(number, name) for number, (name, _) in enumerate(self._sections) if name]
        if len(names) < 3:
            return None
        links = (element("li", element("a", name, href=f"#s{number}")) for number, name in names)
        return element("nav", element("ul", *links), aria_label="Contents")

    def _bodies(self) -> Iterable[Markup]:
        for number, (name, content) in enumerate(self._sections):
            heading = element("h2", name) if name else None
            yield element("section", heading, *content, id=f"s{number}")


def facts(entries: Iterable[Fact]) -> Markup:
    """Return the key figures of a report."""
    return element(
        "dl",
        *(
            element(
                "div",
                element("dt", fact.meaning),
                element("dd", fact.value),
                element("dd", fact.note, class_="note") if fact.note else None,
            )
            for fact in entries
        ),
        class_="facts",
    )


def figure(svg: Markup, name: str, note: str = "", *, data: Markup | None = None) -> Markup:
    """Return a figure with its name and a note; ``data``, a table, can be opened below it."""
    caption = element(
        "figcaption",
        element("strong", name),
        element("span", note) if note else None,
    )
    return element("figure", caption, svg, details("The numbers", data) if data else None)


def figures(entries: Sequence[Markup]) -> Markup:
    """Return figures side by side, if the screen is wide enough."""
    return element("div", *entries, class_="figures")


def details(name: str, *content: object) -> Markup:
    """Return content that is hidden until opened."""
    return element("details", element("summary", name), *content)


def heading(*parts: object) -> Markup:
    """Return a heading within a section."""
    return element("h3", *parts)


def paragraph(*parts: object, class_: str | None = None) -> Markup:
    """Return text and markup as one paragraph."""
    return element("p", join(parts), class_=class_)
