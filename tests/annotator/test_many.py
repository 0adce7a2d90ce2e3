"""An annotator of more pictures than a model file should hold: a bounded gallery, true promises."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from scipy import sparse

from prototag import Annotator, recommended
from prototag.annotator.training_set import TrainingSet
from prototag.annotator.types import TrainingSummary
from prototag.features.types import FeatureGroup
from prototag.research.datasets import planted
from prototag.tagging.out_of_core import features

N, NEW = 1500, 500


@pytest.fixture(scope="module")
def data():
    return planted(n=N + NEW, t=8, k=60, m=32, noise=0.4, random_state=0)


@pytest.fixture(scope="module")
def annotator(data):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(features, "MAX_SAMPLE_IMAGES", 400)
        return _learned(data)


def _learned(data):
    X, Y = np.asarray(data.X[:N], np.float32), sparse.csr_array(data.Y[:N])
    options = {"n_components": 25, "pilot": 150}
    tagger = recommended(n_prototypes=200, out_of_core=True, **options).fit(X, Y)
    training = TrainingSet(
        X,
        [FeatureGroup("vectors", X.shape[1])],
        Y,
        None,
        [f"tag {column}" for column in range(8)],
        [f"{row}.jpg" for row in range(N)],
        [hashlib.sha256(bytes([row % 256, row // 256])).digest()[:20] for row in range(N)],
        [b""] * N,
        TrainingSummary(N, 8, {}, 0, 0),
        [],
    )
    annotator = Annotator()
    annotator.set_fit(tagger.result_, training)
    return annotator


def test_the_gallery_is_of_the_sample_and_the_prototypes(annotator):
    gallery = annotator.gallery
    assert 400 <= len(gallery.names) <= 600
    assert len(gallery.prototypes) == len(annotator.model.prototypes)
    assert gallery.held_out_scores.shape == (len(gallery.names), 8)
    assert np.isfinite(gallery.held_out_scores).all()


def test_a_picture_in_the_gallery_has_its_own_tags(annotator, data):
    rows = [int(name.removesuffix(".jpg")) for name in annotator.gallery.names]
    assert (annotator.gallery.tag_matrix().toarray() == data.Y[rows].toarray()).all()


def test_points_count_all_pictures(annotator, data):
    points = annotator.operating_points
    assert (points.positives == data.Y[:N].sum(axis=0)).all()
    assert points.learnable.all()


def test_estimates_hold_for_new_pictures(annotator, data):
    points = annotator.operating_points
    probability = annotator.model.probabilities(np.asarray(data.X[N:], np.float32))
    given = (probability >= points.default_threshold) & points.learnable
    true = data.Y[N:].toarray() > 0
    assert given.sum() > 100
    assert true[given].mean() > points.estimated_precision(points.default_threshold) - 0.05


def test_it_is_saved_and_loaded(annotator, data, tmp_path):
    annotator.save(tmp_path / "a.prototag")
    loaded = Annotator.load(tmp_path / "a.prototag")
    new = np.asarray(data.X[N:], np.float32)
    assert (loaded.model.scores(new) == annotator.model.scores(new)).all()
    assert loaded.gallery.names == annotator.gallery.names
