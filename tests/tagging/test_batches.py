"""The same bits for an image in any batch and by any number of threads: no tag flips."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from threadpoolctl import threadpool_limits

import tagged
from prototag import Tagger, load
from prototag.engine import Threads
from prototag.research.datasets import planted

pytestmark = pytest.mark.bits
BATCHES = (1, 7, 64, 500)


def in_batches(function, X, size):
    return np.concatenate([function(X[start : start + size]) for start in range(0, len(X), size)])


OPTIONS = {
    "reduced": {"n_components": 14, "pilot": 200},
    "whole": {},
    "out_of_core": {"n_prototypes": 300, "pilot": 200, "out_of_core": True},
    "clusters": {"n_prototypes": 300, "max_landmarks": 250, "pilot": 200, "out_of_core": False},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_scores_of_1_7_64_and_500_images_on_one_and_two_threads(options):
    data = planted(n=1100, t=33, k=60, m=40, noise=0.3, random_state=0)
    model = Tagger(kernel_share=0.5, **options).fit(data.X[:600], data.Y[:600]).model_
    X = data.X[600:].astype(np.float32)
    expected = model.predict(X)
    for size in BATCHES:
        for threads in (1, 2):
            with threadpool_limits(threads, user_api="blas"):
                found = in_batches(lambda x, j=threads: model.scores(x, Threads(j)), X, size)
                assert_array_equal(found, expected.scores)
                found = in_batches(lambda x, j=threads: model.probabilities(x, Threads(j)), X, size)
                assert_array_equal(found, expected.probabilities)


def test_codes_that_the_cap_cuts_do_not_depend_on_the_batch():
    data = planted(n=900, t=9, k=60, m=40, noise=0.6, random_state=1)
    model = Tagger(max_nonzeros=5, n_components=30).fit(data.X[:400], data.Y[:400]).model_
    X = data.X[400:].astype(np.float32)
    whole = model.codes(X)
    assert (whole.value > 0).sum(axis=1).max() == 5
    for size in BATCHES:
        used = in_batches(lambda x: model.codes(x).value, X, size)
        assert_array_equal(used, whole.value)


def test_annotations_of_one_picture_and_of_many(tmp_path):
    """Through the network, too, which takes pictures of 224 x 224 three at a time if it is let."""
    annotator, files = tagged.annotator(), tagged.collection(tmp_path, 7, listed=False)

    def scores(batch):
        found = annotator.annotate(batch, min_probability=0.0)
        return [[(tag.name, tag.score, tag.probability) for tag in f.tags] for f in found]

    many = scores(files * 10)
    assert many == scores(files) * 10
    assert many[:7] == [scores([file])[0] for file in files]


def test_many_tags_of_few_images_take_no_square_of_tags(tmp_path):
    """20,000 tags on 200 images took 6.5 GB and a file of 1.66 GB."""
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((40, 24)).astype("f4"), rng.random((40, 500)) < 0.2
    Y[:2] = True
    model = Tagger().fit(X, Y)
    _, arrays = model.model_.to_arrays()
    assert max(array.size for array in arrays.values()) <= 40 * 500
    model.save(tmp_path / "wide.prototag")
    again = load(tmp_path / "wide.prototag")
    assert_array_equal(again.decision_function(X), model.decision_function(X))
    assert len(model.explain(X[:1])[0]) == model.predict(X[:1]).sum()
