"""UDL and CDL are MCDL configured, but for thresholds that no image had a say in about itself."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import prototag
from prototag import MCDL
from prototag.research.baselines import CDL, UDL
from prototag.research.datasets import planted


@pytest.fixture(scope="module")
def data():
    return planted(n=120, t=6, k=12, m=10, random_state=1)


def seed_of(model):
    return int(np.random.RandomState(model.random_state).randint(2**31 - 1))


@pytest.mark.parametrize(
    ("baseline", "mcdl"),
    [
        (UDL(0.3, init_iter=2), MCDL.udl(0.3, init_iter=2)),
        (
            CDL(0.3, init_iter=2, max_iter=2, eta=0.5),
            MCDL.cdl(0.3, init_iter=2, max_iter=2, eta=0.5),
        ),
    ],
)
def test_scores_are_those_of_mcdl(data, baseline, mcdl):
    baseline.fit(data.X, data.Y)
    mcdl.set_params(random_state=seed_of(baseline)).fit(data.X, data.Y)
    # Bringing a vector to unit length twice may move its last bit, nothing else differs.
    assert_allclose(baseline.decision_function(data.X), mcdl.decision_function(data.X), atol=2e-5)
    assert np.abs(baseline.out_of_fold_scores_ - mcdl.decision_function(data.X)).max() > 0.1


def test_the_model_inside_can_be_saved(data, tmp_path):
    labels = np.array(["sea", "sky"])[data.Y[:, 0].toarray().ravel().astype(int)]
    for y in (data.Y, data.Y.toarray(), labels):
        model = UDL(init_iter=1).fit(data.X, y)
        model.mcdl_.save(tmp_path / "model.prototag")
        again = prototag.load(tmp_path / "model.prototag")
        expected = model.predict(data.X)
        found = again.predict(data.X)
        assert type(found) is type(expected)
        assert not (found != expected).sum()
