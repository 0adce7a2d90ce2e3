"""Folders with metadata.jsonl or CSV, as people and Hugging Face write them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from prototag.errors import DatasetError, InputError
from prototag.research.datasets import folder

PICTURES = {"a.jpg": ["sea", "sky"], "sub/b.png": ["sky"], "c.jpg": []}


@pytest.fixture
def place(tmp_path):
    for name in PICTURES:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
    return tmp_path


def check(data, place):
    assert data.tags == ["sea", "sky"]
    assert_array_equal(data.Y.toarray(), [[1, 1], [0, 1], [0, 0]])
    assert data.images == [place / name for name in PICTURES]
    assert data.names == list(PICTURES)
    assert data.name == place.name


def test_json_lines(place):
    lines = [json.dumps({"file_name": name, "tags": tags}) for name, tags in PICTURES.items()]
    (place / "metadata.jsonl").write_text("\n\n".join(lines) + "\n")
    for given in (place, place / "metadata.jsonl", str(place)):
        data = folder(given)
        check(data, place)
        assert_array_equal(data.train, np.arange(3))
        assert len(data.test) == 0


@pytest.mark.parametrize(
    "text",
    [
        "file_name,tags\na.jpg,sea;sky\nsub/b.png,sky\nc.jpg,\n",
        'file_name,tags\na.jpg,"sea, sky"\nsub/b.png,sky\nc.jpg,""\n',
        'file_name,tags\na.jpg,"[""sea"", ""sky""]"\nsub/b.png,"[""sky""]"\nc.jpg,[]\n',
        "file_name;tags\na.jpg;sea,sky\nsub/b.png;sky\nc.jpg;\n",
        "\ufefffile_name\tkeywords\r\na.jpg\tsea;sky\r\nsub/b.png\tsky;\r\nc.jpg\t\r\n",
        "file_name,sea,sky\na.jpg,1,1\nsub/b.png,0,1\nc.jpg,0,0\n",
        "image,sea,sky\na.jpg,1.0,1\nsub/b.png,,1\nc.jpg,0,0.0\n",
        '"file_name","tags"\n"a.jpg","sea;sky"\n"sub/b.png","sky"\n"c.jpg",""\n',
    ],
)
def test_csv_in_many_hands(place, text):
    (place / "metadata.csv").write_text(text, encoding="utf-8", newline="")
    check(folder(place), place)


def test_one_column_for_each_tag_in_json(place):
    rows = [
        {"file_name": n, "sea": "sea" in t, "sky": int("sky" in t)} for n, t in PICTURES.items()
    ]
    (place / "metadata.jsonl").write_text("\n".join(map(json.dumps, rows)))
    check(folder(place), place)


def test_a_split_column_makes_the_split(place):
    parts = ["train", "validation", "Test"]
    (place / "metadata.csv").write_text(
        "file_name,tags,split\n"
        + "".join(
            f"{name},{';'.join(tags)},{part}\n"
            for (name, tags), part in zip(PICTURES.items(), parts, strict=True)
        )
    )
    data = folder(place)
    assert_array_equal(data.train, [0, 1])
    assert_array_equal(data.test, [2])
    with pytest.raises(DatasetError, match="already has a split"):
        folder(place, test_share=0.5)


def test_folders_make_the_split(tmp_path):
    for part in ("train", "test"):
        (tmp_path / part).mkdir()
        (tmp_path / part / "1.jpg").touch()
        (tmp_path / part / "metadata.csv").write_text(f"file_name,tags\n1.jpg,{part};sky\n")
    data = folder(tmp_path)
    assert data.names == ["train/1.jpg", "test/1.jpg"]
    assert_array_equal(data.train, [0])
    assert_array_equal(data.test, [1])
    assert data.tags == ["sky", "test", "train"]


def test_a_fair_split_on_request_and_rare_tags_skipped(tmp_path):
    rng = np.random.default_rng(0)
    lines = []
    for row in range(100):
        (tmp_path / f"{row}.jpg").touch()
        tags = ["all"] + [f"w{j}" for j in range(5) if rng.random() < 0.3] + [f"only{row}"] * 2
        lines.append(json.dumps({"file_name": f"{row}.jpg", "tags": tags}))
    (tmp_path / "metadata.jsonl").write_text("\n".join(lines))
    data = folder(tmp_path, at_least=2, test_share=0.2)
    assert data.tags == ["all", "w0", "w1", "w2", "w3", "w4"]
    assert len(data.test) == 20
    off = data.Y[data.test].sum(axis=0) - 0.2 * data.Y.sum(axis=0)
    assert np.abs(off).max() <= 1
    assert_array_equal(data.test, folder(tmp_path, at_least=2, test_share=0.2).test)
    with pytest.raises(DatasetError, match="no tag is on at least 101 of 100 pictures"):
        folder(tmp_path, at_least=101)


def test_missing_pictures(place):
    lines = [json.dumps({"file_name": name, "tags": ["x"]}) for name in ("a.jpg", "z.jpg")]
    (place / "metadata.jsonl").write_text("\n".join(lines))
    with pytest.raises(DatasetError, match=r"1 of 2 pictures are missing \(the first: .*z.jpg\)"):
        folder(place)
    with pytest.warns(UserWarning, match="1 of 2 pictures"):
        assert folder(place, strict=False).names == ["a.jpg"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "line 1 is not JSON"),
        ('{"file_name": "a.jpg", "tags": [3]}', "a list of strings is allowed"),
        ('{"file_name": "../a.jpg", "tags": ["x"]}', "'../a.jpg' leads out of the folder"),
        ('{"file_name": "/etc/passwd", "tags": ["x"]}', "leads out of the folder"),
        ('{"file_name": "a.jpg", "tags": ["x"], "split": "prod"}', "split is 'prod'"),
        ('{"file_name": "a.jpg", "tags": []}', "no tag is on at least 1 of 1 pictures"),
        ("", "names no picture"),
        (2 * '{"file_name": "a.jpg", "tags": ["x"]}\n', r"a.jpg: has several records"),
        (
            '{"file_name": "a.jpg", "tags": ["x"], "split": "train"}\n'
            '{"file_name": "c.jpg", "tags": ["x"]}',
            "c.jpg has no split, others have",
        ),
    ],
)
def test_json_lines_without_tags(place, text, message):
    (place / "metadata.jsonl").write_text(text)
    with pytest.raises(DatasetError, match=message):
        folder(place)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name,tags\na.jpg,x\n", "names no file"),
        ("file_name,sea\na.jpg,wet\n", "'sea' is 'wet'"),
        ("file_name,tags\n", "names no picture"),
        ("", "is empty"),
    ],
)
def test_csv_without_tags(place, text, message):
    (place / "metadata.csv").write_text(text)
    with pytest.raises(DatasetError, match=message):
        folder(place)


def test_places_without_metadata(place):
    with pytest.raises(DatasetError, match=r"has no metadata.jsonl and no metadata.csv.*Write one"):
        folder(place)
    with pytest.raises(DatasetError, match="no such folder or file"):
        folder(place / "none")
    with pytest.raises(DatasetError, match=r"ends in '.jpg'; give a .jsonl or .csv"):
        folder(place / "a.jpg")
    (place / "metadata.csv").touch()
    (place / "metadata.jsonl").touch()
    with pytest.raises(DatasetError, match=r"both metadata.jsonl and metadata.csv"):
        folder(place)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"at_least": 0}, "at_least=0"), ({"test_share": 1.5}, "test_share=1.5")],
)
def test_options_without_meaning(place, options, message):
    with pytest.raises(InputError, match=message):
        folder(place, **options)
