"""CASDDL: scores, and where shared atoms come from; its criterion is tested in test_fddl."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from prototag.research.baselines import CASDDL, casddl, fddl
from prototag.research.baselines.sparse_group_lasso import GroupLasso
from prototag.research.datasets import planted

FAST = {"n_folds": 2, "max_iter": 2, "relevance": 0.3}


@pytest.fixture(scope="module")
def data():
    return planted(n=150, t=8, k=14, m=10, random_state=3)


def test_scores_are_codes_times_relevance(data):
    model = CASDDL(**FAST).fit(data.X, data.Y)
    codes = GroupLasso.of(model.atoms_, sparsity=0.01).encode(data.X).codes
    assert_allclose(model.decision_function(data.X), codes @ model.semantics_, atol=1e-3)
    assert model.setting_ == {"relevance": 0.3}
    assert_allclose(np.linalg.norm(model.atoms_, axis=1), 1, atol=1e-5)


def test_shared_atoms_are_added_and_those_without_use_removed(data):
    rng = np.random.default_rng(0)
    group = fddl.Group(data.X[:30], np.arange(30) % 2, data.X[:4], np.array([0, 0, 1, 1]))
    found = casddl.with_shared_atoms(group, 3, rng)
    assert found.atom_tag.tolist() == [0, 0, 1, 1, -1, -1, -1]
    assert_allclose(found.D[:4], group.D)
    few = len(CASDDL(low_rank=1e4, **FAST).fit(data.X, data.Y).atoms_)
    many = len(CASDDL(low_rank=0.0, **FAST).fit(data.X, data.Y).atoms_)
    assert few < many
