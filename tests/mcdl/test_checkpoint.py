"""A fit that was killed goes on where it was, and ends in the same bits."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from prototag import MCDL
from prototag.errors import CheckpointError
from prototag.mcdl.settings import Recipe
from prototag.research.datasets import planted
from prototag.storage import modelfile

POINTS = {"drop": 0.001, "rescale": True, "unused": "reseed"}
SETTINGS = {"n_prototypes": 20, "max_iter": 5, "init_iter": 2, "recipe": Recipe(**POINTS)}

# Fits in a process of its own and kills itself, as the system would, in the given iteration.
KILLED = """
import json, os, signal, sys
from prototag import MCDL
from prototag.mcdl.settings import Recipe
from prototag.research.datasets import planted

def kill(event):
    if event.done == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)

data = planted(n=150, t=8, k=20, m=12, random_state=0)
seed = None if sys.argv[3] == "None" else int(sys.argv[3])
settings = json.loads(sys.argv[4])
model = MCDL(checkpoint=sys.argv[1], random_state=seed, progress=kill)
model.set_params(**{**settings, "recipe": Recipe(**settings["recipe"])}).fit(data.X, data.Y)
"""


@pytest.fixture(scope="module")
def data():
    return planted(n=150, t=8, k=20, m=12, random_state=0)


def killed(path, iteration, seed):
    command = [
        sys.executable,
        "-c",
        KILLED,
        str(path),
        str(iteration),
        str(seed),
        json.dumps({**SETTINGS, "recipe": POINTS}),
    ]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == -signal.SIGKILL, answer.stderr
    assert len(modelfile.read(path)[1]["objective"]) == iteration + 1


def assert_same_bits(one, other):
    assert_array_equal(one.visual_prototypes_, other.visual_prototypes_)
    assert_array_equal(one.semantic_prototypes_.toarray(), other.semantic_prototypes_.toarray())
    assert_array_equal(one.objective_, other.objective_)
    assert one.threshold_ == other.threshold_
    assert_array_equal(one.tag_objective_, other.tag_objective_)
    assert one.codes_gap_ == other.codes_gap_


@pytest.mark.parametrize("iteration", [0, 1, 3, 5])
def test_a_killed_fit_ends_in_the_same_bits(data, iteration, tmp_path):
    path = tmp_path / "checkpoint"
    killed(path, iteration, seed=7)
    told = []
    resumed = MCDL(**SETTINGS, checkpoint=path, random_state=7, progress=told.append)
    resumed.fit(data.X, data.Y)
    assert [word.done for word in told] == list(range(iteration, 6))
    assert_same_bits(resumed, MCDL(**SETTINGS, random_state=7).fit(data.X, data.Y))


def test_a_killed_fit_without_a_seed_keeps_the_one_it_drew(data, tmp_path):
    path = tmp_path / "checkpoint"
    killed(path, 2, seed=None)
    early = path.read_bytes()
    resumed = [MCDL(**SETTINGS, checkpoint=path).fit(data.X, data.Y)]
    path.write_bytes(early)  # once more from the same place, whatever the next draw would be
    resumed.append(MCDL(**SETTINGS, checkpoint=path).fit(data.X, data.Y))
    assert_same_bits(*resumed)


def test_a_checkpoint_changes_nothing_and_stays(data, tmp_path):
    path = tmp_path / "checkpoint"
    plain = MCDL(**SETTINGS, random_state=0).fit(data.X, data.Y)
    kept = MCDL(**SETTINGS, random_state=0, checkpoint=str(path)).fit(data.X, data.Y)
    assert_same_bits(plain, kept)
    assert os.listdir(tmp_path) == ["checkpoint"]
    told = []
    again = MCDL(**SETTINGS, random_state=0, checkpoint=path, progress=told.append)
    assert_same_bits(plain, again.fit(data.X, data.Y))
    assert [word.done for word in told] == [5]


def test_more_iterations_may_follow(data, tmp_path):
    path = tmp_path / "checkpoint"
    MCDL(**{**SETTINGS, "max_iter": 2}, random_state=0, checkpoint=path).fit(data.X, data.Y)
    longer = MCDL(**SETTINGS, random_state=0, checkpoint=path).fit(data.X, data.Y)
    assert_same_bits(longer, MCDL(**SETTINGS, random_state=0).fit(data.X, data.Y))
    with pytest.raises(CheckpointError, match=r"has 5 iterations and max_iter=2: raise max_iter"):
        MCDL(**{**SETTINGS, "max_iter": 2}, random_state=0, checkpoint=path).fit(data.X, data.Y)


def test_threads_and_paths_are_no_part_of_a_fit(data, tmp_path):
    path = tmp_path / "checkpoint"
    MCDL(**{**SETTINGS, "max_iter": 2}, random_state=0, checkpoint=path).fit(data.X, data.Y)
    moved = path.rename(tmp_path / "elsewhere")
    resumed = MCDL(**SETTINGS, random_state=0, n_jobs=2, checkpoint=moved).fit(data.X, data.Y)
    assert_same_bits(resumed, MCDL(**SETTINGS, random_state=0).fit(data.X, data.Y))


@pytest.mark.parametrize(
    "change",
    [{"eta": 0.9}, {"n_prototypes": 21}, {"recipe": "published"}, {"random_state": 1}],
    ids=str,
)
def test_other_parameters_are_refused(data, change, tmp_path):
    path = tmp_path / "checkpoint"
    settings = {**SETTINGS, "max_iter": 1, "random_state": 0, "checkpoint": path}
    MCDL(**settings).fit(data.X, data.Y)
    before = path.read_bytes()
    with pytest.raises(
        CheckpointError, match=r"other data or other parameters: delete it, or give"
    ):
        MCDL(**{**settings, **change}).fit(data.X, data.Y)
    assert path.read_bytes() == before


@pytest.mark.parametrize("what", ["X", "Y", "fewer images"])
def test_other_data_is_refused(data, what, tmp_path):
    settings = {**SETTINGS, "max_iter": 1, "random_state": 0, "checkpoint": tmp_path / "checkpoint"}
    MCDL(**settings).fit(data.X, data.Y)
    X, Y = data.X.copy(), data.Y.toarray()
    if what == "X":
        X[3, 4] += 0.01
    elif what == "Y":
        Y[3, 4] = 1 - Y[3, 4]
    else:
        X, Y = X[:-1], Y[:-1]
    with pytest.raises(
        CheckpointError, match=r"other data or other parameters: delete it, or give"
    ):
        MCDL(**settings).fit(X, Y)


def test_a_model_is_no_checkpoint(data, tmp_path):
    MCDL(**SETTINGS, random_state=0).fit(data.X, data.Y).save(tmp_path / "model")
    with pytest.raises(CheckpointError, match="is a 'mcdl', not a checkpoint: give checkpoint="):
        MCDL(**SETTINGS, checkpoint=tmp_path / "model").fit(data.X, data.Y)


def test_a_damaged_checkpoint_is_refused(data, tmp_path):
    path = tmp_path / "checkpoint"
    settings = {**SETTINGS, "max_iter": 1, "random_state": 0, "checkpoint": path}
    MCDL(**settings).fit(data.X, data.Y)
    raw = bytearray(path.read_bytes())
    raw[-9] ^= 1
    path.write_bytes(raw)
    with pytest.raises(ValueError, match="intact"):
        MCDL(**settings).fit(data.X, data.Y)


def _huge(array):
    return np.full_like(array, 3e38)


FORGED = {
    "no prototypes": lambda _, a: a.pop("visual"),
    "prototypes of another width": lambda _, a: a.update(visual=a["visual"][:, :-1]),
    "other prototypes in S": lambda _, a: a.update(semantic=a["semantic"][1:]),
    "other tags": lambda _, a: a.update(semantic=a["semantic"][:, 1:]),
    "more prototypes": lambda _, a: a.update(
        visual=np.tile(a["visual"], (2, 1)), semantic=np.tile(a["semantic"], (2, 1))
    ),
    "NaN": lambda _, a: a.update(visual=a["visual"] * np.nan),
    "huge": lambda _, a: a.update(semantic=_huge(a["semantic"])),
    "doubles": lambda _, a: a.update(visual=a["visual"].astype("f8")),
    "no objective": lambda _, a: a.update(objective=a["objective"][:0]),
    "flat objective": lambda _, a: a.update(objective=a["objective"].ravel()),
    "objective that is not finite": lambda _, a: a.update(objective=a["objective"] * np.inf),
    "objective of one tag": lambda _, a: a.update(tag_objective=a["tag_objective"][:1]),
    "codes of other images": lambda _, a: a.update({"codes/indptr": a["codes/indptr"][:-1]}),
    "codes of whole numbers": lambda _, a: a.update(
        {"codes/data": np.ones(len(a["codes/data"]), "i4")}
    ),
    "codes that are not finite": lambda _, a: a.update({"codes/data": a["codes/data"] * np.nan}),
    "no seed": lambda h, _: h.pop("seed"),
    "a word as seed": lambda h, _: h.update(seed="x"),
    "a negative seed": lambda h, _: h.update(seed=-1),
}


@pytest.mark.parametrize("change", FORGED.values(), ids=FORGED)
def test_a_forged_checkpoint_is_refused_in_words(data, change, tmp_path):
    path = tmp_path / "checkpoint"
    settings = {**SETTINGS, "max_iter": 1, "random_state": 0, "checkpoint": path}
    MCDL(**settings).fit(data.X, data.Y)
    header, arrays = modelfile.read(path)
    change(header, arrays)
    modelfile.write(path, header, arrays)
    with pytest.raises(CheckpointError, match=r"damaged .*: delete it, or give checkpoint="):
        MCDL(**{**settings, "max_iter": 2}).fit(data.X, data.Y)


def test_the_order_of_random_draws_is_that_of_the_iteration(data):
    """What makes resuming exact: an iteration draws from a stream of its own."""
    short = MCDL(**{**SETTINGS, "max_iter": 3}, random_state=0).fit(data.X, data.Y)
    long = MCDL(**SETTINGS, random_state=0).fit(data.X, data.Y)
    assert_array_equal(short.objective_, long.objective_[:4])
    assert np.all(np.diff(long.objective_["total"]) < 0)
