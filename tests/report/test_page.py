"""A page as a file. What a browser makes of it is tested with the whole report."""

from __future__ import annotations

import base64
import hashlib
import re

from prototag.report import Fact, Page, details, element, facts, figure, figures, paragraph
from prototag.report.charts.line_charts import Series, lines


def a_page() -> Page:
    page = Page("<Title>", lead="a & b", footer="made")
    svg = lines([Series("a", [0, 1], [0, 1])], title="a line")
    page.section("One", "plain <text>", facts([Fact("5", "pictures", "counted")]))
    page.section("Two", figures([figure(svg, "Name", "words", data=element("table"))]))
    page.section("Three", details("more", paragraph("a ", element("b", "c"))), None)
    return page


def test_text_is_escaped_and_markup_kept():
    html = a_page().html()
    assert "<title>&lt;Title&gt;</title>" in html
    assert "<p>plain &lt;text&gt;</p>" in html
    assert "<p>a <b>c</b></p>" in html
    assert html.count("<section") == 3
    assert '<a href="#s1">Two</a>' in html


def test_short_pages_need_no_contents():
    page = Page("t")
    page.add("only words")
    assert "<nav" not in page.html()
    assert "<h2" not in page.html()


def test_the_policy_allows_the_script_of_the_page_and_nothing_else():
    html = a_page().html()
    (script,) = re.findall("<script>(.*?)</script>", html, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = re.search('Content-Security-Policy" content="([^"]+)"', html)[1].replace("&#x27;", "'")
    assert f"script-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'; img-src data:;")


def test_a_page_is_the_same_each_time_and_written_whole(tmp_path):
    file = tmp_path / "a.html"
    a_page().write(file)
    a_page().write(file)
    assert file.read_text(encoding="utf-8") == a_page().html()
    assert list(tmp_path.iterdir()) == [file]
