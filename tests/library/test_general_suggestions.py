"""Words without labels: general suggestions, new tags that are ranked by name, and search."""

from __future__ import annotations

import numpy as np
import pytest

from library.conftest import RECIPE, plant
from prototag.errors import InputError
from prototag.knowledge import words
from prototag.knowledge.concepts import WIDTH, embedded, name_prior, name_scores
from prototag.library.concept_index import ConceptIndex
from prototag.library.general_suggestions import MIN_PROBABILITY
from prototag.library.library import Library

PICTURES = 120
BEACH, DOG = range(1, 21), range(21, 41)  # numbers of pictures


def vectors(pictures=PICTURES):
    """Default vectors of photographs that look like the words, by the concept heads themselves."""
    rng = np.random.default_rng(0)
    heads = embedded()
    coordinates = rng.normal(0, 1, (pictures, heads.axes.shape[1]))
    for name, numbers in (("beach", BEACH), ("dog", DOG)):
        head = heads.heads_of([name])[0]
        rows = [number - 1 for number in numbers]
        coordinates[rows] += 5 * head / (head @ head)
    axes = heads.axes.astype(np.float32) * heads.axis_scale
    return (heads.mean + heads.scale * (coordinates @ axes.T)).astype(np.float32)


@pytest.fixture(scope="module")
def X():
    return vectors()


@pytest.fixture
def library(tmp_path, X):
    plant(tmp_path / "new.library", PICTURES, vectors=X)
    with Library(tmp_path / "new.library", cache=None, n_jobs=1) as made:
        made.store.set_setting("recipe", RECIPE.hex())
        yield made


def test_scores_of_stored_coordinates_are_those_of_vectors(library, X):
    names = ["beach", "dog", "church", "Schnee"]
    exact = name_scores(name_prior(names, WIDTH), X)
    coordinates = library.trainer.concept_index.coordinates()
    assert coordinates.pictures.tolist() == [*range(1, PICTURES + 1)]
    scores = coordinates.scores(embedded().heads_of(names))
    for column in range(len(names)):
        assert np.corrcoef(exact[:, column], scores[:, column])[0, 1] > 0.999
    heads, offset = coordinates.standardized(embedded().heads_of(names))
    standardized = coordinates.scores(heads) + offset
    np.testing.assert_allclose(standardized.mean(axis=0), 0, atol=1e-3)
    assert (standardized.std(axis=0) <= 1.001).all()
    again = ConceptIndex(library.store, library.extractor).coordinates()  # from the file
    np.testing.assert_array_equal(again.quantized, coordinates.quantized)
    np.testing.assert_array_equal(again.scale, coordinates.scale)


def test_coordinates_follow_new_and_removed_pictures(library, X):
    index = library.trainer.concept_index
    assert len(index.coordinates().pictures) == PICTURES
    with library.store.write() as conn:
        conn.execute("DELETE FROM pictures WHERE id = 3")
        conn.execute("INSERT INTO pictures (id, digest, added_at) VALUES (500, x'00', 0)")
        conn.execute(
            "INSERT INTO vectors VALUES (500, ?, ?, x'00')", (RECIPE, X[0].astype("<f4").tobytes())
        )
        stored = conn.execute("SELECT count(*) FROM concept_coordinates").fetchone()
    assert stored == (PICTURES - 1,)
    coordinates = index.coordinates()
    assert coordinates.pictures.tolist() == [1, 2, *range(4, PICTURES + 1), 500]
    np.testing.assert_array_equal(coordinates.quantized[-1], coordinates.quantized[0])
    index.release()
    np.testing.assert_array_equal(index.coordinates().quantized, coordinates.quantized)


@pytest.mark.parametrize("name", ["beach", "Strand", "plage", "nature|beach"])
def test_a_name_ranks_pictures_before_the_first_example(library, name):
    found = library.suggest(name, limit=20)
    assert len({one.picture for one in found} & {*BEACH}) >= 18
    assert all(one.tag == name for one in found)
    shares = [one.probability for one in found]
    assert shares == sorted(shares, reverse=True)
    assert not library.tags()  # asking creates no tag


def test_a_decision_makes_the_name_a_tag_and_both_rank(library):
    before = library.suggest("Strand", limit=PICTURES)
    library.accept([before[0].picture, before[1].picture], ["Strand"])
    library.decide([(PICTURES, "Strand", "rejected")])
    (view,) = library.tags()
    assert (view.name, view.accepted, view.rejected) == ("Strand", 2, 1)
    found = library.suggest("Strand", limit=PICTURES)
    assert len(found) == PICTURES - 3
    assert len({one.picture for one in found[:18]} & {*BEACH}) >= 16
    assert library.cold_start_estimate("Strand") is not None
    library.rename("Strand", "xyzzy 12")  # two examples alone, by a name that says little
    other = library.suggest("xyzzy 12", limit=PICTURES)
    assert [one.picture for one in other] != [one.picture for one in found]


def test_a_name_without_words_is_refused(library):
    with pytest.raises(InputError, match="no tag"):
        library.suggest("2019")
    batch = library.review_batch("2019")
    assert not batch.cells


def test_general_words_in_the_language_that_is_asked_for(library):
    counts = {one.word: one.pictures for one in library.general_words()}
    assert counts["beach"] >= 15
    assert counts["dog"] >= 15
    assert {one.word for one in library.general_words("de")} >= {"Strand", "Hund"}
    library.set_setting("language", "fr")
    assert "plage" in {one.word for one in library.general_words("de")}


def test_general_suggestions_of_a_picture_and_of_all(library):
    own = library.general_suggestions(BEACH[0], limit=100)
    assert "beach" in {one.tag for one in own}
    assert all(one.picture == BEACH[0] and one.probability >= MIN_PROBABILITY for one in own)
    every = library.general_suggestions(limit=10)
    n_words = len(library.general_words())
    assert len({one.tag for one in every[:n_words]}) == n_words  # before any word comes twice
    skipped = library.general_suggestions(limit=10, skip=[every[0].picture])
    assert every[0].picture not in {one.picture for one in skipped}


def test_a_yes_makes_a_tag_a_no_is_remembered_and_nothing_else_is_a_label(library):
    first, second = BEACH[0], BEACH[1]
    assert library.review_batch(queue="general_words").threshold == 1
    library.decide(
        [(first, "beach", "accepted"), (second, "beach", "rejected")], new=True, by="person"
    )
    for picture in (first, second):
        assert "beach" not in {one.tag for one in library.general_suggestions(picture, limit=100)}
    assert "beach" in {one.tag for one in library.general_suggestions(BEACH[2], limit=100)}
    assert library.picture(first).tags == ["beach"]
    assert library.picture(second).rejected == ["beach"]
    labels = library.store.labels()
    assert len(labels.pictures) == 2
    with library.store.read() as conn:
        assert conn.execute("SELECT count(*) FROM suggestions").fetchone() == (0,)
    library.hide("beach", True)
    assert "beach" not in {one.word for one in library.general_words()}
    library.mark_complete([DOG[0]])
    assert not library.general_suggestions(DOG[0])


def test_search_ranks_by_words_after_matches_of_tags_and_paths(library):
    found = library.search("beach", limit=20)
    assert found.n_matches == 0
    assert len({*found.pictures} & {*BEACH}) >= 18
    both = library.search("a dog on the beach", limit=40)
    assert len({*both.pictures} & {*BEACH, *DOG}) >= 34
    library.accept([100], ["my beach"])
    library.accept([101], ["beaches 2019"])
    library.accept([102], ["unbeachable"])
    found = library.search("Beach", limit=20)
    assert found.pictures[: found.n_matches] == [100, 101]
    assert len(set(found.pictures)) == 20
    assert library.search("beach my", limit=3).pictures[0] == 100
    assert library.search("110.jpg", limit=2).pictures[0] == 110
    assert library.search("beach", limit=1).pictures == [100]
    untagged = library.search("beach", limit=20, state="untagged")
    assert untagged.n_matches == 0
    assert not {*untagged.pictures} & {100, 101, 102}
    assert library.search("  ").pictures == library.pictures()
    assert library.search("IMG_2041").pictures == []  # no word that pictures could look like
    phrase = library.search('"beach"', limit=20)
    assert phrase.pictures == [100]
    newest = library.search("beach", limit=20, ranked=5, order="added")
    assert newest.pictures == sorted(newest.pictures)
    assert len(newest.pictures) == 7
    either = library.search("beach or dog", limit=60, ranked=60).pictures[2:42]
    assert len({*either} & {*BEACH, *DOG}) >= 34
    less = library.search("beach -dog", limit=200, ranked=200).pictures
    assert [*less].index(BEACH[0]) < min(map([*less].index, DOG))


def test_likeness_ranks_by_how_pictures_look(library):
    found = library.search(like=BEACH[0], limit=20)
    assert found.pictures[0] == BEACH[0]
    assert len({*found.pictures} & {*BEACH}) >= 18
    library.accept([BEACH[1], DOG[0]], ["mine"])
    assert library.search(like=BEACH[0], tags=["mine"]).pictures == [BEACH[1], DOG[0]]
    with pytest.raises(InputError, match="no picture"):
        library.search(like=10**9)


def test_other_vectors_know_no_words(tmp_path):
    plant(tmp_path / "other.library", 6)
    with Library(tmp_path / "other.library", cache=None) as library:
        assert not library.knows_words
        assert not library.general_words()
        assert not library.general_suggestions()
        with pytest.raises(InputError, match="no tag"):
            library.suggest("beach")
        assert library.search("beach").pictures == []
        library.accept([2], ["beach"])
        assert library.search("beach").pictures == [2]


def test_the_encoder_is_kept_only_on_request():
    words.keep_encoder()
    try:
        words.encode_phrases(["a phrase that no other test encodes"])
        assert words._encoder._loaded is not None
        words.release_encoder()
        assert words._encoder._loaded is None
    finally:
        words.keep_encoder(False)
    words.encode_phrases(["another phrase that no other test encodes"])
    assert words._encoder._loaded is None
