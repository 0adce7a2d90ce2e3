"""Training pictures inside a model file."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import tagged
from prototag import Annotator, metadata, recommended
from prototag.annotator import training_set
from prototag.annotator.assess import assess
from prototag.annotator.gallery import Gallery
from prototag.annotator.vector_export import write_vectors
from prototag.errors import ModelFileError
from prototag.features import Extractor
from prototag.tagging.out_of_core import features as out_of_core_features

# What a gallery asks of a model: two tags, two prototypes, three landmarks.
MODEL = SimpleNamespace(
    n_tags=2, prototypes=np.zeros((2, 4)), kernel=SimpleNamespace(landmarks=np.zeros((3, 4)))
)


def small() -> Gallery:
    vectors = np.eye(3, 5, dtype=np.float32)
    return Gallery(
        ["a.jpg", "föö/\udcff.jpg", "c, d.jpg"],
        [bytes([number]) * 20 for number in range(3)],
        [[0, 1], [], [1]],
        vectors,
        np.array([2, 0]),
        np.array([1, 1, 0]),
        [b"first", b"", b"third"],
        np.zeros((3, 2), np.float16),
    )


def test_survives_a_model_file():
    gallery = small()
    again = Gallery.from_arrays(gallery.to_arrays(), MODEL)
    assert again.names == gallery.names
    assert again.digests == gallery.digests
    assert again.tags == gallery.tags
    assert again.thumbnails == gallery.thumbnails
    assert np.array_equal(again.vectors, gallery.vectors)
    assert np.array_equal(again.prototypes, gallery.prototypes)


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("tags", np.array([0, 1, 2], np.int32)),
        ("tag_offsets", np.array([0, 3, 2, 3])),
        ("prototypes", np.array([0, 3])),
        ("landmarks", np.array([0, -1, 2])),
        ("thumbnail_ends", np.array([5, 4, 10])),
    ],
)
def test_numbers_that_point_outside_are_refused(part, value):
    with pytest.raises(ModelFileError, match="do not fit the model"):
        Gallery.from_arrays({**small().to_arrays(), part: value}, MODEL)


def test_nearest_by_cosine():
    found, cosine = small().nearest(np.array([0.1, 0.9, 0.3, 0, 0], np.float32), 2)
    assert found.tolist() == [1, 2]
    assert cosine.tolist() == pytest.approx([0.9, 0.3])


def test_pictures_are_found_by_their_digests():
    gallery = small()
    asked = [gallery.digests[2], b"x" * 20, gallery.digests[0]]
    assert gallery.find(asked).tolist() == [2, -1, 0]


def test_of_very_many_pictures_a_part_is_kept(tmp_path, monkeypatch):
    """The rest is known to be learned, and not judged as new."""
    tagged.collection(tmp_path / "train", 120)
    found = metadata.collect(tmp_path / "train")
    made = write_vectors(found, Extractor(crops="fast", cache=None), tmp_path / "v", rows=50)
    monkeypatch.setattr(training_set, "MAX_PICTURES_IN_MEMORY", 50)
    monkeypatch.setattr(out_of_core_features, "MAX_SAMPLE_IMAGES", 40)
    small = {"n_components": 25, "pilot": 40}
    monkeypatch.setattr(
        training_set, "recommended", lambda **more: recommended(n_prototypes=20, **small, **more)
    )
    model = Annotator(cache=None).fit(made.folder, work=tmp_path / "work")
    kept, others = len(model.gallery.names), len(model.gallery.omitted_digests)
    assert 20 <= kept < 120
    assert kept + others == 120
    model.save(tmp_path / "a.prototag")
    again = Annotator.load(tmp_path / "a.prototag", cache=None)
    assert all(annotation.in_training_set for annotation in again.annotate(found.images))
    assert again.gallery.names == model.gallery.names
    judged = assess(again, found.images, found.tags)
    assert judged.n_trained_on == len(judged.pictures) == kept
    assert len(judged.skipped) == others
    assert "was used in training" in judged.skipped[0].reason
    assert again.explain(found.images[0])
