"""Data sets of other programs, in and out."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tagged
from prototag.errors import MetadataError
from prototag.metadata import collect, dataset_json
from prototag.metadata.dataset_json import LabeledImage

TAGS = [["red", "animal|cat"], [], ["blue"]]


@pytest.fixture
def pictures(tmp_path):
    return tagged.collection(tmp_path / "photos", 3, listed=False)


def rows(source):
    collected = collect(source)
    names = [path.name for path in collected.images]
    return dict(zip(names, map(sorted, collected.tags), strict=True))


EXPECTED = {f"{n:03}.jpg": sorted(tags) for n, tags in enumerate(TAGS)}


def test_imagefolder_as_a_table(pictures):
    file = pictures[0].parent / "metadata.csv"
    assert dataset_json.write(file, map(LabeledImage, map(str, pictures), TAGS), "imagefolder") == 3
    assert rows(file.parent) == EXPECTED


@pytest.mark.parametrize("form", dataset_json.FORMATS)
@pytest.mark.parametrize("probable", [False, True])
def test_what_is_written_is_read_again(pictures, form, probable):
    name = "metadata.jsonl" if form == "imagefolder" else "labels.json"
    file = pictures[0].parent / name
    chances = [[0.9] * len(tags) for tags in TAGS] if probable else [None] * len(TAGS)
    images = map(LabeledImage, map(str, pictures), TAGS, chances)
    assert dataset_json.write(file, images, form) == 3
    assert rows(file) == EXPECTED
    if form == "imagefolder":
        assert rows(file.parent) == EXPECTED


def test_coco_has_what_its_readers_require(pictures, tmp_path):
    file = pictures[0].parent / "instances.json"
    images = [LabeledImage(str(p), t, [0.5] * len(t)) for p, t in zip(pictures, TAGS, strict=True)]
    dataset_json.write(file, images, "coco")
    written = json.loads(file.read_text())
    assert [image["file_name"] for image in written["images"]] == [p.name for p in pictures]
    assert [(image["width"], image["height"]) for image in written["images"]] == [(64, 48)] * 3
    numbers = {image["id"] for image in written["images"]}
    categories = {category["id"]: category["name"] for category in written["categories"]}
    assert sorted(categories.values()) == ["animal|cat", "blue", "red"]
    assert len({annotation["id"] for annotation in written["annotations"]}) == 3
    for annotation in written["annotations"]:
        assert annotation["image_id"] in numbers
        assert annotation["category_id"] in categories
        assert annotation["bbox"] == [0, 0, 64, 48]
        assert (annotation["area"], annotation["iscrowd"], annotation["score"]) == (3072, 0, 0.5)
    elsewhere = tmp_path / "elsewhere" / "coco.json"
    elsewhere.parent.mkdir()
    dataset_json.write(elsewhere, images, "coco")
    assert rows(elsewhere) == EXPECTED
    for form in ("fiftyone", "imagefolder"):
        with pytest.raises(MetadataError, match=r"is not below .*: write the file into the folder"):
            dataset_json.write(elsewhere, images, form)


def test_coco_of_objects_has_each_tag_once(pictures):
    """As the COCO of detections: several boxes of one category, pictures in a folder of images."""
    root = pictures[0].parent.parent
    pictures[0].parent.rename(root / "images")
    document = {
        "images": [{"id": 7, "file_name": "000.jpg"}, {"id": 3, "file_name": "001.jpg"}],
        "categories": [{"id": 18, "name": "dog", "supercategory": "animal"}],
        "annotations": [
            {"id": n, "image_id": 7, "category_id": 18, "bbox": [0, 0, n, n]} for n in (1, 2)
        ],
    }
    (root / "instances.json").write_text(json.dumps(document))
    assert rows(root / "instances.json") == {"000.jpg": ["dog"], "001.jpg": []}


@pytest.mark.parametrize(
    "labels",
    [
        {"000": [0, 1], "001": None, "002": [2]},
        {
            "000": [{"label": 0, "confidence": 0.9}, {"label": "red"}],
            "001": [],
            "002": {"label": 2},
        },
        {"000.jpg": ["red", "animal|cat", "red"], "002": "blue", "001": None},
    ],
)
def test_labels_of_fiftyone(pictures, labels):
    root = pictures[0].parent.parent
    pictures[0].parent.rename(root / "data")
    document = {"classes": ["animal|cat", "red", "blue"], "labels": labels}
    (root / "labels.json").write_text(json.dumps(document))
    assert rows(root / "labels.json") == EXPECTED


def test_two_suffixes_of_one_name_are_refused_for_fiftyone(tmp_path):
    images = [LabeledImage(str(tmp_path / name), ["red"]) for name in ("a.jpg", "a.png")]
    with pytest.raises(MetadataError, match="two pictures are named 'a' with different suffixes"):
        dataset_json.write(tmp_path / "labels.json", images, "fiftyone")
    with pytest.raises(MetadataError, match="form='yolo': give one of 'coco', 'fiftyone', 'image"):
        dataset_json.write(tmp_path / "labels.json", images, "yolo")
    assert not (tmp_path / "labels.json").exists()


COCO = {"images": [{"id": 1, "file_name": "000.jpg"}], "categories": [{"id": 1, "name": "a"}]}


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ([], "is neither COCO"),
        ({"images": 3}, "is neither COCO"),
        ({"images": [3]}, "'images' is not a list of objects"),
        ({"images": [{"id": "1", "file_name": "a.jpg"}]}, "'id' is '1' in .*, not a number"),
        ({"images": [{"id": 1}]}, "'file_name' is None in .*, not text"),
        ({**COCO, "annotations": [{"image_id": 1, "category_id": 2}]}, "category 2, and one of"),
        ({**COCO, "annotations": [{"image_id": 2, "category_id": 1}]}, "names image 2"),
        ({"labels": {"a": 5}, "classes": ["x"]}, "the label 5 is not a class"),
        ({"labels": {"a": -1}, "classes": ["x"]}, "the label -1 is not a class"),
        ({"labels": {"a": True}, "classes": ["x", "y"]}, "the label True is not a class"),
        ({"labels": {"a": 0}}, "the label 0 is not a class"),
        ({"labels": {"a": "x"}, "classes": {}}, "'classes' is {}, not a list"),
    ],
)
def test_malformed_data_sets_are_refused(pictures, document, words):
    file = pictures[0].parent / "labels.json"
    file.write_text(document if isinstance(document, str) else json.dumps(document))
    with pytest.raises(MetadataError, match=words):
        collect(file)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.text("ab0.", max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["id", "name", "file_name", "image_id", "category_id", "label", "a"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


KEYS = ("images", "categories", "annotations", "labels", "classes")


@settings(deadline=None, max_examples=200)
@given(st.fixed_dictionaries({}, optional=dict.fromkeys(KEYS, json_values)))
def test_any_json_is_read_or_refused(tmp_path_factory, document):
    folder = tmp_path_factory.getbasetemp()
    try:
        found = list(dataset_json.read(folder / "x.json", json.dumps(document)))
    except MetadataError:
        return
    assert all(isinstance(tag, str) for _, tags, _ in found for tag in tags)


def test_no_package_of_these_programs_is_imported(pictures):
    code = (
        "import sys; from prototag.metadata import dataset_json as d\n"
        f"p = {str(pictures[0])!r}\n"
        "for form in d.FORMATS: d.write(p + '.json', [d.LabeledImage(p, ['red'])], form)\n"
        "print({'pycocotools', 'fiftyone', 'datasets', 'sklearn', 'scipy'} & set(sys.modules))"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == "set()"
