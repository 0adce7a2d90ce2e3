"""Lifting: a transformer whose training vectors have not seen their own tags."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.utils.estimator_checks import parametrize_with_checks

from prototag import Lifting
from prototag.research.datasets import planted
from prototag.tagging.reduction import Reduction

EXEMPT = {
    # fit_transform predicts training images as if they had not been there: that is its purpose
    "check_transformer_general": "fit_transform leaves one out, transform does not",
    "check_transformer_data_not_an_array": "fit_transform leaves one out, transform does not",
}


@parametrize_with_checks(
    [Lifting(), Lifting(3, weight=0.5)], expected_failed_checks=lambda _: EXEMPT
)
def test_scikit_learn_rules(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def data():
    return planted(n=300, t=8, k=20, m=12, random_state=0)


def test_vectors_have_unit_length_and_the_expected_width(data):
    lifting = Lifting(5)
    for lifted in (lifting.fit_transform(data.X, data.Y), lifting.transform(data.X)):
        assert lifted.shape == (300, 5 + 8)
        assert_allclose(np.linalg.norm(lifted, axis=1), 1, rtol=1e-5)
    assert len(lifting.get_feature_names_out()) == 13


def test_weight_zero_lifts_nothing(data):
    lifted = Lifting(5, weight=0.0).fit(data.X, data.Y).transform(data.X)
    assert_allclose(lifted[:, :5], Reduction(5).fit(data.X).transform(data.X), atol=1e-5)
    assert not lifted[:, 5:].any()


def test_own_tags_do_not_shape_the_own_vector(data):
    """Change the tags of one image: its direction of prediction barely knows (scale, strength)."""
    Y = data.Y.toarray()
    before = Lifting(5).fit_transform(data.X, Y)[0]
    Y[0] = 1 - Y[0]
    model = Lifting(5)
    after = model.fit_transform(data.X, Y)[0]
    seen = model.transform(data.X[:1])[0]
    assert np.linalg.norm(after - before) < np.linalg.norm(seen - before) / 2


def test_reweighing_is_lifting_with_another_weight(data):
    lifting = Lifting(5)
    lifted = lifting.fit_transform(data.X, data.Y)
    expected = Lifting(5, weight=0.3).fit_transform(data.X, data.Y)
    assert_allclose(lifting.reweigh(lifted, 0.3), expected, atol=1e-5)
    with pytest.raises(ValueError, match="weight=0"):
        Lifting(5, weight=0.0).fit(data.X, data.Y).reweigh(lifted, 1.0)


def test_all_axes_keep_all_inner_products(data):
    whole, turned = (Lifting(5, width=width).fit(data.X, data.Y) for width in (None, 13))
    one, other = whole.transform(data.X), turned.transform(data.X)
    assert_allclose(one @ one.T, other @ other.T, atol=1e-5)
    assert Lifting(5, width=4).fit_transform(data.X, data.Y).shape == (300, 4)


def test_tags_are_needed(data):
    with pytest.raises(ValueError, match="requires y"):
        Lifting().fit(data.X, None)
