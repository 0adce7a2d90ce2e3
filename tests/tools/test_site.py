"""What makes the pages a site: faults are found that mkdocs does not see; readable docstrings."""

from __future__ import annotations

import pytest
from tools.site.check import faults


def built(folder, **pages: str):
    for name, body in pages.items():
        (folder / name).mkdir()
        (folder / name / "index.html").write_text(f"<html><body>{body}</body></html>")
    return folder


def test_a_sound_site_has_no_faults(tmp_path):
    (tmp_path / "seen.png").touch()
    site = built(
        tmp_path,
        one='<h2 id="here"></h2><a href="../two/#there">two</a><a href="#here">up</a>',
        two='<p id="there"></p><img src="../seen.png" alt="A cat"><a href="https://a.org/">a</a>',
    )
    assert faults(site) == []


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ('<a href="../gone/">x</a>', "leads nowhere: ../gone/"),
        ('<a href="#gone">x</a>', "leads nowhere: #gone"),
        ('<img src="https://a.org/x.png" alt="x">', "asks another host: https://a.org/x.png"),
        ('<script src="//a.org/x.js"></script>', "asks another host: //a.org/x.js"),
        ('<img src="../one/index.html">', "a picture without words: ../one/index.html"),
        ('<p id="a"></p><p id="a"></p>', "two places are called #a"),
    ],
)
def test_a_fault_is_named_with_its_page(tmp_path, body, fault):
    assert faults(built(tmp_path, one=body)) == [f"one/index.html: {fault}"]


def test_a_style_that_asks_another_host_is_found(tmp_path):
    (tmp_path / "page.css").write_text("a { background: url('https://a.org/x.png') }")
    assert faults(tmp_path) == ["page.css: asks another host: https://a.org/x.png"]


def test_docstrings_are_readable():
    pytest.importorskip("griffe")
    from tools.site.docstrings import readable

    assert readable("See :class:`~prototag.events.Event`.") == "See `Event`."
    assert readable("docs/architecture.md") == "[Architecture](../../architecture.md)"
    page = "terms.md"  # with front matter
    assert readable(f"docs/{page}") == f"[Terms](../../{page})"
    assert readable('a : {"b", "c"} or None\n') == 'a : one of "b", "c" or None\n'
    shared = "Parameters\n----------\na, b : as in :func:`c`\nd : int\n    It.\n"
    apart = "Parameters\n----------\na\n    As in `c`.\nb\n    As in `c`.\nd : int\n    It.\n"
    assert readable(shared) == apart
