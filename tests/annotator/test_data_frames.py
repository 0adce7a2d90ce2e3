"""Data frames in and out, folders, evaluation and estimates."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pandas
import pytest

import tagged
from prototag import Annotator
from prototag.annotator.assess import assess
from prototag.errors import InputError, TrainingError

NEW = range(100, 108)


@pytest.fixture(scope="module")
def new(tmp_path_factory):
    return tagged.collection(tmp_path_factory.mktemp("new"), len(NEW), start=NEW.start)


@pytest.fixture(scope="module")
def annotator():
    return tagged.annotator()


def test_annotate_frame_adds_columns_and_keeps_rows_and_index(annotator, new):
    paths = [str(path) for path in new] + ["no such file.jpg"]
    frame = pandas.DataFrame(
        {"path": paths, "stars": range(9), "tags": "old"}, index=list("abcdefghi")
    )
    result = annotator.annotate_frame(frame)
    assert frame.tags.eq("old").all()  # the argument is unchanged
    assert [*result.columns] == [
        *("path", "stars", "tags", "probabilities", "estimates", "suggestions", "error")
    ]
    assert [*result.index] == [*"abcdefghi"]
    expected = list(annotator.annotate(paths))
    assert [*result.tags] == [one.names for one in expected]
    assert [*result.suggestions] == [[tag.name for tag in one.suggestions] for one in expected]
    assert result.error.isna().tolist() == [True] * 8 + [False]
    assert "cannot be read" in result.error["i"]
    long = result.explode(["tags", "probabilities"])
    pairs = [(tag.name, tag.probability) for one in expected for tag in one.tags]
    assert [*zip(long.tags[:-1], long.probabilities[:-1], strict=True)] == pairs


def test_annotate_frame_takes_options_other_columns_and_pictures_without_a_frame(annotator, new):
    frame = pandas.DataFrame({"where": new})
    result = annotator.annotate_frame(frame, path_column="where", top=1)
    assert [len(tags) for tags in result.tags] == [1] * len(new)
    alone = annotator.annotate_frame(new, top=1)
    assert [*alone.path] == new
    assert [*alone.tags] == [*result.tags]
    with pytest.raises(InputError, match="no column 'file_name', only 'where': name one as path_c"):
        annotator.annotate_frame(frame)
    with pytest.raises(InputError, match="use annotate_frame"):
        annotator.annotate(frame)


def test_a_frame_of_another_package_is_read_by_its_columns(annotator, new):
    class Table:
        """A data frame with the interface that all packages share."""

        columns = ("image", "stars")

        def __getitem__(self, name):
            return {"image": new, "stars": range(len(new))}[name]

    result = annotator.annotate_frame(Table())
    assert [*result.columns[:2]] == ["image", "stars"]
    assert [*result.tags] == [one.names for one in annotator.annotate(new)]


@pytest.mark.parametrize("as_text", [False, True])
def test_fit_of_a_frame_equals_fit_of_lists(tmp_path, as_text):
    files = tagged.collection(tmp_path, 40, listed=False)
    tags = [tagged.tags_of(number) for number in range(40)]
    tags[7] = []
    cells = ["; ".join(row) if row else None for row in tags] if as_text else tags
    frame = pandas.DataFrame({"path": [str(file) for file in files], "words": cells})
    settings = {"crops": "fast", "cache": None}
    fitted = Annotator(**settings).fit(frame, path_column="path", tags_column="words")
    expected = Annotator(**settings).fit(files, tags)
    assert fitted.tags == expected.tags
    assert fitted.training_summary == expected.training_summary
    assert np.array_equal(fitted.model.threshold, expected.model.threshold)
    assessed = fitted.evaluate(frame, path_column="path", tags_column="words")
    assert assessed.n_trained_on == 39
    with pytest.raises(InputError, match=r"no column 'tags', only 'path', 'words': .*tags_column"):
        Annotator(**settings).fit(frame)
    with pytest.raises(InputError, match="no column 'keys'"):
        Annotator(**settings).fit(frame, tags_column="keys")
    with pytest.raises(InputError, match="are for data frames"):
        Annotator(**settings).fit(tmp_path, path_column="path")


def test_without_pandas_the_message_reports_what_to_install(new, tmp_path):
    code = (
        "import sys; sys.modules['pandas'] = None\n"
        "from prototag import Annotator\n"
        f"a = Annotator.load({str(tagged.model(tmp_path))!r}, cache=None)\n"
        f"assert next(a.annotate({str(new[0])!r})).tags\n"
        "try: a.annotate_frame([])\n"
        "except ValueError as error: print(error)"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip().endswith(
        "needs pandas, which is not installed: pip install pandas."
    )


def test_from_folder_is_collecting_and_fitting(tmp_path):
    tagged.collection(tmp_path, 40)
    annotator = Annotator.from_folder(tmp_path, crops="fast", cache=None)
    expected = Annotator(crops="fast", cache=None).fit(tmp_path)
    assert annotator.tags == expected.tags
    assert annotator.estimate() == expected.estimate()
    with pytest.raises(TrainingError, match="no picture has a tag"):
        Annotator.from_folder(tmp_path, kind="xmp", crops="fast", cache=None)


def test_evaluate_takes_a_folder_or_pictures_and_tags(annotator, tmp_path):
    files = tagged.collection(tmp_path, 9, start=100)
    tags = [tagged.tags_of(number) for number in range(100, 109)]
    expected = assess(annotator, files, tags, names=[file.name for file in files]).to_dict()
    assert annotator.evaluate(tmp_path).to_dict() == expected
    assert annotator.evaluate(files, tags).to_dict() == expected
    json.dumps(expected)
    assert expected["images"] == 9
    research = annotator.evaluate(files, tags, research=True)
    assert repr(research).startswith("Assessment(pictures=9, precision=")
    with pytest.raises(InputError, match="9 pictures and tags for 8"):
        annotator.evaluate(files, tags[1:])
    (tmp_path / "metadata.jsonl").write_text("")
    with pytest.raises(InputError, match="no picture has a tag: there is nothing to compare with"):
        annotator.evaluate(tmp_path)
    with pytest.raises(TrainingError, match="not fitted"):
        Annotator().evaluate(tmp_path)


def test_the_estimate_is_that_of_the_operating_points(annotator):
    points = annotator.operating_points
    default = annotator.estimate()
    assert default.threshold == points.default_threshold
    assert default.precision == points.estimated_precision(default.threshold)
    assert 0.7 <= default.precision_at_least <= default.precision <= 1
    strict = annotator.estimate(precision=0.8)
    assert strict.threshold == points.threshold_for(0.8)
    assert strict.precision_at_least >= 0.8
    assert annotator.estimate(min_probability=0.4).threshold == 0.4
    assert annotator.estimate(min_probability=0.1).precision < default.precision
    unreachable = annotator.estimate(precision=1)
    assert (unreachable.precision, unreachable.to_dict()["threshold"]) == (0, None)
    assert [tag.name for tag in default.tags] == annotator.tags
    assert [tag.pictures for tag in default.tags] == points.positives.tolist()
    json.dumps(default.to_dict())
