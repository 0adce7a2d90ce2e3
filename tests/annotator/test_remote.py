"""Pictures on a real cluster: vectors and annotations are those of threads, whatever dies."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import tagged
from prototag import Annotator
from prototag.annotator.assess import assess
from prototag.engine.dask import Dask
from prototag.errors import BackboneError
from prototag.features import Extractor, remote
from prototag.features.backbones import EmbeddedBackbone
from prototag.features.vector_cache import VectorCache


@pytest.fixture(scope="module")
def cluster():
    with Dask.local(2) as engine:
        yield engine


@pytest.fixture
def pictures(tmp_path):
    """140 pictures, one of them no picture, and one that is missing."""
    files = tagged.collection(tmp_path / "pictures", 140, start=200, listed=False)
    files[5].write_bytes(b"no picture")
    return [*files, tmp_path / "missing.jpg"]


@pytest.mark.bits
def test_vectors_are_those_of_threads(cluster, pictures, tmp_path):
    settings = {"crops": "fast", "cache": None}
    ours = Extractor(**settings).extract(pictures, thumbnails=True)
    events = []
    with VectorCache(tmp_path / "cache.sqlite") as cache:
        abroad = Extractor(crops="fast", cache=cache, engine=cluster, progress=events.append)
        theirs = abroad.extract(pictures, thumbnails=True)
        again = abroad.extract(pictures)
    for found in (theirs, again):
        assert_array_equal(found.vectors, ours.vectors)
        assert_array_equal(found.kept, ours.kept)
        assert found.skipped == ours.skipped
        assert found.digests == ours.digests
    assert theirs.thumbnails == ours.thumbnails
    assert events[-1].done == len(pictures)


def test_annotations_are_those_of_threads_though_a_worker_is_killed(cluster, pictures, tmp_path):
    path = tagged.model(tmp_path)
    expected = list(Annotator.load(path, cache=None).annotate(pictures))
    abroad = Annotator.load(path, cache=None, engine=cluster)
    found = abroad.annotate(pictures)
    answers = [next(found)]
    os.kill(next(iter(cluster.client.run(os.getpid).values())), signal.SIGKILL)
    answers += found
    assert answers == expected
    assert [answer.source for answer in answers] == pictures
    assert sum(answer.error is not None for answer in answers) == 2


@pytest.mark.bits
def test_an_evaluation_is_that_of_threads(cluster, pictures, tmp_path):
    path, given = tagged.model(tmp_path), [tagged.tags_of(n) for n in range(200, 341)]
    here, there = (
        assess(Annotator.load(path, cache=None, engine=engine), pictures, given)
        for engine in (None, cluster)
    )
    assert there.result.figures == here.result.figures
    assert there.skipped == here.skipped


@pytest.mark.bits
def test_an_annotator_learns_on_a_cluster(cluster, tmp_path):
    files = tagged.collection(tmp_path / "train", 60)
    given = [tagged.tags_of(number) for number in range(60)]
    here, there = (
        Annotator(crops="fast", cache=None, engine=engine).fit(files, given)
        for engine in (None, cluster)
    )
    X = np.random.default_rng(0).random((5, here.model.n_features), np.float32)
    assert_array_equal(there.model.scores(X), here.model.scores(X))


def networks(_, extractor):
    remote.attach_backbone(extractor)
    return id(extractor._backbone()), len(remote._backbones)


def test_a_process_loads_a_network_once(cluster):
    """An extractor is small, and travels with each block; its network does not."""
    twin = remote.picklable_copy(Extractor(crops="fast", cache=None))
    found = cluster.map(networks, [range(12)], [twin], size=1)
    assert len(set(found)) <= 2  # one for each worker
    assert {count for _, count in found} == {1}


def test_a_network_in_memory_does_not_travel(cluster, pictures):
    extractor = Extractor(EmbeddedBackbone(), crops="fast", cache=None, engine=cluster)
    with pytest.raises(BackboneError, match="cannot be sent to a cluster: give backbone="):
        extractor.extract(pictures)
