"""The scorer is the Tagger, number for number, without what the Tagger loads."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from prototag import recommended
from prototag.datasets import planted
from prototag.errors import ModelFileError
from prototag.scoring import Scorer


@pytest.fixture(scope="module")
def data():
    return planted(n=300, t=7, k=30, random_state=0)


def fitted(data, **settings):
    Y = pd.DataFrame(data.Y.toarray(), columns=list("abcdefg"))
    return recommended(gamma=1.0, strength=0.3, lift=0.5, **settings).fit(data.X, Y)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"share": 0.0},
        {"share": 1.0},
        {"share": 0.5, "n_prototypes": 0.5},
        {"share": 0.5, "threshold": "global", "relations": 0.0, "width": 500},
    ],
)
def test_equals_the_tagger_bit_for_bit(data, settings):
    tagger = fitted(data, **settings)
    scorer = Scorer(*tagger.to_state())
    X = np.asarray(data.X, np.float32)
    assert np.array_equal(scorer.scores(X), tagger.decision_function(X))
    assert np.array_equal(scorer.scores(X[:1]), tagger.decision_function(X[:1]))
    assert np.array_equal(scorer.probabilities(scorer.plain(X)), tagger.probabilities(X))
    assert np.array_equal(scorer.threshold, np.broadcast_to(tagger.threshold_, 7))
    assert scorer.names == list("abcdefg")


def test_codes_are_those_of_the_tagger(data):
    tagger = fitted(data, share=0.5)
    scorer = Scorer(*tagger.to_state())
    X = np.asarray(data.X[:20], np.float32)
    scores, codes = scorer.plain_and_codes(X)
    assert np.array_equal(scores, scorer.plain(X))
    dense = np.zeros((20, 300), np.float32)
    np.add.at(dense, (np.arange(20)[:, None], codes.index), codes.value)
    expected = tagger.mcdl_._coder.encode(tagger.lifting_.transform(X)).codes.toarray()
    assert np.array_equal(dense, expected)
    assert (codes.value > 0).any(axis=1).all()


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("kernel/dual", np.zeros((3, 7), np.float32), "kernel/dual"),
        ("lifting/coef_", None, "lifting/coef_"),
        ("tag_scale", np.full(7, np.nan, np.float32), "NaN"),
        ("mcdl/semantic_prototypes/indices", np.array([99], np.int32), "semantic_prototypes"),
    ],
)
def test_damaged_parts_are_refused(data, part, value, message):
    config, arrays = fitted(data, share=0.5).to_state()
    arrays = {**arrays, part: value}
    if value is None:
        del arrays[part]
    with pytest.raises(ModelFileError, match=message):
        Scorer(config, arrays)


def test_a_vocabulary_of_other_than_names_is_refused(data):
    config, arrays = fitted(data, share=0.5).to_state()
    with pytest.raises(ModelFileError, match="7 different tags"):
        Scorer({**config, "vocabulary": [1, 2, 3, 4, 5, 6, 7]}, arrays)


def test_loads_neither_scikit_learn_nor_scipy():
    code = "import sys, prototag.annotator; print({'scipy', 'sklearn'} & set(sys.modules))"
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == "set()"
