"""The general vocabulary: languages, calibration of stored heads, vectors of words."""

from __future__ import annotations

import numpy as np
import pytest

from prototag.errors import InputError
from prototag.knowledge.concepts import WIDTH, embedded, quantize
from prototag.knowledge.general import (
    GeneralVocabulary,
    general_vocabulary,
    system_language,
)
from prototag.knowledge.lexicon import name_vectors
from prototag.knowledge.words import LANGUAGES, encode_names


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_has_most_words_once(language):
    words = general_vocabulary().in_language(language)
    assert len(words.names) >= 800
    assert len(set(words.names)) == len(words.names)
    assert words.log_odds.coef.shape == (WIDTH, len(words.names))
    assert len(words.vectors) == len(words.auc) == len(words.precision) == len(words.names)


def test_an_unknown_language_is_refused():
    with pytest.raises(InputError, match="zh-TW"):
        general_vocabulary().in_language("xx")


def test_stored_directions_score_like_heads_on_the_axes(tmp_path):
    concepts = embedded()
    rng = np.random.default_rng(0)
    general = general_vocabulary()
    words = general.names["en"][:20]
    heads = concepts.heads_of(words)
    kept = slice(0, 20)
    built = GeneralVocabulary.build(
        heads=heads,
        concepts=concepts,
        names={language: names[kept] for language, names in general.names.items()},
        vectors=quantize(encode_names(words))[0],
        **{
            name: getattr(general, name)[kept]
            for name in ("center", "slope", "intercept", "auc", "precision")
        },
        curve_thresholds=general.curve_thresholds,
        curve_precision=general.curve_precision,
    )
    built.save(tmp_path)
    X = concepts.mean + concepts.scale * rng.normal(size=(50, WIDTH)).astype(np.float32)
    prior = concepts.on_vectors(heads)
    expected = (X @ prior.coef + prior.intercept - built.center) * built.slope + built.intercept
    coef, intercept = GeneralVocabulary.load(tmp_path).in_language("en").log_odds
    error = X @ coef + intercept - expected
    assert np.abs(error).max() < 0.1 * expected.std()


def test_concepts_that_speak_are_like_the_word_and_score_high():
    concepts = embedded()
    vectors = name_vectors(["cat", "2019"])
    head = concepts.on_vectors(concepts.heads_of(["cat"]))
    X = (concepts.mean + 3 * concepts.scale**2 * head.coef[:, 0] / np.abs(head.coef).max())[None]
    spoken, nothing = concepts.spoken(X.astype(np.float32), vectors)
    assert nothing == []
    assert spoken[0].name in ("cat", "cats")
    weighted = [concept.score * concept.similarity for concept in spoken]
    assert weighted == sorted(weighted, reverse=True)
    assert len({concept.name for concept in spoken}) == len(spoken) <= 3


def test_the_language_of_a_locale():
    values = {"de_DE.UTF-8": "de", "pt_BR": "pt", "zh_TW.Big5": "zh-TW", "zh_CN": "zh"}
    values |= {"C": "en", "": "en", "fi_FI": "en", "zh-Hant-HK": "zh-TW"}
    assert {value: system_language(value) for value in values} == values
    assert system_language(None) == "en"
