"""What is said while vectors are computed."""

import pytest

from prototag.events import Event
from prototag.features import tally as module
from prototag.features.decoding import Picture
from prototag.features.tally import Tally


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still until it is moved."""
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    return now


def pictures(computed: int = 0, known: int = 0, failed: int = 0) -> list[Picture]:
    return [
        *(Picture(0, b"") for _ in range(computed)),
        *(Picture(0, b"", known=True) for _ in range(known)),
        *(Picture(0, b"", reason="is empty") for _ in range(failed)),
    ]


def test_it_tells_the_rate_the_cache_and_the_failures(clock) -> None:
    told: list[Event] = []
    tally = Tally(told.append, 2000)
    tally.count(pictures(known=1024))
    assert told[-1].message == "1,024 from the cache"
    assert told[-1].seconds_left is None  # nothing is known of the pace
    clock[0] += 4
    tally.count(pictures(computed=14, failed=2))
    assert told[-1].message == "3.5 pictures/s, 1,024 from the cache, 2 cannot be read"
    assert (told[-1].done, told[-1].total) == (1040, 2000)
    assert told[-1].seconds_left == pytest.approx(4 / 16 * 960)
    assert (tally.computed, tally.cached, tally.unreadable) == (14, 1024, 2)


def test_time_without_computing_does_not_slow_the_rate(clock) -> None:
    tally = Tally(None, 100)
    clock[0] += 2
    tally.count(pictures(computed=10))
    clock[0] += 50
    tally.count(pictures(known=60), free=False)  # thumbnails were made of them
    clock[0] += 2
    tally.count(pictures(computed=10))
    assert str(tally) == "5.0 pictures/s, 60 from the cache"


def test_thumbnails_of_known_pictures_foretell_the_rest(clock) -> None:
    told: list[Event] = []
    tally = Tally(told.append, 100)
    clock[0] += 5
    tally.count(pictures(known=50), free=False)
    assert told[-1].seconds_left == pytest.approx(5)


def test_nothing_to_say() -> None:
    assert str(Tally(None, 0)) == ""
