"""Pages: which pictures are chosen, and what is said of them."""

from __future__ import annotations

import pytest

from history import undo_last
from prototag.errors import InputError, UnknownNameError


@pytest.fixture
def some(planted):
    planted.accept([1, 2, 3], ["animal|cat"])
    planted.accept([2, 3, 4], ["sofa"])
    planted.reject([5], ["sofa"])
    planted.mark_complete([4])
    with planted.store.write() as conn:
        conn.execute("INSERT INTO suggestions SELECT id, 6, 0.7, 1, -1 FROM tags WHERE name='sofa'")
        conn.execute("UPDATE files SET present = 0 WHERE picture = 1")
        conn.execute("UPDATE files SET search_name = 'summer/100%_ä.jpg' WHERE picture = 2")
    return planted


@pytest.mark.parametrize(
    ("choice", "numbers"),
    [
        ({}, [1, 2, 3, 4, 5, 6]),
        ({"tags": ["cat"]}, [1, 2, 3]),
        ({"tags": ["animal|cat", "SOFA"]}, [2, 3]),
        ({"tags": ["sofa"], "without": ["cat"]}, [4]),
        ({"without": ["cat", "sofa"]}, [5, 6]),
        ({"state": "tagged"}, [1, 2, 3, 4]),
        ({"state": "untagged"}, [5, 6]),
        ({"state": "suggested"}, [6]),
        ({"state": "missing"}, [1]),
        ({"state": "complete"}, [4]),
        ({"state": "decided"}, [1, 2, 3, 4, 5]),
        ({"text": "SUMMER"}, [2]),
        ({"text": "100%_Ä"}, [2]),
        ({"text": "0%_"}, [2]),
        ({"text": "%"}, [2]),
        ({"text": "sof"}, [2, 3, 4]),
        ({"text": "3.jpg"}, [3]),
        ({"tags": ["cat"], "state": "missing", "text": "1"}, [1]),
    ],
)
def test_pictures_are_chosen_by_all_that_is_asked_for(some, choice, numbers):
    assert some.pictures(**choice) == numbers
    assert some.count(**choice) == len(numbers)
    pages = []
    while page := some.pictures(limit=2, after=pages[-1] if pages else 0, **choice):
        pages += page
    assert pages == numbers


def test_folders(some, tmp_path):
    assert some.count(folder=tmp_path / "photos") == 5
    assert some.count(folder=tmp_path) == 5
    assert some.count(folder=tmp_path, state="missing") == 1
    assert some.count(folder=tmp_path / "photo") == 0
    assert some.count(folder=tmp_path / "photos" / "1.jpg") == 0


def test_facets_and_status(some, tmp_path):
    facets = some.facets()
    assert facets.tags == {"animal|cat": 3, "sofa": 3}
    assert facets.folders == {tmp_path / "photos": 5}
    assert facets.states == {
        "tagged": 4,
        "untagged": 2,
        "suggested": 1,
        "missing": 1,
        "complete": 1,
        "decided": 5,
    }
    status = some.status()
    assert (status.pictures, status.missing, status.tagged, status.tags) == (6, 1, 4, 2)
    assert (
        status.decisions,
        status.suggestions,
        status.unwritten,
        status.decisions_since_retrain,
    ) == (8, 1, 4, 8)
    undo_last(some)
    assert some.status().decisions == 7


def test_invalid_values_are_reported(some):
    with pytest.raises(InputError, match=r"no tag 'dgo'\."):
        some.pictures(tags=["dgo"])
    with pytest.raises(InputError, match="state='odd': give tagged, untagged"):
        some.pictures(state="odd")
    with pytest.raises(InputError, match="limit=0"):
        some.pictures(limit=0)
    with pytest.raises(InputError, match=r"no picture 99\."):
        some.picture(99)
    with pytest.raises(UnknownNameError, match=r"has no picture .*: Library\.scan\(\) reads new"):
        some.picture(__file__)
    with pytest.raises(UnknownNameError, match="has no picture"):
        some.picture(2**70)
    assert some.pictures(after=2**70) == []
    with pytest.raises(InputError, match="1000 tags to filter by: give at most 100"):
        some.pictures(tags=["cat"] * 500, without=["cat"] * 500)


def test_tags_are_renamed_joined_and_hidden(some):
    some.rename("cat", "animal|kitten")
    assert some.picture(1).tags == ["animal|kitten"]
    assert some.pictures(tags=["animal|cat"]) == [1, 2, 3]  # the old name is known
    assert [decision.tag for decision in some.history(1000)].count("animal|kitten") == 3
    some.rename("animal|kitten", "Sofa")
    assert [tag[:4] for tag in some.tags()] == [("sofa", 4, 4, 1)]
    some.hide("sofa")
    assert some.status().suggestions == 0
    assert some.tags()[0].hidden
    some.hide("sofa", False)
    assert not some.tags()[0].hidden
    assert some.tags(text="of") == some.tags()
    assert some.tags(text="cat") == []
