"""Hugging Face's datasets and pycocotools themselves: ``make test-datasets`` installs them."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

import tagged
from prototag.metadata import collect, dataset_json
from prototag.metadata.dataset_json import LabeledImage

# Warnings of these packages among themselves; those of prototag stay errors in all other tests.
pytestmark = pytest.mark.filterwarnings("ignore")
TAGS = [["red", "animal|cat"], [], ["Zoë & Max, 2"], ["blue"]]


@pytest.fixture
def pictures(tmp_path):
    return tagged.collection(tmp_path / "photos", 4, listed=False)


@pytest.fixture
def datasets(monkeypatch, tmp_path):
    monkeypatch.setitem(os.environ, "HF_HUB_OFFLINE", "1")
    monkeypatch.setitem(os.environ, "HF_HOME", str(tmp_path / "huggingface"))
    package = pytest.importorskip(
        "datasets", reason="datasets is not installed: make test-datasets installs it"
    )
    package.disable_progress_bars()
    return package


def load(datasets, folder, tmp_path, split="train"):
    return datasets.load_dataset(
        "imagefolder", data_dir=str(folder), cache_dir=str(tmp_path / "cache"), split=split
    )


def tags_of(source):
    collected = collect(source)
    names = [path.name for path in collected.images]
    return dict(zip(names, map(sorted, collected.tags), strict=True))


def write(folder, name, pictures):
    images = [LabeledImage(str(p), tags) for p, tags in zip(pictures, TAGS, strict=True)]
    dataset_json.write(folder / name, images, "imagefolder")


def test_datasets_loads_what_is_written_as_json_lines(datasets, pictures, tmp_path):
    write(pictures[0].parent, "metadata.jsonl", pictures)
    rows = load(datasets, pictures[0].parent, tmp_path)
    assert [row["tags"] for row in rows] == TAGS
    assert [row["image"].size for row in rows] == [(64, 48)] * 4


def test_datasets_loads_what_is_written_as_a_table(datasets, pictures, tmp_path):
    write(pictures[0].parent, "metadata.csv", pictures)
    rows = load(datasets, pictures[0].parent, tmp_path)
    assert [json.loads(row["tags"]) for row in rows] == TAGS


WRITE = """
import sys
import datasets
source, file = sys.argv[1:]
made = datasets.load_dataset("json", data_files=source)["train"]
made.to_json(file) if file.endswith(".jsonl") else made.to_csv(file)
"""


@pytest.mark.parametrize("name", ["metadata.jsonl", "metadata.csv"])
@pytest.mark.usefixtures("datasets")
def test_what_datasets_writes_is_read(pictures, name):
    """A column of lists, in JSON lines and in CSV, where it writes lists as NumPy prints them."""
    rows = [{"file_name": p.name, "tags": tags} for p, tags in zip(pictures, TAGS, strict=True)]
    source = pictures[0].parent.parent / "rows.jsonl"
    source.write_text("\n".join(map(json.dumps, rows)))
    file = pictures[0].parent / name
    # A process of its own, because the pickles of datasets fail beside the modules of pytest.
    command = [sys.executable, "-c", WRITE, str(source), str(file)]
    subprocess.run(command, check=True, capture_output=True)
    expected = {path.name: sorted(tags) for path, tags in zip(pictures, TAGS, strict=True)}
    assert tags_of(pictures[0].parent) == expected


def test_splits_and_objects_are_read_as_datasets_reads_them(datasets, tmp_path):
    """Each split is a folder with a list; ``objects`` are those of detection."""
    root = tmp_path / "photos"
    for number, split in enumerate(["train", "test"]):
        (picture,) = tagged.collection(root / split, 1, start=number, listed=False)
        objects = {"bbox": [[0, 0, 5, 5], [1, 1, 9, 9], [0, 0, 2, 2]]}
        objects["categories"] = ["cat", "dog", "cat"]
        line = json.dumps({"file_name": picture.name, "objects": objects})
        (root / split / "metadata.jsonl").write_text(f"{line}\n")
        assert load(datasets, root, tmp_path, split)[0]["objects"]["categories"][1] == "dog"
    assert tags_of(root) == {"000.jpg": ["cat", "dog"], "001.jpg": ["cat", "dog"]}


def test_pycocotools_loads_what_is_written(pictures):
    coco = pytest.importorskip(
        "pycocotools.coco", reason="pycocotools is not installed: make test-datasets installs it"
    )
    file = pictures[0].parent / "instances.json"
    images = [
        LabeledImage(str(p), tags, [0.5] * len(tags))
        for p, tags in zip(pictures, TAGS, strict=True)
    ]
    dataset_json.write(file, images, "coco")
    loaded = coco.COCO(str(file))
    for number, tags in zip(loaded.getImgIds(), TAGS, strict=True):
        annotations = loaded.loadAnns(loaded.getAnnIds(imgIds=[number]))
        names = [loaded.loadCats(one["category_id"])[0]["name"] for one in annotations]
        assert names == tags
        assert loaded.loadImgs(number)[0]["width"] == 64
    # pycocotools reads it as results of a detector, too, and adds boxes and areas.
    results = json.loads(file.read_text())["annotations"]
    scored = loaded.loadRes(results)
    assert [one["score"] for one in scored.dataset["annotations"]] == [0.5] * 4
