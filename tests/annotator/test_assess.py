"""An annotator held against a person's tags."""

from __future__ import annotations

from copy import copy

import numpy as np
import pytest

import tagged
from prototag.annotator.assess import assess
from prototag.errors import InputError
from prototag.evaluation import evaluate as evaluation


@pytest.fixture(scope="module")
def annotator():
    return tagged.annotator()


def test_training_pictures_are_evaluated_by_their_held_out_scores(annotator, tmp_path):
    files = tagged.collection(tmp_path, 60)
    tags = [tagged.tags_of(n) for n in range(60)]
    found = assess(annotator, files, tags)
    assert found.n_trained_on == 60
    Y = [[tag in row for tag in annotator.tags] for row in tags]
    left_out = annotator.gallery.held_out_scores.astype(np.float32)
    scores = annotator.model.predict_from_raw(left_out).scores
    expected = evaluation.evaluate(Y, scores, annotator.model.threshold, tags=annotator.tags)
    found = assess(annotator, files, tags, research=True)
    assert found.result.figures["threshold_f1"] == pytest.approx(
        expected.figures["threshold_f1"], abs=0.02
    )
    assert [
        t.training_images for t in found.result.tags
    ] == annotator.operating_points.positives.tolist()
    usual = assess(annotator, files, tags)
    assert usual.result.figures["micro_precision"] >= 0.7
    promised = annotator.operating_points
    assert [t.recall for t in usual.result.tags] == pytest.approx(promised.recall, abs=0.3)


def test_new_pictures_unknown_tags_and_broken_files(annotator, tmp_path):
    files = tagged.collection(tmp_path, 8, start=100)
    files[2].write_bytes(b"broken")
    tags = [[*tagged.tags_of(n), "holiday"] for n in range(100, 108)]
    told = []
    found = assess(annotator, files, tags, names=[f.name for f in files], progress=told.append)
    assert [event.done for event in told] == [8]
    assert found.n_trained_on == 0
    assert found.unknown_tags == {"holiday": 7}
    assert [(s.index, s.source) for s in found.skipped] == [(2, "102.jpg")]
    assert list(found.result.images) == [f.name for f in files if f != files[2]]
    assert found.pictures == [f for f in files if f != files[2]]
    used = [prototype.n_uses for prototype in found.prototypes]
    assert used == sorted(used, reverse=True)
    assert found.prototypes[0].weights
    assert found.prototypes[0].picture.thumbnail[8:12] == b"WEBP"
    given = [picture.names for picture in annotator.annotate(found.pictures)]
    assert [sorted(np.array(annotator.tags)[row]) for row in found.result.applied] == [
        sorted(row) for row in given
    ]


def test_nothing_to_compare_is_an_error(annotator, tmp_path):
    files = tagged.collection(tmp_path, 1)
    with pytest.raises(InputError, match="no picture has a tag that the model knows"):
        assess(annotator, files, [["unheard of"]])
    with pytest.raises(InputError, match="none of the pictures can be read"):
        assess(annotator, ["/no/such.jpg"], [["red"]])


def test_a_training_picture_is_known_by_its_content_alone(annotator, tmp_path):
    """A copy under another name is known; one that only looks the same is new."""
    from PIL import Image

    files = tagged.collection(tmp_path, 3)
    copy = files[0].rename(tmp_path / "renamed.jpg")
    again = tmp_path / "saved-again.png"
    Image.open(files[1]).save(again)
    found = assess(annotator, [copy, again], [tagged.tags_of(0), tagged.tags_of(1)])
    assert found.n_trained_on == 1


def test_an_annotator_that_gives_nothing_yet_can_be_judged(annotator, tmp_path):
    files = tagged.collection(tmp_path, 12, start=100)
    tags = [tagged.tags_of(n) for n in range(100, 112)]
    silent = copy(annotator)
    points = annotator.operating_points
    silent.operating_points = points._replace(
        curve_lower_bound=np.zeros_like(points.curve_lower_bound)
    )
    assert silent.operating_points.default_threshold == np.inf
    found = assess(silent, files, tags)
    assert not found.result.applied.any()
    assert np.isfinite(found.result.margins.edges).all()
