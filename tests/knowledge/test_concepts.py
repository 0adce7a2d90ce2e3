"""Concept heads: their file, the Gaussian process from words to heads, and prior scores."""

from __future__ import annotations

import hashlib
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

import oracles
from prototag.features.extractor import Extractor
from prototag.knowledge import concepts
from prototag.knowledge.concepts import BACKBONE, WIDTH, ConceptHeads, embedded, name_prior
from prototag.knowledge.lexicon import name_vectors
from prototag.knowledge.words import encode_names

ROOT = Path(__file__).parents[2]
DATA = Path(concepts.__file__).parent / concepts.FOLDER


@pytest.fixture(scope="module")
def heads():
    return embedded()


@pytest.fixture(scope="module")
def images(heads):
    """Vectors that spread along the axes of the heads."""
    rng = np.random.default_rng(0)
    axes = heads.axes.astype(np.float32) * heads.axis_scale
    coordinates = rng.standard_normal((300, axes.shape[1])) * np.sqrt(
        np.arange(axes.shape[1], 0, -1)
    )
    return (heads.mean + heads.scale * (coordinates @ axes.T)).astype(np.float32)


def test_the_files_hold_arrays_only_and_are_those_of_the_notice():
    notice = (ROOT / "NOTICE").read_text()
    paths = sorted(DATA.glob("*.npz"))
    assert [path.name for path in paths] == ["concepts.npz", "general.npz", "lexicon.npz"]
    for path in paths:
        with np.load(path, allow_pickle=False) as file:
            assert all(file[name].dtype.kind in "iuf" for name in file.files)
            assert all(np.isfinite(file[name]).all() or name == "precision" for name in file.files)
        assert hashlib.sha256(path.read_bytes()).hexdigest() in notice
        assert f"(src/prototag/knowledge/data/{path.name})" in notice
    assert sum(path.stat().st_size for path in paths) < 20e6


def test_heads_are_for_the_embedded_network():
    extractor = Extractor("embedded", cache=None)
    assert extractor.fingerprint == BACKBONE
    assert sum(group.width for group in extractor.feature_groups) == WIDTH == len(embedded().mean)


def test_parts_fit_each_other(heads):
    count = len(heads.heads)
    assert len(heads.names) == len(heads.concept_of) == len(heads.vectors)
    assert len(heads.dual) == len(heads.head_scale) == len(heads.dual_scale) == count
    assert (np.diff(heads.concept_of) >= 0).all()
    np.testing.assert_array_equal(np.unique(heads.concept_of), np.arange(count))
    assert all(name.strip() for name in heads.names)
    assert min(heads.head_scale.min(), heads.axis_scale.min(), heads.scale.min()) > 0


def test_heads_of_names_are_the_mean_of_the_gaussian_process(heads):
    names = ["dog", "Strand", "animal|cat", "2019"]
    own = heads.vectors.astype(np.float64)
    own /= np.linalg.norm(own, axis=1, keepdims=True)
    dual = heads.dual.astype(np.float64) * heads.dual_scale[:, None]
    found = heads.heads_of(names)
    for row, vector in enumerate(name_vectors(names)[:3]):
        expected = oracles.word_head(own @ vector, heads.concept_of, dual, concepts.SHARPNESS)
        np.testing.assert_allclose(found[row], expected, atol=1e-4 * abs(expected).max())
    assert not found[3].any()


def test_prior_scores_are_heads_on_coordinates(heads, images):
    names = ["dog", "beach", ""]
    axes = heads.axes.astype(np.float64) * heads.axis_scale
    coordinates = ((images - heads.mean.astype(np.float64)) / heads.scale) @ axes
    expected = coordinates @ heads.heads_of(names).T
    prior = name_prior(names, WIDTH)
    scores = concepts.name_scores(prior, images)
    np.testing.assert_allclose(scores, expected, atol=2e-4 * abs(expected).max())
    assert not prior.coef[:, 2].any()
    assert prior.intercept[2] == 0


def test_a_concept_has_about_its_own_head(heads):
    """The mean of a Gaussian process with noise is drawn to similar words, not away from it."""
    names = ["dog", "beach", "car", "mountain", "snow", "kitchen", "train"]
    ours = heads.heads_of(names)
    for name, head in zip(names, ours, strict=True):
        rows = heads.concept_of[[row for row, known in enumerate(heads.names) if known == name]]
        own = heads.heads[rows].astype(np.float32) * heads.head_scale[rows, None]
        cosines = (own @ head) / np.linalg.norm(own, axis=1) / np.linalg.norm(head)
        assert cosines.max() > 0.6, name


def test_names_of_other_languages_have_heads_like_the_english_ones(heads):
    ours = heads.heads_of(["Hund", "gato", "海滩", "гора", "สุนัข"])
    theirs = heads.heads_of(["dog", "cat", "beach", "mountain", "dog"])
    ours /= np.linalg.norm(ours, axis=1, keepdims=True)
    theirs /= np.linalg.norm(theirs, axis=1, keepdims=True)
    cosines = ours @ theirs.T
    assert np.diag(cosines).min() > 0.8
    assert (np.diag(cosines)[:4] > (cosines[:4, :4] - np.eye(4)).max(axis=1) + 0.1).all()


def test_there_is_no_prior_for_other_vectors_or_without_names():
    assert name_prior(["dog"], WIDTH - 1) is None
    assert name_prior([], WIDTH) is None
    prior = name_prior(["dog", "cat"], WIDTH)
    assert prior is not None
    assert prior.coef.shape == (WIDTH, 2)
    assert prior.intercept.shape == (2,)


def test_concepts_that_speak_are_like_the_word_and_seen_in_the_image(heads, images):
    (spoken, nameless) = heads.spoken(images[:1], encode_names(["dog", "2019"]), 4)
    assert 0 < len(spoken) <= 4
    assert len({concept.name for concept in spoken}) == len(spoken)
    products = [concept.score * concept[2] for concept in spoken]
    assert products == sorted(products, reverse=True)
    assert all(concept.score > 0 and 0 < concept[2] <= 1.001 for concept in spoken)
    assert nameless == []


def test_a_file_holds_the_same_heads(heads, tmp_path):
    heads.save(tmp_path)
    again = ConceptHeads.load(tmp_path)
    assert heads.axes_digest == again.axes_digest  # computed on demand, not stored
    for name in [field.name for field in fields(heads)]:
        value = getattr(heads, name)
        np.testing.assert_array_equal(getattr(again, name), value)
        assert name == "names" or getattr(again, name).dtype == value.dtype


def test_rounding_is_half_a_step_at_most():
    rows = np.random.default_rng(0).standard_normal((20, 50)) * np.logspace(-3, 3, 20)[:, None]
    rows[3] = 0
    quantized, scale = concepts.quantize(rows)
    assert quantized.dtype == np.int8
    error = abs(quantized * scale[:, None] - rows)
    assert (error <= scale[:, None] * 0.501).all()
    assert not quantized[3].any()


def test_built_heads_give_the_scores_of_what_they_were_made_from():
    rng = np.random.default_rng(1)
    m, axes, count = 30, 12, 5
    names = ["dog", "cat", "beach", "mountain", "car"]
    dual = rng.standard_normal((count, axes))
    directions = rng.standard_normal((m, axes))
    mean, scale = rng.standard_normal(m), rng.uniform(0.5, 2, m)
    made = ConceptHeads.build(
        names=names,
        concept_of=np.arange(count),
        vectors=name_vectors(names),
        heads=dual,
        dual=dual,
        axes=directions,
        mean=mean,
        scale=scale,
    )
    X = rng.standard_normal((40, m)).astype(np.float32)
    vectors = name_vectors(names)
    kernel = np.exp(concepts.SHARPNESS * (vectors @ vectors.T - 1))
    expected = ((X - mean) / scale) @ directions @ (kernel @ dual).T
    found = concepts.name_scores(made.prior(names), X)
    assert abs(found - expected).max() < 0.03 * abs(expected).max()  # rounded to 8 bits
