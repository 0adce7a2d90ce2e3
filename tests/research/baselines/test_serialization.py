"""Serialization of baselines: arrays are declared, packed, and validated when read."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

import prototag
from prototag.errors import ModelFileError
from prototag.research import baselines
from prototag.research.baselines import serialization
from prototag.research.datasets import planted
from prototag.storage import modelfile

FORMS = {"scale_": "f4 m", "images_": "f4 n m", "tags_": "tags n t", "_theta": "f8 k"}
CODES = {"codes_": "codes n k"}


@pytest.fixture
def owner():
    rng = np.random.default_rng(0)
    return SimpleNamespace(
        scale_=rng.random(3, np.float32),
        images_=rng.random((4, 3), np.float32),
        tags_=sparse.csr_array(rng.random((4, 5)) < 0.4),
        _theta=rng.random(7),
    )


@pytest.fixture(scope="module")
def data():
    return planted(n=60, t=5, k=10, m=6, random_state=0)


def test_what_was_packed_is_unpacked(owner):
    arrays = serialization.pack(owner, FORMS)
    assert set(arrays) == {
        "scale", "images", "tags/data", "tags/indices", "tags/indptr", "theta"
    }  # fmt: skip
    found = serialization.unpack(arrays, FORMS, {"m": 3, "t": 5})
    assert_array_equal(found.pop("tags_").toarray(), owner.tags_.toarray())
    for name, value in found.items():
        assert_array_equal(value, getattr(owner, name))


def test_codes_are_packed_and_damaged_ones_refused():
    codes = sparse.csr_array(np.array([[0, -1.5, 0], [2, 0, 0.5]], np.float32))
    arrays = serialization.pack(SimpleNamespace(codes_=codes), CODES)
    found = serialization.unpack(arrays, CODES, {"n": 2, "k": 3})["codes_"]
    assert_array_equal(found.toarray(), codes.toarray())
    for data in (np.array([1, np.nan, 1], np.float32), np.ones(3)):
        with pytest.raises(ModelFileError, match="codes 'codes' are no finite float32 numbers"):
            serialization.unpack({**arrays, "codes/data": data}, CODES, {"n": 2, "k": 3})


DAMAGES = {
    "a size of two": ({"scale": np.zeros(4, np.float32)}, "array 'scale'"),
    "another dtype": ({"theta": np.zeros(7, np.float32)}, "array 'theta'"),
    "nothing": ({"theta": np.zeros(0)}, "array 'theta' is empty"),
    "fewer images than tags": ({"images": np.zeros((3, 3), np.float32)}, "lengths do not fit"),
    "tags of floats": ({"tags/data": None}, "tags 'tags' are not 0/1"),
    "an absent tag": ({"tags/data": False}, "tags 'tags' are not 0/1"),
}


@pytest.mark.parametrize("case", DAMAGES)
def test_what_does_not_fit_is_refused(owner, case):
    change, message = DAMAGES[case]
    arrays = serialization.pack(owner, FORMS)
    count = len(arrays["tags/data"])
    for name, value in change.items():
        if value is None:
            value = np.ones(count, np.float32)
        elif value is False:
            value = np.zeros(count, bool)
        arrays[name] = value
    with pytest.raises(ModelFileError, match=message):
        serialization.unpack(arrays, FORMS, {"m": 3, "t": 5})


def test_plain_values():
    assert serialization.plain(np.float32(0.5)) == 0.5
    assert type(serialization.plain(np.int64(3))) is int
    assert serialization.plain({"a": np.int64(3)}) == {"a": 3}
    assert serialization.plain(np.array(["a", "b"])) == ["a", "b"]
    assert serialization.plain(None) is None


VALUES = {
    "another type": lambda values: values.update(n_neighbours_=2.5),
    "a choice that the parameter forbids": lambda values: values.update(n_neighbours_=0),
    "a word": lambda values: values.update(sharpness_="auto"),
    "a truth": lambda values: values.update(n_neighbours_=True),
    "missing": lambda values: values.pop("sharpness_"),
}


@pytest.mark.parametrize("case", VALUES)
def test_values_that_nobody_chose_are_refused(data, tmp_path, case):
    config, arrays = baselines.KNN(5, sharpness=3.0).fit(data.X, data.Y).to_state()
    VALUES[case](config["fitted"])
    modelfile.write(tmp_path / "model", {"kind": "knn", **config}, arrays)
    with pytest.raises(ModelFileError, match=r"n_neighbours|sharpness"):
        prototag.load(tmp_path / "model")


def test_choices_are_checked_one_by_one(data, tmp_path):
    options = {"strength": 0.3, "power": 0.0, "n_neighbours": 2, "sharpness": 2.0}
    config, arrays = baselines.CCAKNN(**options).fit(data.X, data.Y).to_state()
    for change in ({"n_neighbours": -1}, {"sharpness": "sharp"}, {"n_neighbours": None}):
        damaged = {**config, "fitted": {"choices_": {**config["fitted"]["choices_"], **change}}}
        modelfile.write(tmp_path / "model", {"kind": "ccaknn", **damaged}, arrays)
        with pytest.raises(ModelFileError, match=next(iter(change))):
            prototag.load(tmp_path / "model")


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("KNN", {}),
        ("JEC", {}),
        ("TwoPassKNN", {"metric": "groups", "n_steps": 2}),
        ("TagProp", {"n_neighbours": 5, "n_rounds": 1}),
    ],
)
def test_groups_survive(data, tmp_path, name, options):
    groups = np.array(["colour"] * 2 + ["shape"] * 4)
    model = getattr(baselines, name)(groups=groups, **options).fit(data.X, data.Y)
    model.save(tmp_path / "model")
    again = prototag.load(tmp_path / "model")
    assert again.groups == groups.tolist()
    assert_array_equal(again.decision_function(data.X), model.decision_function(data.X))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("TagProp", {"sigma": False, "n_neighbours": 5}),
        ("FastTag", {"kernel": "linear", "n_layers": 2}),
        ("CCAKNN", {"vote": "knn"}),
        ("KernelRidge", {"max_landmarks": 20, "gamma": np.float32(1.0), "strength": 0.3}),
        ("KNN", {"n_neighbours": np.int64(4), "sharpness": np.float64(2.0)}),
    ],
)
def test_other_options_are_kept_too(data, tmp_path, name, options):
    model = getattr(baselines, name)(**options).fit(data.X, data.Y)
    model.save(tmp_path / "model")
    again = prototag.load(tmp_path / "model")
    assert_array_equal(again.decision_function(data.X), model.decision_function(data.X))
    assert {name: getattr(again, name) for name in options} == options
