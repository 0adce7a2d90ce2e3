"""Pages, docstrings, comments and messages use the terms of docs/terms.md."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

import prototag

ROOT = Path(__file__).parents[1]
SOURCE = Path(prototag.__file__).parent
TERMS = ROOT / "docs" / "terms.md"
ROOT_PAGES = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "NOTICE"]

# Phrases that contain a rejected word in another meaning.
ALLOWED = {
    "contact sheet": "a page of thumbnails in a report",
    "contact sheets": "the same",
}
# Words that a folder uses in another meaning.
ALLOWED_IN = {
    "kernels": {"lane", "lanes"},  # elements of a SIMD register
}

SPACED_PERCENT = re.compile(r"(?:\d|\{\}|^) %(?![\w(%])")
INLINE_CODE = re.compile(r"`[^`\n]+`")
LINK_TARGET = re.compile(r"\]\([^)\s]*\)")
PARAGRAPH = re.compile(r"(?:^.*\S.*\n?)+", re.M)
NAMES_IN_MARKUP = re.compile(r"\b(?:class|id|name|for|href|src|data-[\w-]+)=\"[^\"]*\"")
SCRIPT_TEXT = re.compile(
    r"/\*.*?\*/|//[^\n]*(?:\n\s*//[^\n]*)*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`",
    re.S,
)
STYLE_COMMENT = re.compile(r"/\*.*?\*/", re.S)


def never_column(page: str) -> dict[str, str]:
    """Read the rejected phrases of a page of terms, with the term to use for each."""
    phrases: dict[str, str] = {}
    for row in re.findall(r"^\|(.*)\|$", page, re.M):
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", row)]
        if len(cells) == 3 and cells[2] not in ("never", "---"):
            phrases |= {plain(phrase): cells[0] for phrase in cells[2].split(",") if phrase}
    return phrases


def plain(phrase: str) -> str:
    """Return a phrase in lower case, its words separated by single spaces."""
    return " ".join(re.split(r"[\s-]+", phrase.strip().lower()))


def phrase_pattern(phrases: list[str]) -> re.Pattern[str]:
    """Match any of the phrases as whole words, also across line ends and hyphens."""
    longest_first = sorted(phrases, key=len, reverse=True)
    alternatives = [r"[\s-]+".join(map(re.escape, phrase.split())) for phrase in longest_first]
    return re.compile(rf"(?<![\w-])(?:{'|'.join(alternatives)})(?![\w-])", re.I)


PHRASES = never_column(TERMS.read_text("utf-8"))
REJECTED = phrase_pattern([*PHRASES])
ALLOWED_PHRASES = phrase_pattern([*ALLOWED])


def mistakes(text: str, allowed: Collection[str] = ()) -> list[str]:
    """Return the rejected phrases of a text, each with the term to use."""
    text = ALLOWED_PHRASES.sub("", text)
    phrases = [plain(match[0]) for match in REJECTED.finditer(text)]
    wrong = [f"{one!r} (write: {PHRASES[one]})" for one in phrases if one not in allowed]
    return wrong + [f"{match[0]!r} (no space)" for match in SPACED_PERCENT.finditer(text)]


def python_text(source: str) -> Iterator[tuple[int, str]]:
    """Yield line number and text of each block of comments and each string literal."""
    comment: list[str] = []
    last = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            if comment and token.start[0] > last + 1:
                yield last, " ".join(comment)
                comment = []
            comment.append(token.string.lstrip("# "))
            last = token.start[0]
    if comment:
        yield last, " ".join(comment)
    tree = ast.parse(source)
    parts = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for part in node.values
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            values = [
                part.value if isinstance(part, ast.Constant) else "{}" for part in node.values
            ]
            yield node.lineno, "".join(map(str, values))
        elif (
            isinstance(node, ast.Constant) and id(node) not in parts and isinstance(node.value, str)
        ):
            yield node.lineno, node.value


def matches_of(pattern: re.Pattern[str], text: str) -> Iterator[tuple[int, str]]:
    """Yield line number and text of each match."""
    for match in pattern.finditer(text):
        yield text.count("\n", 0, match.start()) + 1, match[0]


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line number and text of everything in a file that people read."""
    content = path.read_text("utf-8")
    if path.suffix == ".py":
        yield from python_text(content)
    elif path.suffix in {".js", ".cpp", ".hpp"}:
        for line, text in matches_of(SCRIPT_TEXT, content):
            yield line, re.sub(r"\n\s*//", " ", text)
    elif path.suffix == ".css":
        yield from matches_of(STYLE_COMMENT, content)
    elif path.suffix == ".html":
        yield 1, NAMES_IN_MARKUP.sub("", content)
    else:
        if path == TERMS:
            content = re.sub(r"[^|\n]*\|$", "|", content, flags=re.M)
        content = LINK_TARGET.sub("]", INLINE_CODE.sub("`", content))
        yield from matches_of(PARAGRAPH, content)


def pages() -> list[Path]:
    return [*(ROOT / name for name in ROOT_PAGES), *sorted((ROOT / "docs").rglob("*.md"))]


def packages() -> set[str]:
    """Return the names of all packages, and of modules that stand alone."""
    folders = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    return folders | {path.stem for path in SOURCE.glob("*.py")}


def modules(package: str) -> list[Path]:
    """Return the readable files of a package, or of a module that stands alone."""
    suffixes = {".py", ".js", ".css", ".html"}
    folder = SOURCE / package
    if not folder.is_dir():
        return [SOURCE / f"{package}.py"]
    return sorted(path for path in folder.rglob("*") if path.suffix in suffixes)


def kernels() -> list[Path]:
    return sorted(path for path in (ROOT / "kernels").rglob("*") if path.suffix in {".cpp", ".hpp"})


def report(paths: list[Path], allowed: Collection[str] = ()) -> str:
    """Return one line for each mistake in the files."""
    lines = [
        f"{path.relative_to(ROOT)}:{line}: {mistake}"
        for path in paths
        for line, text in texts(path)
        for mistake in mistakes(text, allowed)
    ]
    return "\n".join(lines)


def test_pages_use_the_terms():
    wrong = report(pages())
    assert not wrong, wrong


def test_kernels_use_the_terms():
    wrong = report(kernels(), ALLOWED_IN["kernels"])
    assert not wrong, wrong


def test_tools_use_the_terms():
    wrong = report(sorted((ROOT / "tools").rglob("*.py")))
    assert not wrong, wrong


@pytest.mark.parametrize("package", sorted(packages()))
def test_docstrings_comments_and_messages_use_the_terms(package):
    paths = modules(package)
    assert paths
    wrong = report(paths, ALLOWED_IN.get(package, ()))
    assert not wrong, wrong


@pytest.mark.parametrize(
    "source",
    [
        '"""Scores of left-out images."""',
        "# whoever calls this\nx = 1",
        "# everything is learned\n# anew\nx = 1",
        'print("about seven in ten")',
        'print(f"{share} % of them")',
        'print("a rival " "method")',
    ],
)
def test_python_text_is_checked(source):
    assert [mistake for _, text in python_text(source) for mistake in mistakes(text)]


@pytest.mark.parametrize(
    "source",
    [
        "left_out = twins = rivals = 1",
        'print("%d %s" % (10, "recommended twinkle"))',
        '"""A contact sheet: 80% of it."""',
    ],
)
def test_names_and_other_meanings_pass(source):
    assert not [mistake for _, text in python_text(source) for mistake in mistakes(text)]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.md", "# Title\n\nIt takes them\nback."),
        ("a.js", "let twins = 1; // learn it anew\n"),
        ("a.cpp", "int twins = 1;  // equal\n  // by\n  // luck\n"),
        ("a.js", "say(`${n} rivals`);"),
        ("a.html", '<p class="sheet">Whoever</p>'),
        ("a.css", "/* by luck */ .sheet {}"),
    ],
)
def test_other_files_are_checked(name, content, tmp_path):
    path = tmp_path / name
    path.write_text(content)
    assert len([mistake for _, text in texts(path) for mistake in mistakes(text)]) == 1


def test_the_glossary_is_read():
    assert PHRASES["left out"] == "leave-one-out (LOO)"
    assert PHRASES["mended"] == "fix"
    assert len(PHRASES) > 50


def test_every_allowed_phrase_contains_a_rejected_word():
    for phrase in ALLOWED:
        assert REJECTED.search(phrase), f"{phrase!r} needs no entry"
    for folder, words in ALLOWED_IN.items():
        wrong = report(kernels() if folder == "kernels" else modules(folder))
        assert all(f"{word!r}" in wrong for word in words), f"{folder} needs no entry"
