"""Lets pages link to files of the repository that are not in docs/: those files join the site.

Links stay as they work in a checkout, such as ``../../benchmarks/results/tool.json``. The files
that they lead to are added below ``repository/``, and the links are turned there. A file that is
missing stays a broken link, which ends the build.

And tells where lines may break on a phone: not within an option or a range, but after the dots of
a long name.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from typing import Any

from mkdocs.structure.files import File, Files

from tools.site.titles import ROOT, title

AT = "repository/"
FIGURES = re.compile(r"(?<=[\d%]) / (?=[-+]?\d)")  # "50.2 / 45.8" stays on one line
LINK = re.compile(r"(?<=\]\()(?![a-z]+:)([^)#\s]+)")
NAMED = re.compile(r"\[(docs/[\w/-]+\.md)\](?=\()")  # a link that shows nothing but a file's name

# Of HTML, as mkdocs has made it.
EMPTY = re.compile(r'\s*–\s*<div class="doc-md-description">\s*</div>')  # a dash, then nothing
BRACKET = re.compile(r"</code>\s+\)")
BLOCK = re.compile(r"(<pre.*?</pre>)", re.S)
INLINE = re.compile(r"<code>([^<]+)</code>")
OPTION = re.compile(r"(?<![\w-])--?[A-Za-z][\w-]*")
JOINT = re.compile(r"(?<=[A-Za-z_\])}])([./|])(?=[A-Za-z_{(])")
CELL = re.compile(r"<td([^>]*)>(.*?)</td>", re.S)
RANGE = re.compile(r"(?<![\w.-])\d[\d.,]*-\d[\d.,]*\d")
TEXT = re.compile(r"(?:^|(?<=>))[^<]+")
WHOLE = r'<span class="whole">\g<0></span>'
LONG = 20  # letters of a name that may break
PROSE = 40  # letters of a cell that needs room


def on_files(files: Files, config: Any, **_: Any) -> Files:
    """Adds what pages link to, and what those files link to in their turn."""
    pending = [f"docs/{page.src_uri}" for page in files.documentation_pages()]
    pending += [line for line in _named(config["nav"]) if line.startswith(AT)]
    seen: set[str] = set()
    while pending:
        name = pending.pop().removeprefix(AT)
        if name in seen or not (ROOT / name).is_file():
            continue
        seen.add(name)
        if not name.startswith("docs/") and not files.get_file_from_path(AT + name):
            files.append(File.generated(config, AT + name, abs_src_path=str(ROOT / name)))
        if name.endswith(".md"):
            pending += [_target(name, link) for link in LINK.findall((ROOT / name).read_text())]
    return files


def on_page_markdown(markdown: str, page: Any, files: Files, **_: Any) -> str:
    """Turns links that leave docs/, and links of files outside of it."""
    here = page.file.src_uri
    name = here.removeprefix(AT) if here.startswith(AT) else f"docs/{here}"

    def turned(match: re.Match[str]) -> str:
        target = _target(name, match[1])
        there = target.removeprefix("docs/") if target.startswith("docs/") else AT + target
        if files.get_file_from_path(there) is None:
            return match[1]
        return posixpath.relpath(there, posixpath.dirname(here) or ".")

    markdown = NAMED.sub(lambda link: f"[{title(link[1])}]", markdown)
    return FIGURES.sub("\N{NO-BREAK SPACE}/\N{NO-BREAK SPACE}", LINK.sub(turned, markdown))


def on_page_content(html: str, **_: Any) -> str:
    """Takes out dashes with nothing behind them, and says where lines may break."""
    html = CELL.sub(_cell, BRACKET.sub("</code>)", EMPTY.sub("", html)))
    parts = BLOCK.split(html)
    return "".join(
        _keep(OPTION, part) if part.startswith("<pre") else INLINE.sub(_inline, part)
        for part in parts
    )


def _keep(pattern: re.Pattern[str], html: str) -> str:
    """What matches in the text between tags stays on one line."""
    return TEXT.sub(lambda text: pattern.sub(WHOLE, text[0]), html)


def _inline(match: re.Match[str]) -> str:
    text = OPTION.sub(WHOLE, match[1])
    if len(match[1]) >= LONG:
        text = JOINT.sub(r"\1<wbr>", text)
    return f"<code>{text}</code>"


def _cell(match: re.Match[str]) -> str:
    attributes, inside = match.groups()
    words = re.sub(r"<[^>]+>", "", inside)
    inside = _keep(RANGE, inside)
    prose = ' class="prose"' if len(words) > PROSE else ""
    return f"<td{attributes}{prose}>{inside}</td>"


def _target(name: str, link: str) -> str:
    """The file in the repository that a link of one of its pages leads to."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(name), link))


def _named(nav: Any) -> Iterator[str]:
    """All files in the navigation."""
    if isinstance(nav, str):
        yield nav
    for part in nav.values() if isinstance(nav, dict) else nav if isinstance(nav, list) else ():
        yield from _named(part)
