"""One page in one file: nothing is fetched, nothing but its own small script can run.

A page is a title and sections of blocks. A block is markup made by this package (tables, figures,
sheets) or plain text, which becomes a paragraph. The content security policy of the page forbids
every request and every script except the one that sorts tables, whatever a tag may hold.
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
    """A figure in large type, what it means, and (small) how it was found."""

    value: str
    meaning: str
    note: str = ""


class Page:
    """A self-contained page that reads well on a phone, on a desk, in the dark and on paper.

    Parameters
    ----------
    title : str
    lead : str
        What the page is, in a sentence or two below the title.
    footer : str
        Where it comes from, in small letters at its end.
    """

    def __init__(self, title: str, *, lead: str = "", footer: str = "Made by ProtoTag.") -> None:
        self.title = title
        self.lead = lead
        self.footer = footer
        self._sections: list[tuple[str, list[Markup]]] = []

    def section(self, name: str, *blocks: object) -> None:
        """Begin a section, and add blocks to it."""
        self._sections.append((name, []))
        self.add(*blocks)

    def add(self, *blocks: object) -> None:
        """Add blocks to the last section: markup as it is, text as a paragraph."""
        if not self._sections:
            self._sections.append(("", []))
        self._sections[-1][1].extend(
            block if isinstance(block, Markup) else element("p", block)
            for block in blocks
            if block is not None
        )

    def html(self) -> str:
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
        """Write the page; either all of it is there afterwards, or what was there before."""
        with replacing(Path(os.path.realpath(path))) as file:
            file.write(self.html().encode("utf-8"))

    def _contents(self) -> Markup | None:
        names = [(place, name) for place, (name, _) in enumerate(self._sections) if name]
        if len(names) < 3:
            return None
        links = (element("li", element("a", name, href=f"#s{place}")) for place, name in names)
        return element("nav", element("ul", *links), aria_label="Contents")

    def _bodies(self) -> Iterable[Markup]:
        for place, (name, blocks) in enumerate(self._sections):
            heading = element("h2", name) if name else None
            yield element("section", heading, *blocks, id=f"s{place}")


def facts(entries: Iterable[Fact]) -> Markup:
    """The few figures that a reader should take away."""
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


def figure(svg: Markup, name: str, words: str = "", *, data: Markup | None = None) -> Markup:
    """A figure under its name and what it says; ``data``, a table, opens below it."""
    caption = element(
        "figcaption",
        element("strong", name),
        element("span", words) if words else None,
    )
    return element("figure", caption, svg, details("The numbers", data) if data else None)


def figures(entries: Sequence[Markup]) -> Markup:
    """Figures beside each other where there is room."""
    return element("div", *entries, class_="figures")


def details(name: str, *blocks: object) -> Markup:
    """Blocks that open when asked for."""
    return element("details", element("summary", name), *blocks)


def heading(*parts: object) -> Markup:
    return element("h3", *parts)


def paragraph(*parts: object, class_: str | None = None) -> Markup:
    """Text and markup in one paragraph."""
    return element("p", join(parts), class_=class_)
