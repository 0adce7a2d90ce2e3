"""Collections that no example has: a tag on all pictures, two tags, vectors that are not finite."""

from __future__ import annotations

import json

import numpy as np
import pytest

import tagged
from prototag import Annotator, Library


class Eyes:
    """A network that makes nothing of white pictures."""

    spec, fingerprint, size = "eyes.onnx", "0" * 64, (8, 8)
    interpolation, width = "bilinear", 12

    def __call__(self, pixels):
        small = pixels.reshape(len(pixels), -1).astype(np.float32)
        vectors = np.ascontiguousarray(small[:, : 16 * self.width : 16] / 64 - 1)
        vectors[small.mean(axis=1) > 250] = self.nothing
        return vectors

    nothing = np.nan


def noise(count):
    rng = np.random.default_rng(0)
    return [rng.integers(0, 255, (8, 8, 3), np.uint8) for _ in range(count)]


WHITE = np.full((8, 8, 3), 255, np.uint8)


@pytest.mark.parametrize("nothing", [np.nan, np.inf, -np.inf])
def test_a_picture_without_vector_is_reported_and_the_others_are_processed(nothing):
    eyes, tags = Eyes(), [["sea", "sky"][: 1 + n % 2] if n % 3 else ["sand"] for n in range(41)]
    eyes.nothing = nothing
    annotator = Annotator(backbone=eyes, crops="fast", cache=None, keep_thumbnails=False)
    annotator.fit([*noise(40), WHITE], tags)
    assert [(s.index, s.reason) for s in annotator.skipped] == [
        (40, "the network gives NaN or infinity for it")
    ]
    found = list(annotator.annotate([noise(1)[0], WHITE, noise(2)[1]], min_probability=0.0))
    assert [f.error is None for f in found] == [True, False, True]
    assert "NaN or infinity" in found[1].error


ODD = {
    "two tags": lambda n: [tagged.TAGS[n % 2]],
    "a tag on all": lambda n: ["all", *tagged.tags_of(n)],
    "one tag on all": lambda _: ["all"],
}


@pytest.mark.parametrize("tags_of", ODD.values(), ids=ODD)
def test_odd_vocabularies_are_trained_and_updated(tmp_path, tags_of):
    files = tagged.collection(tmp_path, 24, listed=False)
    lines = [{"file_name": f"{n:03}.jpg", "tags": tags_of(n)} for n in range(18)]
    (tmp_path / "metadata.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    annotator = Annotator(crops="fast", cache=None).fit(tmp_path)
    annotator.save(tmp_path / "model.prototag")
    again = Annotator.load(tmp_path / "model.prototag", cache=None)
    for found in again.annotate(files[18:], min_probability=0.0):
        assert found.error is None
        assert all(0 <= tag.probability <= 1 for tag in found.tags)
        assert "all" not in {tag.name for tag in found.tags}  # nothing tells pictures without it
    with Library.create(tmp_path, crops="fast", cache=None) as library:
        library.scan()
        library.learn()
        library.accept([20], ["new"])
        library.reject([21], [tags_of(0)[0]])
        library.learn(full=False)
        assert all(0 <= s.probability <= 1 for s in library.suggest(limit=50))
        assert not library.check()
