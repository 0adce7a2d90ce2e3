"""Collections of every kind become vectors, tags and names."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import tagged
from pictures import encoded
from prototag import Annotator
from prototag.annotator import training_set
from prototag.annotator.training_set import TrainingSet, build_training_set, fit_tagger
from prototag.annotator.types import TrainingSummary
from prototag.annotator.vector_export import write_vectors
from prototag.errors import InputError, TrainingError
from prototag.estimator import TagEstimator
from prototag.features import extractor
from prototag.features.extractor import Extractor
from prototag.features.types import FeatureGroup
from prototag.features.vector_folder import VectorFolder
from prototag.images import decode
from prototag.images.decode import digest
from prototag.metadata import collect
from prototag.research.datasets import Collection, planted
from prototag.research.datasets.collection import tag_matrix
from prototag.tagging import task
from prototag.tagging.tagger import recommended

EXTRACTOR = Extractor(crops="fast", cache=None)


def test_a_folder_a_list_of_files_and_a_data_set_train_equal_models(tmp_path):
    files = tagged.collection(tmp_path / "some", 20)
    rows = [tagged.tags_of(n) for n in range(20)]
    folder = build_training_set(tmp_path / "some", None, EXTRACTOR, 3)
    listed = build_training_set(files, rows, EXTRACTOR, 3)
    Y, tags = tag_matrix(rows)
    images = [path.read_bytes() for path in files]
    names = [path.name for path in files]
    everyone, nobody = np.arange(20), np.empty(0, np.int64)
    data = Collection("small", Y, tags, everyone, nobody, images=images, names=names)
    collected = build_training_set(data, None, EXTRACTOR, 3)
    for training in (listed, collected):
        assert np.array_equal(training.X, folder.X)
        assert np.array_equal(training.Y.toarray(), folder.Y.toarray())
        assert training.tags == folder.tags
        assert training.names == folder.names == names
    part = replace(data, train=everyone[:12], test=everyone[12:])
    assert len(build_training_set(part, None, EXTRACTOR, 3).names) == 12
    with pytest.raises(TrainingError, match="vectors but no pictures"):
        build_training_set(replace(data, images=None), None, EXTRACTOR, 3)


NOT_LISTS_OF_TAGS = {
    "a string for each picture": (["sky, wall"] * 12, r"tags\[0\] is the string 'sky, wall'"),
    "one string": ("sky, wall", "tags is a string"),
    "one string among lists": ([["sky"]] * 11 + ["wall"], r"tags\[11\] is the string 'wall'"),
    "a DataFrame": (pd.DataFrame({"tags": [["sky"]] * 12}), "tags is a DataFrame"),
    "a 0/1 matrix": (np.eye(12, 3, dtype=int), "a 0/1 matrix is for recommended"),
    "a sparse 0/1 matrix": (sparse.csr_array(np.eye(12, 3)), "a 0/1 matrix is for recommended"),
    "rows of a 0/1 matrix": ([[0, 1, 1]] * 12, "a 0/1 matrix is for recommended"),
    "a dict": ({f"{n}.jpg": ["sky"] for n in range(12)}, "tags is a dict"),
    "one number": (7, "tags is an? int"),
    "no list": ([["sky"]] * 11 + [None], r"tags\[11\] is None"),
    "a tag that is no text": ([["sky", 3.5]] * 12, r"tags\[0\] contains 3\.5"),
}


@pytest.mark.parametrize(("tags", "words"), NOT_LISTS_OF_TAGS.values(), ids=NOT_LISTS_OF_TAGS)
def test_what_is_no_list_of_tags_is_refused_before_a_picture_is_read(tags, words):
    """Strings were learned letter by letter; a table ended in an AttributeError."""
    files = [f"/no/such/{number}.jpg" for number in range(12)]
    with pytest.raises(InputError, match=words) as refused:
        Annotator(cache=None).fit(files, tags)
    assert "one list of tags for each picture" in str(refused.value)


def test_tags_may_come_in_any_collection(tmp_path):
    files = tagged.collection(tmp_path / "some", 12, listed=False)
    rows = [tagged.tags_of(n) for n in range(12)]
    expected = build_training_set(files, rows, EXTRACTOR, 3)
    series = pd.Series(rows)
    for given in (map(set, rows), series, series.to_numpy(), [np.array(row) for row in rows]):
        training = build_training_set(files, given, EXTRACTOR, 3)
        assert training.tags == expected.tags
        assert np.array_equal(training.Y.toarray(), expected.Y.toarray())


def test_pictures_without_tags_and_one_picture_are_refused(tmp_path):
    files = tagged.collection(tmp_path, 3)
    with pytest.raises(InputError, match="12 pictures were given without tags"):
        Annotator(cache=None).fit(files * 4)
    with pytest.raises(InputError, match="12 pictures were given without tags"):
        Annotator(cache=None).fit(np.array([str(file) for file in files * 4]))
    with pytest.raises(InputError, match="has no column 'tags', only 'path': name one"):
        Annotator(cache=None).fit(pd.DataFrame({"path": files}))
    with pytest.raises(InputError, match="one picture is not enough to learn from"):
        Annotator(cache=None).fit(str(files[0]), ["red"])
    with pytest.raises(InputError, match="tags of a folder are found in it"):
        Annotator(cache=None).fit(str(tmp_path), [["red"]] * 3)


def test_names_are_relative_to_the_common_folder(tmp_path):
    files = tagged.collection(tmp_path / "a", 8) + tagged.collection(tmp_path / "b" / "c", 8)
    training = build_training_set(files, [["red"]] * 16, EXTRACTOR, 2)
    assert training.names[0] == "a/000.jpg"
    assert training.names[-1] == "b/c/007.jpg"
    pictures = [encoded(tagged.picture(["red"], n), "PNG") for n in range(10)]
    assert build_training_set(pictures, [["red"]] * 10, EXTRACTOR, 2).names[3] == "picture 3"


def test_pictures_are_known_by_their_content(tmp_path):
    files = tagged.collection(tmp_path / "some", 12)
    rows = [["red"] if number else [] for number in range(12)]
    training = build_training_set(files, rows, EXTRACTOR, 3, thumbnails=True)
    assert training.digests == [digest(file) for file in files[1:]]
    assert [small[8:12] for small in training.thumbnails] == [b"WEBP"] * 11
    assert build_training_set(files, rows, EXTRACTOR, 3).thumbnails == [b""] * 11


def test_training_decodes_every_picture_once(tmp_path, monkeypatch):
    opened = []

    def counting(source, **limits):
        opened.append(limits["at_least"])
        return decode.open_image(source, **limits)

    monkeypatch.setattr(extractor, "open_image", counting)
    tagged.collection(tmp_path / "some", 20)
    for _ in range(2):  # the second time the cache knows the vectors
        opened.clear()
        annotator = Annotator(crops="fast", cache=tmp_path / "cache", min_pictures=3)
        annotator.fit(tmp_path / "some")
        assert len(opened) == len(annotator.gallery.names) == 20
        assert all(annotator.gallery.thumbnails)
    assert max(opened) < (224, 224)


def test_untagged_pictures_are_ignored_or_lack_every_tag(tmp_path):
    files = tagged.collection(tmp_path, 16)
    rows = [["red"]] * 11 + [["rare"]] + [[]] * 4
    for untagged, count in (("ignore", 12), ("negative", 16)):
        training = build_training_set(files, rows, EXTRACTOR, 5, untagged=untagged)
        assert training.Y.shape == (count, 1)
        assert training.Y.sum() == 11
        assert training.summary.untagged == 16 - count
    with pytest.raises(ValueError, match="give 'ignore' or 'negative'"):
        build_training_set(files, rows, EXTRACTOR, 5, untagged="maybe")


def test_corrected_pictures_have_only_the_labels_of_the_correction(tmp_path):
    files = tagged.collection(tmp_path / "some", 24)
    found = collect(tmp_path / "some")
    assert build_training_set(found, None, EXTRACTOR, 3).unlabeled is None
    found.ruled_out[0], found.ruled_out[1] = ["blue", "unheard of"], []
    found.tags[1] = []  # all that was proposed was taken away, or nothing of it is common enough
    training = build_training_set(found, None, EXTRACTOR, 3)
    assert len(training.Y.toarray()) == len(files)
    unknown = training.unlabeled.toarray()
    row = dict(zip(training.tags, unknown[0].tolist(), strict=True))
    assert row == {"red": False, "striped": False, "dotted": False, "blue": False, "green": True}
    assert unknown[1].all()
    assert not unknown[2:].any()
    annotator = Annotator(crops="fast", cache=None, min_pictures=3).fit(found)
    assert annotator.training_summary.pictures == 24


def test_a_block_that_does_not_help_is_not_computed_for_new_pictures(tmp_path, monkeypatch):
    files = tagged.collection(tmp_path / "some", 40)
    rows = [tagged.tags_of(n) for n in range(40)]
    weights = {"last": 1.0, "inner": 0.0}

    def decided(_, widths):
        return tuple(zip(widths, weights.values(), strict=True))

    monkeypatch.setattr(training_set, "select_group_weights", decided)
    monkeypatch.setattr(training_set, "BACKBONE", "another")  # heads of names need all columns
    annotator = Annotator(cache=None).fit(files, rows)
    assert [block.name for block in annotator.extractor.feature_groups] == ["last"]
    assert annotator.model.n_features == 1280
    annotator.save(tmp_path / "m.prototag")
    again = Annotator.load(tmp_path / "m.prototag", cache=None)
    assert again.extractor.extract(files[:1]).vectors.shape == (1, 1280)
    given = [[tag.name for tag in a.tags] for a in again.annotate(files[:5])]
    assert given == [[tag.name for tag in a.tags] for a in annotator.annotate(files[:5])]
    weights["inner"] = 0.5
    both = Annotator(cache=None).fit(files, rows)
    assert both.model.n_features == 1280 + 992


def test_two_feature_groups_are_validated_and_compared_once(monkeypatch):
    """Looking for near-duplicates compares all pairs of pictures."""
    called = []

    def counted(owner, name):
        function = getattr(owner, name)

        def counts(*args, **options):
            called.append(name)
            return function(*args, **options)

        monkeypatch.setattr(owner, name, counts)

    counted(task, "near_duplicate_groups")
    counted(TagEstimator, "validate_training_data")
    data = planted(n=120, t=5, k=20, m=100, noise=0.3, random_state=0)
    noise = np.random.default_rng(0).standard_normal((120, 70))
    X = np.hstack([data.X, noise]).astype(np.float32)
    training = TrainingSet(
        X,
        [FeatureGroup("signal", 100), FeatureGroup("noise", 70)],
        sparse.csr_array(data.Y),
        None,
        [f"tag {column}" for column in range(5)],
        [f"{row}.jpg" for row in range(120)],
        [bytes([row] * 20) for row in range(120)],
        [b""] * 120,
        TrainingSummary(120, 5, {}, 0, 0),
        [],
    )
    tagger, used = fit_tagger(training, 1, None, None)
    assert sorted(called) == ["near_duplicate_groups", "validate_training_data"]
    assert (
        tagger.n_features_in_
        == used.X.shape[1]
        == sum(block.width for block in used.feature_groups)
    )
    again = recommended(feature_groups=tagger.result_.feature_groups).fit(used.X, used.Y)
    assert (tagger.decision_function(used.X) == again.decision_function(used.X)).all()


def test_the_tag_above_rare_ones_is_learned_and_applied(tmp_path):
    """Each kind of dots is on two pictures."""
    files = tagged.collection(tmp_path / "photos", 60, listed=False)
    rows = []
    for number in range(60):
        own = tagged.tags_of(number)
        rare = [f"pattern|dots|kind {number // 5}"] if "dotted" in own else []
        rows.append([tag for tag in own if tag != "dotted"] + rare)
    annotator = Annotator(crops="fast", cache=None).fit(files, rows)
    assert "pattern|dots" in annotator.tags
    assert not any("kind" in tag for tag in annotator.tags)
    assert annotator.training_summary.too_rare["pattern|dots|kind 0"] == 2
    new = tagged.collection(tmp_path / "new", 10, start=100, listed=False)
    applied = [annotation.names for annotation in annotator.annotate(new)]
    dotted = ["dotted" in tagged.tags_of(number) for number in range(100, 110)]
    assert ["pattern|dots" in names for names in applied] == dotted
    # A picture of a kind that was never seen has the tag above it.
    truth = [["pattern|dots|new kind"] if has_dots else ["red"] for has_dots in dotted]
    judged = annotator.evaluate(new, truth).result
    (dots,) = [tag for tag in judged.tags if tag.name == "pattern|dots"]
    assert (dots.precision, dots.recall) == (1.0, 1.0)


def test_a_folder_of_vectors_has_the_same_tags_above_rare_ones(tmp_path):
    tagged.collection(tmp_path / "photos", 20, listed=False)
    rows = [["animal|cat", "sky"], ["animal|dog"], ["animal|bird|owl"], ["animal|bird"]] * 5
    lines = [{"file_name": f"{number:03}.jpg", "tags": row} for number, row in enumerate(rows)]
    lines[0]["tags"] = ["animal|fox"]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (tmp_path / "photos" / "metadata.jsonl").write_text(text)
    found = collect(tmp_path / "photos")
    extract = Extractor(crops="fast", cache=None)
    write_vectors(found, extract, tmp_path / "vectors")
    stored = build_training_set(VectorFolder(tmp_path / "vectors"), None, extract, 5)
    direct = build_training_set(found, None, extract, 5)
    assert direct.tags == ["animal", "animal|bird", "animal|bird|owl", "animal|dog"]
    assert stored.tags == direct.tags
    assert stored.Y.toarray().tolist() == direct.Y.toarray().tolist()
    assert stored.summary.too_rare == direct.summary.too_rare == {
        "animal|cat": 4, "animal|fox": 1, "sky": 4
    }  # fmt: skip
