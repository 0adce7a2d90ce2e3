"""Numbers against scikit-learn and against slow loops; suspects where they were planted."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import average_precision_score, precision_recall_fscore_support

from prototag.evaluation import metrics
from prototag.evaluation.evaluate import Confusion, LabelIssue, evaluate

N, T = 60, 7
NAMES = [f"tag {j}" for j in range(T)]


def scored(seed: int = 0):
    rng = np.random.default_rng(seed)
    Y = rng.random((N, T)) < np.linspace(0.05, 0.6, T)
    Y[:, -1] = False  # a tag that never occurs
    scores = (Y + rng.normal(0, 0.5, (N, T))).astype(np.float32)
    return Y, scores, 1 / (1 + np.exp(-4 * (scores.astype(np.float64) - 0.5)))


def test_figures_of_tags_are_those_of_scikit_learn():
    Y, scores, p = scored()
    threshold = np.linspace(0.3, 0.7, T)
    result = evaluate(Y, scores, threshold, tags=NAMES, probabilities=p, Y_train=Y)
    given = scores > threshold
    judge = precision_recall_fscore_support(Y, given, zero_division=0)
    for j, tag in enumerate(result.tags):
        np.testing.assert_allclose(
            [tag.precision, tag.recall, tag.f1, tag.support], [row[j] for row in judge], rtol=1e-12
        )
        assert (tag.name, tag.applied, tag.threshold) == (NAMES[j], given[:, j].sum(), threshold[j])
        assert tag.training_images == Y[:, j].sum()
        if tag.support:
            want = average_precision_score(Y[:, j], scores[:, j])
            assert np.isclose(tag.average_precision, want)
    assert np.isnan(result.tags[-1].average_precision)
    micro = precision_recall_fscore_support(Y, given, average="micro")
    assert np.isclose(result.figures["micro_precision"], micro[0])
    assert np.isclose(result.figures["micro_recall"], micro[1])
    for name, value in metrics.report(Y, scores, threshold, Y_train=Y).items():
        assert result.figures[name] == value
    assert "threshold_f1_rare" in result.figures


def test_calibration_error_is_the_mean_distance_over_pairs():
    Y, scores, p = scored()
    found = evaluate(Y, scores, 0.5, tags=NAMES, probabilities=p).reliability
    total = 0.0
    for step in range(10):
        inside = (p >= step / 10) & (p < (step + 1) / 10)
        if inside.any():
            total += inside.sum() * abs(p[inside].mean() - Y[inside].mean())
    assert np.isclose(found.error, total / Y.size)
    assert found.pairs.sum() == Y.size


def test_what_may_be_missing_is_what_only_the_annotator_gives_the_likeliest_first():
    Y, scores, p = scored()
    result = evaluate(Y, scores, 0.5, tags=NAMES, probabilities=p)
    want = sorted(
        ((i, j) for i in range(N) for j in range(T) if scores[i, j] > 0.5 and not Y[i, j]),
        key=lambda pair: -p[pair],
    )
    assert [(one.image, one.tag) for one in result.missing] == want
    few = evaluate(Y, scores, 0.5, tags=NAMES, probabilities=p, suspects=3)
    assert few.missing == result.missing[:3]


def test_what_may_be_wrong_is_what_pictures_speak_against():
    Y = np.zeros((100, 3), bool)
    Y[:50, 0] = Y[:4, 1] = Y[:20, 2] = True
    p = np.where(Y, 0.9, 0.1)
    p[0, 0] = 0.01  # frequent, and unlikely here: 99 times likelier without
    p[1, 1] = 0.02  # rare, and hardly less likely than anywhere: twice
    p[2, 2] = 0.3  # likelier here than elsewhere, though not given
    result = evaluate(Y, p, 0.5, tags="abc", probabilities=p)
    assert result.wrong == (LabelIssue(0, 0, 0.01), LabelIssue(1, 1, 0.02))


def test_a_tag_is_confused_with_what_stands_out_where_it_was_wrong():
    lake, sea, sky = np.zeros((3, 100), bool)
    sea[:20] = lake[20:40] = True
    sky[:90] = True  # everywhere, and so no sign of anything
    Y = np.column_stack([lake, sea, sky])
    scores = Y.astype(float)
    scores[:10, 0] = 1.0  # the sea is taken for a lake ten times
    scores[90, 0] = 1.0
    result = evaluate(Y, scores, 0.5, tags=["lake", "sea", "sky"])
    assert result.tags[0].confused[0] == Confusion("sea", 10)
    assert result.tags[1].confused == ()
    assert "sky" not in [one.name for one in result.tags[0].confused if one.images > 10]


def test_confusion_counts_are_those_of_a_slow_loop():
    Y, scores, _ = scored(3)
    result = evaluate(Y, scores, 0.3, tags=NAMES)
    for j, tag in enumerate(result.tags):
        without = Y[~Y[:, j]]
        mistaken = Y[~Y[:, j] & (scores[:, j] > 0.3)]
        excess = mistaken.sum(axis=0) - len(mistaken) * without.mean(axis=0)
        best = [i for i in np.argsort(-excess, kind="stable")[:3] if excess[i] > 1e-9]
        assert [one.name for one in tag.confused] == [NAMES[i] for i in best]
        assert [one.images for one in tag.confused] == [mistaken[:, i].sum() for i in best]


def test_without_probabilities_there_is_no_doubt():
    Y, scores, _ = scored()
    result = evaluate(sparse.csr_array(Y), scores, 0.5, tags=NAMES)
    assert result.reliability is None
    assert result.missing == result.wrong == ()
    assert result.images[:2] == ("0", "1")


@pytest.mark.parametrize("threshold", [0.5, np.inf, np.where(np.arange(T) % 2, np.inf, 0.4)])
def test_json_is_plain_and_complete(threshold):
    Y, scores, p = scored()
    files = [f"{i}.jpg" for i in range(N)]
    result = evaluate(Y, scores, threshold, tags=NAMES, probabilities=p, images=files)
    back = json.loads(json.dumps(result.to_json(), allow_nan=False))
    assert back["images"] == N
    assert [tag["name"] for tag in back["tags"]] == NAMES
    assert back["tags"][-1]["average_precision"] is None
    assert len(back["curve"]["recall"]) == len(result.curve.recall)
    assert len(back["margins"]["edges"]) == 51
    assert len(back["reliability"]["pairs"]) == 10
    assert back["image_f1"].keys() == set(files)
    if result.missing:
        one = result.missing[0]
        assert back["missing"][0] == {
            "image": files[one.image],
            "tag": NAMES[one.tag],
            "probability": one.probability,
        }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tags": NAMES[:-1]}, "6 names of tags for 7 tags"),
        ({"images": ["a"]}, "1 names of images for 60 images"),
        ({"probabilities": np.zeros((2, T))}, r"probabilities have shape \(2, 7\)"),
        ({"probabilities": np.full((N, T), 1.5)}, r"outside \[0, 1\]"),
    ],
)
def test_what_does_not_fit_is_refused(options, message):
    Y, scores, _ = scored()
    with pytest.raises(ValueError, match=message):
        evaluate(Y, scores, 0.5, **{"tags": NAMES, **options})
