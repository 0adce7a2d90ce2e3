"""Rules decode a picture once: the facts about its pixels are cached by its digest."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from prototag.annotator.rule_cache import matching_rules
from prototag.features.vector_cache import VectorCache
from prototag.images import rules
from prototag.images.decode import digest


@pytest.fixture
def pictures(tmp_path):
    rng = np.random.default_rng(0)
    colored = rng.integers(0, 255, (80, 96, 3), np.uint8)
    gray = np.repeat(colored[:, :, :1], 3, axis=2)
    dark = np.maximum(colored // 20, 5)
    tall = rng.integers(0, 255, (200, 96, 3), np.uint8)
    paths = []
    for number, pixels in enumerate((colored, gray, dark, tall)):
        paths.append(tmp_path / f"{number}.png")
        Image.fromarray(pixels).save(paths[-1])
    return paths


def test_known_pictures_are_not_decoded_again(tmp_path, pictures, monkeypatch):
    digests = [digest(path) for path in pictures]
    expected = [rules.matching_rules(path) for path in pictures]
    assert [*map(sorted, expected)] == [[], ["black and white"], ["night"], ["portrait format"]]
    with VectorCache(tmp_path / "cache.sqlite") as cache:
        assert matching_rules(cache, pictures, digests, 1) == expected

        def refuse(*_, **__):
            raise AssertionError("decoded again")

        monkeypatch.setattr(rules, "open_image", refuse)
        assert matching_rules(cache, pictures, digests, 1) == expected
        with pytest.raises(AssertionError):
            matching_rules(cache, pictures, [b"0" * 20] * 4, 1)
        with pytest.raises(AssertionError):
            matching_rules(None, pictures, digests, 1)


def test_without_digests_nothing_is_cached(tmp_path, pictures):
    with VectorCache(tmp_path / "cache.sqlite") as cache:
        names = matching_rules(cache, pictures, (), 1)
        assert names == [rules.matching_rules(path) for path in pictures]
        assert len(cache) == 0
