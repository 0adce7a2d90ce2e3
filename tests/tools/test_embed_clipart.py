"""The tool that makes the embedded collection: rules on small trees, the same bytes twice."""

from __future__ import annotations

import io
import json
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw
from tools.clipart_source import describe

from tools import clipart_source, clipart_tags, embed_clipart

PUBLIC = "http://web.resource.org/cc/PublicDomain"


def svg(keywords=(), licences=(PUBLIC,), title="", author="", body=""):
    items = "".join(f"<rdf:li>{word}</rdf:li>" for word in keywords)
    marks = "".join(f'<cc:license rdf:resource="{mark}"/>' for mark in licences)
    return f"""<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">
      <metadata><rdf:RDF xmlns:cc="http://web.resource.org/cc/"
        xmlns:dc="http://purl.org/dc/elements/1.1/"
        xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">
      <cc:Work rdf:about=""><dc:title>{title}</dc:title>
        <dc:subject><rdf:Bag>{items}</rdf:Bag></dc:subject>
        <dc:creator><cc:Agent><dc:title>{author}</dc:title></cc:Agent></dc:creator>
        {marks}</cc:Work></rdf:RDF></metadata>{body}</svg>""".encode()


def write(root, name, png, **told):
    for kind, content in (("svg", svg(**told)), ("png", png)):
        path = root / kind / f"{name}.{kind}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def png(seed, size=64, **options):
    """A disc of its own colour and place on a clear sheet."""
    rng = np.random.default_rng(seed)
    image = Image.new("RGBA", (size, size))
    x, y = rng.integers(0, 9, 2).tolist()
    ImageDraw.Draw(image).ellipse((x, y, size - 5, size - 9), tuple(rng.integers(0, 200, 3)))
    stream = io.BytesIO()
    image.save(stream, "PNG", **options)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("licences", "free"),
    [
        ([PUBLIC], True),
        (["http://creativecommons.org/licenses/publicdomain/"], True),
        ([PUBLIC, "Public Domain"], True),
        ([], False),
        ([""], False),
        (["http://creativecommons.org/licenses/GPL/2.0/"], False),
        ([PUBLIC, "http://creativecommons.org/licenses/GPL/2.0/"], False),
        (["http://creativecommons.org/licenses/by/3.0/"], False),
    ],
)
def test_only_marks_of_the_public_domain_are_free(licences, free):
    assert describe(svg(licences=licences)).public_domain is free


def test_rdf_is_read():
    told = describe(svg(["An Apple ", "", "food"], title=" An\n Apple", author="J. B."))
    assert told == (("An Apple", "food"), "An Apple", "J. B.", (PUBLIC,), False)
    assert describe(b"<svg/>") == ((), "", "", (), False)
    linked = describe(svg(body='<image xlink:href="lost.png"/>'))
    assert linked.incomplete
    assert not describe(svg(body='<image xlink:href="data:image/png;base64,AAAA"/>')).incomplete


def test_words_become_tags():
    words = [
        ["Flags", "HASH(0x8a3ec50)", "0x98554a4", "11", "unsorted"],
        ["flag", "Tom Smith", "North_America"],
        ["northamerica", "boxes", "city", "glass"],
        ["penguin", "box", "cities", "svg"],
        ["roadsign"],
    ]
    found = clipart_tags.tags_of(words, ["", "Tom  Smith", "", "", ""])
    assert found == [
        {"flag"},
        {"flag", "north america"},
        {"north america", "box", "city", "glass"},
        {"penguin", "bird", "animal", "box", "city"},
        {"road sign"},
    ]


def test_tables_do_not_contradict_each_other():
    names = {*clipart_tags.ALIASES.values(), *clipart_tags.IMPLIES.values()}
    assert not names & clipart_tags.JUNK
    assert not set(clipart_tags.ALIASES) & {*clipart_tags.ALIASES.values(), *clipart_tags.JUNK}
    words = {*clipart_tags.ALIASES, *clipart_tags.JUNK, *clipart_tags.UNFIT}
    assert all(clipart_tags.spelled(word) == word for word in words if word != "hash")


def test_copies_join_their_tags_and_a_refused_copy_takes_all_with_it(tmp_path):
    write(tmp_path, "food/a", png(0), keywords=["red"])
    write(tmp_path, "fruit/b", png(0), keywords=["apple"])
    write(tmp_path, "food/c", png(1))
    write(tmp_path, "food/d", png(1), licences=["GPL"])
    write(tmp_path, "food/e", png(2), keywords=["logo"])
    (tmp_path / "svg/food/alone.svg").write_bytes(svg())
    found = list(clipart_source.pairs(tmp_path))
    assert len(found) == 5
    free = embed_clipart.shareable(found)
    assert [pair.name for pair in free] == ["food/a", "food/c", "fruit/b"]
    (picture,) = embed_clipart.tagged(free, [pair for pair in found if pair not in free])
    assert picture.name == "food/a"
    assert picture.tags == {"food", "red", "fruit", "apple"}


@pytest.fixture
def tree(tmp_path):
    """Discs in two folders, a family too large, a rare tag, a blank sheet, one disc filed twice."""
    root = tmp_path / "tree"
    for i in range(30):
        write(
            root,
            f"animals/birds/disc{i:02}",
            png(i),
            keywords=["bird", "rare" if i < 5 else "animal"],
        )
    for i in range(80):
        write(root, f"tools/disc{i:02}", png(100 + i), keywords=["tool", "weapon"], author="Ann")
    blank = io.BytesIO()
    Image.new("RGB", (64, 64), "white").save(blank, "PNG")
    write(root, "animals/birds/blank", blank.getvalue())
    write(root, "animals/birds/again", png(0, compress_level=0), keywords=["bird"])
    return root


def vectors(pictures):
    """Pairs of neighbours point the same way."""
    return np.repeat(np.eye(len(pictures)), 2, axis=0)[: len(pictures)]


def test_a_small_tree_is_cleaned_grouped_and_split(tree, capsys):
    pictures = embed_clipart.make(tree, vectors)
    assert "112 pairs, 112 free to share" in capsys.readouterr().out
    count = Counter(tag for picture in pictures for tag in picture.tags)
    assert count == {"animal": 30, "bird": 30, "tool": 60, "weapon": 60}
    sides = {(picture.group, picture.split) for picture in pictures}
    assert len(sides) == len({group for group, _ in sides}) == 45
    held_out = Counter(t for p in pictures for t in p.tags if p.split == "test")
    assert held_out == {"animal": 6, "bird": 6, "tool": 12, "weapon": 12}


def test_the_same_tree_gives_the_same_bytes(tree):
    first, again = (embed_clipart.packed(embed_clipart.make(tree, vectors)) for _ in range(2))
    assert first == again
    with zipfile.ZipFile(io.BytesIO(first)) as container:
        assert container.testzip() is None
        lines = [json.loads(line) for line in container.read("metadata.jsonl").splitlines()]
        assert container.namelist() == [*(line["file_name"] for line in lines), "metadata.jsonl"]
        with Image.open(io.BytesIO(container.read(lines[0]["file_name"]))) as image:
            assert image.format == "WEBP"
    assert lines[-1]["author"] == "Ann"
    assert "title" not in lines[-1]


def test_margins_are_cropped_and_invisible_drawings_are_skipped(tmp_path, monkeypatch):
    def draw(content):
        path = tmp_path / "a.png"
        path.write_bytes(content)
        return embed_clipart.drawn(embed_clipart.Picture("a", path, frozenset()))

    sheet = Image.new("RGBA", (400, 900))
    sheet.paste((200, 0, 0, 255), (10, 20, 110, 70))
    stream = io.BytesIO()
    sheet.save(stream, "PNG")
    with Image.open(io.BytesIO(draw(stream.getvalue()).webp)) as image:
        assert image.size == (100, 50)
    assert draw(png(0, size=40)) is None
    monkeypatch.setattr(embed_clipart, "MAX_SOURCE_PIXELS", 64 * 64 - 1)
    assert draw(png(0)) is None


def test_unknown_packages_and_empty_folders_are_refused(tmp_path):
    package = tmp_path / "openclipart-svg.deb"
    package.write_bytes(b"no package")
    with pytest.raises(SystemExit, match=r"openclipart-svg with SHA-256 .* openclipart-svg.deb"):
        clipart_source.unpack([package], tmp_path)
    with pytest.raises(SystemExit, match="neither svg/ and png/ nor"):
        list(clipart_source.pairs(Path(tmp_path)))
