"""Looks through the built site for what mkdocs does not see.

    python -m tools.site.check build/site

Every link and anchor between pages leads somewhere, every picture says what it shows, and nothing
is fetched from another host, by pages or by their styles.
"""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

FETCHED = {
    ("script", "src"),
    ("img", "src"),
    ("link", "href"),
    ("iframe", "src"),
    ("source", "src"),
}
OUTSIDE = re.compile(r"^(?:[a-z]+:)?//", re.I)


class Reader(HTMLParser):
    """What one page links to, fetches and can be linked to by."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.ids: set[str] = set()
        self.twice: set[str] = set()
        self.silent: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if name := given.get("id"):
            (self.twice if name in self.ids else self.ids).add(name)
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag == "img" and not given.get("alt"):
            self.silent.append(given.get("src", ""))
        self.fetched += [given[name] for kind, name in FETCHED if kind == tag and name in given]


def faults(site: Path) -> list[str]:
    """All that is wrong, one line each."""
    pages: dict[Path, Reader] = {}
    for path in sorted(site.rglob("*.html")):
        # A report of an experiment is one file, which its own tests judge; 404 has no address.
        if ("repository" in path.parts and path.name != "index.html") or path.name == "404.html":
            continue
        pages[path] = Reader()
        pages[path].feed(path.read_text(encoding="utf-8"))
    result = []
    for path, page in pages.items():
        name = path.relative_to(site)
        result += [f"{name}: a picture without words: {one}" for one in page.silent]
        result += [
            f"{name}: asks another host: {one}" for one in page.fetched if OUTSIDE.match(one)
        ]
        result += [f"{name}: two places are called #{one}" for one in sorted(page.twice)]
        for link in [*page.links, *page.fetched]:
            if not leads_somewhere(link, path, pages):
                result.append(f"{name}: leads nowhere: {link}")
    for style in site.rglob("*.css"):
        for address in re.findall(r"url\(['\"]?([^'\")]+)", style.read_text(encoding="utf-8")):
            if OUTSIDE.match(address):
                result.append(f"{style.relative_to(site)}: asks another host: {address}")
    return result


def leads_somewhere(link: str, path: Path, pages: dict[Path, Reader]) -> bool:
    """Whether a link inside of the site has its file, and its place there."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return True
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path.resolve()
    if target.is_dir():
        target /= "index.html"
    if not target.is_file():
        return False
    known = pages.get(target)
    return not parts.fragment or known is None or unquote(parts.fragment) in {*known.ids, "__skip"}


def main(folder: str) -> None:
    """Prints the faults, and ends with 1 where there are any."""
    site = Path(folder).resolve()
    wrong = faults(site)
    print("\n".join(wrong) or f"{len(list(site.rglob('*.html')))} pages, no faults.")
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main(sys.argv[1])
