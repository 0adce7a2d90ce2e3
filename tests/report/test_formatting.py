"""How tags, file names and shares are written."""

from __future__ import annotations

import pytest

from prototag.report.formatting import file_name, last_level, percent, tag_name, tag_names


@pytest.mark.parametrize(
    ("share", "words"),
    [(0, "0%"), (0.004, "under 1%"), (0.005, "under 1%"), (0.006, "1%"), (0.834, "83%")],
)
def test_shares(share, words):
    assert percent(share) == words


def test_a_path_shows_its_leaf_and_keeps_the_path():
    assert tag_name("Natur|Landschaft|sky") == '<bdi title="Natur|Landschaft|sky">sky</bdi>'
    assert tag_name("sky") == "<bdi>sky</bdi>"
    assert last_level("odd|") == "odd|"
    assert tag_names(["a|b", "c"]) == '<bdi title="a|b">b</bdi>, <bdi>c</bdi>'
    assert tag_names([]) == ""


def test_file_names_break_between_words_only():
    assert file_name("a/my_old-cat.jpg") == (
        '<bdi title="a/my_old-cat.jpg">my_<wbr>old-<wbr>cat.<wbr>jpg</bdi>'
    )
    assert file_name("7") == "<bdi>7</bdi>"
    assert "&lt;b&gt;" in file_name("<b>")
