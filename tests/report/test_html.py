"""Text stays text, whatever it holds."""

from __future__ import annotations

from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from prototag.report.html import Markup, element, join, text


class Read(HTMLParser):
    """What a parser makes of markup: its elements, and its text."""

    def __init__(self, markup: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.feed(markup)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.words += data


@given(st.text(max_size=60))
def test_any_text_comes_back_from_a_parser_and_makes_no_element(words):
    read = Read(element("p", words, title=words))
    assert [name for name, _ in read.elements] == ["p"]
    kept = text(words)
    assert read.words == Read(kept).words
    for character, shown in zip(words, read.words, strict=True):
        assert shown in (character, "\N{REPLACEMENT CHARACTER}")
    assert read.elements[0][1]["title"] == read.words


def test_what_cannot_be_written_is_replaced():
    assert text("a\x00b\ud800c\x9b") == "a\ufffdb\ufffdc\ufffd"
    assert text("tab\tand\nline") == "tab\tand\nline"
    text("\udcff name of a file that is no text").encode("utf-8")


def test_markup_is_kept_as_content_and_escaped_as_attribute():
    bold = element("b", "x")
    assert element("p", bold, "<b>") == "<p><b>x</b>&lt;b&gt;</p>"
    assert element("p", title=bold) == '<p title="&lt;b&gt;x&lt;/b&gt;"></p>'
    assert join([bold, "<"]) == "<b>x</b>&lt;"
    assert isinstance(bold, Markup)


def test_attributes():
    made = element("img", class_="a", data_v=0.126, hidden=True, alt=None, open=False, width=3)
    assert made == '<img class="a" data-v="0.13" hidden width="3">'
    assert element("p", None, 3, name="n") == '<p name="n">3</p>'
