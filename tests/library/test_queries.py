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
        conn.execute("UPDATE files SET search_name = 'img_0006.jpg' WHERE picture = 6")
        rows = [
            (2, "2021-06-30T12:00:00", "Leica Q2", "Summicron", None, None),
            (5, "2020-02-01T09:00:00", "Leica M11", "Summicron", 59.9, 10.7),
            (6, None, None, None, -17.5, 179.5),
        ]
        conn.executemany("INSERT INTO captures VALUES (?, ?, ?, ?, ?, ?)", rows)
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
        ({"query": "SUMMER"}, [2]),
        ({"query": "100%_Ä"}, [2]),
        ({"query": "sof"}, [2, 3, 4]),
        ({"query": "ofa"}, []),
        ({"query": "3.jpg"}, [3]),
        ({"query": "cat or sofa"}, [1, 2, 3, 4]),
        ({"query": "sofa without cat"}, [4]),
        ({"query": "sofa -cat"}, [4]),
        ({"query": "cat the sofa"}, [2, 3]),
        ({"query": '"so"'}, []),
        ({"query": '"sofa"'}, [2, 3, 4]),
        ({"query": "tag:animal"}, [1, 2, 3]),
        ({"query": "-tag:animal -tag:sofa"}, [5, 6]),
        ({"query": "tag:ani"}, []),
        ({"query": "folder:summer"}, [2]),
        ({"query": "name:summer"}, []),
        ({"query": "is:complete or is:suggested"}, [4, 6]),
        ({"query": "leica"}, [2, 5]),
        ({"query": "camera:m11"}, [5]),
        ({"query": "lens:summicron -camera:m11"}, [2]),
        ({"query": "2021"}, [2]),
        ({"query": "date:2020..2021-06"}, [2, 5]),
        ({"query": "date:2021 or sofa", "without": ["cat"]}, [4]),
        ({"camera": "Leica Q2"}, [2]),
        ({"lens": "Summicron"}, [2, 5]),
        ({"date": "2020"}, [5]),
        ({"area": (59, 10, 60, 11)}, [5]),
        ({"area": (-90, 170, 90, -170)}, [6]),
        ({"tags": ["cat"], "state": "missing", "query": "1.jpg"}, [1]),
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


def test_names_that_cameras_give_are_no_words_but_are_found(some):
    assert some.pictures(query="img") == []
    assert some.pictures(query="IMG_0006") == [6]
    assert some.pictures(query="name:img") == [6]
    assert some.pictures(query="-img") == [1, 2, 3, 4, 5, 6]


def test_an_unknown_state_or_order_is_refused(some):
    with pytest.raises(InputError, match="is:tagged"):
        some.pictures(query="is:green")
    with pytest.raises(InputError, match="newest"):
        some.search(order="best first")
    with pytest.raises(InputError, match="like="):
        some.search(order="likeness")


@pytest.mark.parametrize(
    ("order", "numbers"),
    [
        ("added", [1, 2, 3, 4, 5, 6]),
        ("newest", [2, 5, 6, 4, 3, 1]),
        ("oldest", [5, 2, 1, 3, 4, 6]),
        ("name", [1, 2, 3, 4, 5, 6]),
        ("probability", [6, 1, 2, 3, 4, 5]),
    ],
)
def test_the_order_of_a_search(some, order, numbers):
    assert some.search(order=order).pictures == numbers
    assert some.search(order=order, limit=2).pictures == numbers[:2]
    among = some.search("sofa", order=order).pictures
    assert among == [one for one in numbers if one in (2, 3, 4)]


def test_a_picture_knows_its_exif(some):
    capture = some.picture(5).capture
    assert capture == ("2020-02-01T09:00:00", "Leica M11", "Summicron", 59.9, 10.7)
    assert some.picture(1).capture == (None, None, None, None, None)


def test_facets_count_within_the_filter(some):
    every = some.facets()
    assert every.pictures == 6
    assert every.tags == {"animal|cat": 3, "sofa": 3}
    assert every.cameras == {"Leica M11": 1, "Leica Q2": 1}
    assert every.months == {"2020-02": 1, "2021-06": 1}
    assert every.undated == 4
    assert {(one.latitude, one.longitude): one.pictures for one in every.places} == {
        (59.75, 10.75): 1,
        (-17.25, 179.75): 1,
    }
    few = some.facets(tags=["cat"], query="-is:missing")
    assert few.pictures == 2
    assert few.tags == {"animal|cat": 2, "sofa": 2}
    assert few.states == {
        "tagged": 2, "untagged": 0, "suggested": 0, "missing": 0, "complete": 0, "decided": 2
    }  # fmt: skip
    assert few.cameras == {"Leica Q2": 1}
    assert few.lenses == {"Summicron": 1}
    assert few.months == {"2021-06": 1}
    assert few.undated == 1
    assert sum(few.folders.values()) == 2
    assert few.places == []
    for choice in ({"tags": ["sofa"]}, {"query": "leica"}, {"date": "2021"}, {"state": "untagged"}):
        counts = some.facets(**choice)
        assert counts.pictures == some.count(**choice)
        for tag, size in counts.tags.items():
            assert size == len({*some.pictures(**choice)} & {*some.pictures(tags=[tag])})


def test_facets_of_words_that_nothing_has_count_what_is_ranked(some):
    assert some.facets(query="zebra is:complete").pictures == 1
    assert some.facets(query="sofa is:complete").pictures == 1
    assert some.facets(query="IMG_9999").pictures == 0


def test_saved_searches(some):
    assert some.saved_searches() == {}
    some.save_search("  Cats  here ", "text=cat")
    some.save_search("Dogs", "text=dog")
    some.save_search("Cats here", "text=cat&state=untagged")
    assert some.saved_searches() == {"Cats here": "text=cat&state=untagged", "Dogs": "text=dog"}
    some.delete_search("Dogs")
    with pytest.raises(UnknownNameError):
        some.delete_search("Dogs")
    for name in ("", " ", "x" * 101):
        with pytest.raises(InputError, match="1 to 100"):
            some.save_search(name, "")
    with pytest.raises(InputError, match="shorten"):
        some.save_search("long", "x" * 4001)
