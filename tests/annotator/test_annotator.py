"""Pictures in, tags out."""

from __future__ import annotations

import itertools
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import prototag
import tagged
from pictures import encoded
from prototag import Annotator, FeatureExtractor, recommended
from prototag.errors import (
    ImageError,
    InputError,
    ModelFileError,
    TrainingError,
    UnknownNameError,
)
from prototag.research.datasets import planted
from prototag.storage import modelfile
from prototag.storage.modelfile import reader

NEW = range(100, 112)


@pytest.fixture(scope="module")
def new(tmp_path_factory):
    return tagged.collection(tmp_path_factory.mktemp("new"), len(NEW), start=NEW.start)


@pytest.fixture(scope="module")
def annotator():
    return tagged.annotator()


def test_gives_the_tags_that_can_be_seen(annotator, new):
    found = list(annotator.annotate(new))
    right = [
        name in tagged.tags_of(n)
        for picture, n in zip(found, NEW, strict=True)
        for name in picture.names
    ]
    assert len(right) >= len(NEW)
    assert np.mean(right) >= 0.7
    assert [picture.source for picture in found] == new
    for picture, n in zip(found, NEW, strict=True):
        suggested = [tag.name for tag in picture.suggestions]
        assert not set(suggested) & set(picture.names)
        assert len(set(tagged.tags_of(n)) & {*suggested, *picture.names}) >= 1
    for picture in found:
        chances = [tag.probability for tag in picture.tags]
        assert chances == sorted(chances, reverse=True)


def test_equals_extracting_and_predicting(annotator, new):
    vectors = FeatureExtractor(crops="fast", cache=None).transform(new)
    expected = annotator.model.scores(vectors) > annotator.model.threshold
    for picture, row in zip(annotator.annotate(new, research=True), expected, strict=True):
        assert set(picture.names) == {annotator.tags[c] for c in np.flatnonzero(row)}


def test_is_lazy_and_keeps_going_past_broken_pictures(annotator, new):
    asked = []

    def endless():
        for number in itertools.count():
            asked.append(number)
            yield [new[0], b"no picture", "/no/such.jpg", np.zeros((9, 9, 3), np.uint8)][number % 4]

    first = list(itertools.islice(annotator.annotate(endless()), 6))
    assert len(asked) <= 64
    assert [picture.error is None for picture in first] == [True, False, False, True, True, False]
    assert "cannot be read" in first[2].error
    assert first[1].tags == []


def test_one_picture_or_one_folder_is_taken_as_a_list(annotator, new):
    """The letters of a path were annotated, one by one."""
    expected = list(annotator.annotate(new))
    picture = tagged.picture(tagged.tags_of(NEW.start), NEW.start)
    for one in (new[0], str(new[0])):
        assert list(annotator.annotate(one)) == [replace(expected[0], source=one)]
    for one in (new[0].read_bytes(), picture, np.asarray(picture)):
        (found,) = annotator.annotate(one)
        assert found.error is None
    for folder in (new[0].parent, str(new[0].parent)):
        found = list(annotator.annotate(folder))
        assert [Path(annotation.source) for annotation in found] == new
        assert [annotation.tags for annotation in found] == [one.tags for one in expected]
    batch = np.stack([np.asarray(picture)] * 2)
    assert len(list(annotator.annotate(batch))) == 2
    (missing,) = annotator.annotate("new/1.jpg")
    assert "cannot be read" in missing.error


def test_a_folder_without_pictures_and_what_is_no_picture_are_refused(annotator, tmp_path):
    with pytest.raises(InputError, match="contains no pictures"):
        annotator.annotate(tmp_path)
    with pytest.raises(InputError, match="give a path, a folder or a list of pictures"):
        annotator.annotate(7)


def test_top_threshold_precision_and_vocabulary(annotator, new):
    def names(**choice):
        return [picture.names for picture in annotator.annotate(new, **choice)]

    assert {len(row) for row in names(top=2)} == {2}
    likely = list(annotator.annotate(new, min_probability=0.6))
    assert all(tag.probability >= 0.6 for picture in likely for tag in picture.tags)
    assert all(set(row) <= {"red", "blue"} for row in names(vocabulary=["red", "blue"]))
    with pytest.raises(UnknownNameError, match=r"does not know 'unknown': Annotator\.tags"):
        annotator.selector(vocabulary=["red", "blue", "unknown"])
    with pytest.raises(InputError, match="vocabulary is empty"):
        annotator.selector(vocabulary=[])
    every = list(annotator.annotate(new, top=5))
    cut = annotator.operating_points.threshold_for(0.8)
    expected = [{t.name for t in p.tags if t.probability >= cut} for p in every]
    assert [set(row) for row in names(precision=0.8)] == expected
    usual = annotator.operating_points.default_threshold
    assert names() == names(min_probability=usual)
    assert {len(row) for row in names(min_probability=0.0, top=3)} == {3}


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"min_probability": 0.5, "precision": 0.5}, "give one of them"),
        ({"min_probability": 2}, "between 0 and 1"),
        ({"precision": 0}, "above 0"),
        ({"top": 0}, "at least 1"),
        ({"vocabulary": ["unheard of"]}, "does not know 'unheard of'"),
    ],
)
def test_wrong_choices_are_refused_before_a_picture_is_read(annotator, choice, message):
    with pytest.raises(ValueError, match=message):
        annotator.annotate(["/no/such/picture"], **choice)


def test_explains_by_training_pictures(annotator, new):
    found = annotator.explain(new[0])
    assert [one.tag for one in found] == next(annotator.annotate(new[:1])).tags
    for one in found:
        assert one.tag.score > one.threshold
        assert sum(r.share for r in one.reasons) + one.rest == pytest.approx(
            one.tag.score, abs=1e-5
        )
        best = one.reasons[0].picture
        assert one.tag.name in best.tags
        assert best.tags == sorted(tagged.tags_of(int(best.name[:3])))
        assert best.thumbnail[8:12] == b"WEBP"
    (asked,) = annotator.explain(new[0], ["red"])
    assert asked.tag.name == "red"
    with pytest.raises(ValueError, match="does not know"):
        annotator.explain(new[0], ["unheard of"])


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_shares_add_up_to_the_scores_and_codes_explain_as_the_tagger_does(share):
    data = planted(n=200, t=6, k=20, random_state=0)
    tagger = recommended(kernel_share=share, gamma=1.0, strength=0.3)
    tagger.fit(data.X, data.Y)
    model, x = tagger.model_, np.asarray(data.X[:1], np.float32)
    shares = model.explain(x, range(6))
    total = shares.code_scores.sum(axis=0) + shares.kernel_scores.sum(axis=0) + shares.rest
    assert total == pytest.approx(model.scores(x)[0], abs=1e-4)
    (parts,) = tagger.explain(x, tagger.classes_)
    for part in parts:
        mine = shares.code_scores[:, part.tag]
        expected = dict(zip(part.prototypes.tolist(), part.shares.tolist(), strict=True))
        given = dict(zip(shares.prototypes.tolist(), mine.tolist(), strict=True))
        assert {i: given[i] for i in expected} == pytest.approx(expected, abs=1e-3)


def test_finds_similar_pictures(annotator, tmp_path):
    (twin,) = tagged.collection(tmp_path, 1, start=7)
    best = annotator.similar(twin, 3)
    assert best[0].picture.name == "007.jpg"
    assert best[0].similarity == pytest.approx(1, abs=1e-3)
    coded = annotator.similar(twin, 100, by="code")
    assert coded[0].picture.name == "007.jpg"
    assert 1 <= len(coded) <= 25
    assert sum(near.similarity for near in coded) <= 1 + 1e-5
    with pytest.raises(ValueError, match="'vector' or 'code'"):
        annotator.similar(twin, by="colour")
    with pytest.raises(ImageError, match="is not a picture"):
        annotator.similar(b"no picture here")


def test_survives_saving_to_the_bit(annotator, new, tmp_path):
    path = tagged.model(tmp_path)
    again = Annotator.load(path, cache=None)
    assert list(again.annotate(new)) == list(annotator.annotate(new))
    assert again.explain(new[0]) == annotator.explain(new[0])
    assert again.similar(new[0]) == annotator.similar(new[0])
    assert again.tags == annotator.tags
    assert type(prototag.load(path)) is Annotator
    rewritten = tmp_path / "again.prototag"
    again.save(rewritten)
    first, second = (modelfile.read(p)[1] for p in (path, rewritten))
    assert first.keys() == second.keys()
    assert all(np.array_equal(first[name], second[name]) for name in first)


def test_loading_and_annotating_loads_no_scikit_learn(new, tmp_path):
    code = (
        "import sys; from prototag import Annotator\n"
        f"a = Annotator.load({str(tagged.model(tmp_path))!r}, cache=None)\n"
        f"assert next(a.annotate([{str(new[0])!r}])).tags\n"
        f"assert a.similar({str(new[0])!r}) and a.explain({str(new[0])!r})\n"
        f"assert repr(a) and a.estimate() and a.explain({str(new[0])!r})._repr_html_()\n"
        "print({'sklearn', 'scipy', 'matplotlib', 'pandas'} & set(sys.modules))"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == "set()"


def test_skipped_tags_and_pictures_are_reported(tmp_path):
    files = tagged.collection(tmp_path, 24)
    tags = [tagged.tags_of(n) for n in range(24)]
    tags[3], tags[4] = [], ["once"]
    tags[5] = [tag.upper() for tag in tags[5]]  # another spelling of the same tag
    (tmp_path / "006.jpg").write_bytes(b"broken")
    found = Annotator(crops="fast", cache=None, keep_thumbnails=False).fit(files, tags)
    assert found.training_summary.pictures == 22  # that with a rare tag alone lacks all others
    assert found.training_summary.too_rare == {"once": 1}
    assert found.training_summary.untagged == 1
    assert found.training_summary.unreadable == 1
    assert [skipped.source for skipped in found.skipped] == [str(files[6])]
    found.save(tmp_path / "model.prototag")
    assert Annotator.load(tmp_path / "model.prototag").training_summary == found.training_summary
    assert found.tags == sorted(tagged.TAGS)
    assert set(found.gallery.thumbnails) == {b""}


@pytest.mark.parametrize(
    ("tags", "message"),
    [
        ([[]] * 12, "no picture has a tag"),
        ([[f"tag {n}"] for n in range(12)], "all 12 tags are too rare.*at least 5"),
        ([["one"]] * 11, "12 pictures and tags for 11"),
    ],
)
def test_invalid_training_sets_are_reported_before_pictures_are_read(tags, message):
    with pytest.raises(TrainingError, match=message):
        Annotator(cache=None).fit(["/no/such/file"] * 12, tags)


def test_too_few_pictures_are_refused():
    pictures = [encoded(tagged.picture(["red"], n), "JPEG") for n in range(6)]
    with pytest.raises(TrainingError, match=r"6 pictures have tags.*at least 10"):
        Annotator(crops="fast", cache=None).fit(pictures, [["red"]] * 6)


def test_an_annotator_that_is_not_fitted_is_reported():
    with pytest.raises(TrainingError, match="call fit"):
        Annotator().annotate([])
    with pytest.raises(ValueError, match="at least 2 pictures"):
        Annotator(min_pictures=1)


def test_other_models_are_refused_with_a_reason(tmp_path):
    path = tmp_path / "tagger.prototag"
    data = planted(n=40, t=3, k=8, random_state=0)
    recommended().fit(data.X, data.Y).save(path)
    with pytest.raises(ModelFileError, match="'tagger', which scores vectors and not pictures"):
        Annotator.load(path)
    header, arrays = modelfile.read(tagged.model(tmp_path))
    del header["features"]
    modelfile.write(path, header, arrays)
    with pytest.raises(ModelFileError, match="does not describe an annotator"):
        Annotator.load(path)


def test_a_model_replaced_while_in_use_is_noticed(tmp_path, new):
    path = tagged.model(tmp_path)
    loaded = Annotator.load(path, cache=None)
    header, arrays = modelfile.read(path)
    modelfile.write(path, {**header, "provenance": {}}, arrays)
    with pytest.raises(ModelFileError, match="replaced since it was loaded"):
        loaded.similar(new[0])


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("tags", ["a"] * 6, "does not name 6 different tags"),
        ("tags", [1, 2, 3, 4, 5, 6], "does not name 6 different tags"),
        ("tags", "abcdef", "does not name 6 different tags"),
        ("training", {"pictures": -1}, "describe an annotator"),
        ("choices", None, "choices that are not all numbers"),
    ],
)
def test_a_description_without_sense_is_refused(tmp_path, part, value, message):
    header, arrays = modelfile.read(tagged.model(tmp_path))
    modelfile.write(tmp_path / "odd", {**header, part: value}, arrays)
    count = str(len(header["tags"]))
    with pytest.raises(ModelFileError, match=message.replace("6", count)):
        Annotator.load(tmp_path / "odd")


def test_the_header_of_a_model_file_is_parsed_once(new, tmp_path, monkeypatch):
    path, parsed = tagged.model(tmp_path), []
    real = reader._read_header

    def counted(*arguments):
        parsed.append(arguments)
        return real(*arguments)

    monkeypatch.setattr(reader, "_read_header", counted)
    assert [*Annotator.load(path, cache=None).annotate(new)]
    assert len(parsed) == 1
