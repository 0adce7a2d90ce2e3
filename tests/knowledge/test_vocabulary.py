"""The general vocabulary: its words, probabilities and measured quality."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from prototag.errors import InputError
from prototag.knowledge import concepts
from prototag.knowledge.concepts import WIDTH, embedded, name_scores
from prototag.knowledge.general import GeneralVocabulary, general_vocabulary, system_language
from prototag.knowledge.words import LANGUAGES
from tools import make_knowledge


@pytest.fixture(scope="module")
def vocabulary():
    return general_vocabulary()


@pytest.fixture(scope="module")
def images():
    """Vectors that spread along the axes of the heads."""
    heads = embedded()
    rng = np.random.default_rng(0)
    axes = heads.axes.astype(np.float32) * heads.axis_scale
    coordinates = rng.standard_normal((200, axes.shape[1])) * np.sqrt(
        np.arange(axes.shape[1], 0, -1)
    )
    return (heads.mean + heads.scale * (coordinates @ axes.T)).astype(np.float32)


def test_it_has_every_language(vocabulary):
    assert set(vocabulary.names) == set(LANGUAGES)
    assert len({len(names) for names in vocabulary.names.values()}) == 1
    assert len(vocabulary.names["en"]) == len(vocabulary.auc) == len(vocabulary.center)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_language_has_800_words_none_empty_none_twice(vocabulary, language):
    words = vocabulary.in_language(language)
    assert len(words.names) >= 800
    assert len(set(words.names)) == len(words.names)
    assert all(name == name.strip() and name for name in words.names)
    assert words.log_odds.coef.shape == (WIDTH, len(words.names))
    assert len(words.log_odds.intercept) == len(words.auc) == len(words.precision)
    folded = [name.casefold() for name in words.names]
    assert len(folded) - len(set(folded)) < 10  # names of a language may differ by case only


def test_translations_have_the_probabilities_of_their_words(vocabulary):
    english = vocabulary.in_language("en")
    for language, pairs in {
        "de": {"Katze": "cat", "Motorrad": "motorcycle", "Blume": "flower"},
        "fr": {"chat": "cat", "neige": "snow"},
        "ja": {"猫": "cat"},
    }.items():
        words = vocabulary.in_language(language)
        for name, translation in pairs.items():
            ours = words.names.index(name)
            theirs = english.names.index(translation)
            np.testing.assert_array_equal(
                words.log_odds.coef[:, ours], english.log_odds.coef[:, theirs]
            )
            assert words.auc[ours] == english.auc[theirs]


def test_of_words_with_one_name_the_best_is_kept(vocabulary):
    for language in ("de", "ja", "zh"):
        words = vocabulary.in_language(language)
        for name, auc in zip(words.names, words.auc, strict=True):
            rows = [row for row, known in enumerate(vocabulary.names[language]) if known == name]
            assert auc == vocabulary.auc[rows].max()


def test_an_unknown_language_is_refused_with_those_that_exist(vocabulary):
    with pytest.raises(InputError, match=r"language='xx': give one of ar, de, en"):
        vocabulary.in_language("xx")


def test_measured_quality_is_plausible(vocabulary):
    assert vocabulary.auc.min() >= make_knowledge.MIN_AUC
    assert vocabulary.auc.max() <= 1
    precision = vocabulary.precision[~np.isnan(vocabulary.precision)]
    assert ((precision >= 0) & (precision <= 1)).all()
    assert len(precision) > 150
    assert (np.diff(vocabulary.curve_thresholds) < 0).all()
    assert ((vocabulary.curve_precision >= 0) & (vocabulary.curve_precision <= 1)).all()
    half = vocabulary.curve_precision[vocabulary.curve_thresholds >= 0.495]
    assert half.min() >= 0.5  # a probability of at least one half is right in half the cases
    # Calibrated: pooled precision of what is at least as probable is not below the probability
    # by much, and falls with it.
    likely = vocabulary.curve_thresholds < 0.75
    assert (vocabulary.curve_precision > vocabulary.curve_thresholds - 0.1)[likely].all()
    assert vocabulary.curve_precision[0] > vocabulary.curve_precision[-1] + 0.2
    assert vocabulary.slope.min() > 0


def test_its_words_are_those_of_the_table(vocabulary):
    table = make_knowledge.vocabulary_table()
    assert set(table[0]) == set(LANGUAGES)
    assert all(len(row) == len(LANGUAGES) and all(cell.strip() for cell in row) for row in table)
    rows = set(map(tuple, table[1:]))
    assert len(rows) == len(table) - 1
    assert rows >= set(zip(*(vocabulary.names[name] for name in table[0]), strict=True))


def test_own_words_score_by_their_name_and_like_similar_words(vocabulary, images):
    english = vocabulary.in_language("en")
    names = ["cat", "motorcycle", "snow", "beach", "Katze", "пляж"]
    own = vocabulary.of_names(names)
    assert own.names == names
    assert np.isnan(own.precision).all()  # it was not measured
    ours = name_scores(own.log_odds, images)
    of_names = name_scores(embedded().prior(names), images)
    for column in range(len(names)):
        assert np.corrcoef(ours[:, column], of_names[:, column])[0, 1] > 0.9999
    known = [english.names.index(name) for name in ("cat", "motorcycle", "snow", "beach")]
    theirs = name_scores(english.log_odds, images)[:, known]
    for column in range(4):
        assert np.corrcoef(ours[:, column], theirs[:, column])[0, 1] > 0.99
    share = abs((ours[:, :4] > 0).mean(axis=0) - (theirs > 0).mean(axis=0))
    assert share.max() < 0.15


def test_a_word_without_meaning_is_improbable_for_every_image(vocabulary, images):
    odds = name_scores(vocabulary.of_names(["2019", "🏖️"]).log_odds, images)
    assert np.ptp(odds) < 1e-5
    assert odds.max() < -1
    empty = vocabulary.of_names([])
    assert empty.names == []
    assert empty.log_odds.coef.shape == (WIDTH, 0)


def test_a_file_holds_the_same_vocabulary(vocabulary, tmp_path):
    vocabulary.save(tmp_path)
    again = GeneralVocabulary.load(tmp_path)
    for name, value in vars(vocabulary).items():
        if name == "names":
            assert again.names == value
        else:
            np.testing.assert_array_equal(getattr(again, name), value)
    original = Path(concepts.__file__).parent / concepts.FOLDER / "general.npz"
    with np.load(tmp_path / "general.npz") as ours, np.load(original) as theirs:
        assert ours.files == theirs.files


@pytest.mark.parametrize(
    ("value", "language"),
    [
        ("de_DE.UTF-8", "de"), ("de", "de"), ("en_US", "en"), ("pt_BR.UTF-8@euro", "pt"),
        ("zh_CN.UTF-8", "zh"), ("zh_TW.UTF-8", "zh-TW"), ("zh_HK", "zh-TW"),
        ("zh-Hant-HK", "zh-TW"), ("zh_Hans_CN", "zh"), ("C.UTF-8", "en"), ("POSIX", "en"),
        ("sv_SE.UTF-8", "en"), ("", "en"), (None, "en"), ("TR_tr", "tr"),
    ],
)  # fmt: skip
def test_the_language_of_the_system(value, language):
    assert system_language(value) == language
