"""Work ahead stays in order, stays bounded, and stops when its reader stops."""

import threading
import time

import pytest

from prototag.engine.threads import ahead


@pytest.mark.parametrize("workers", [0, 1, 4])
def test_results_come_in_order(workers: int) -> None:
    def slow(number: int) -> int:
        time.sleep(0.002 * (number % 3))
        return number * number

    assert list(ahead(slow, range(30), workers=workers, window=7)) == [n * n for n in range(30)]


def test_no_more_than_the_window_is_under_way() -> None:
    taken = 0

    def items():
        nonlocal taken
        for number in range(100):
            taken = number + 1
            yield number

    for count, _ in enumerate(ahead(lambda number: number, items(), workers=2, window=5), 1):
        assert taken - count <= 5


def test_a_reader_that_stops_stops_the_work() -> None:
    started = []
    stream = ahead(
        lambda n: started.append(n) or time.sleep(0.01), range(1000), workers=2, window=10
    )
    next(stream)
    stream.close()
    assert len(started) < 20
    assert not [t for t in threading.enumerate() if t.name.startswith("prototag-ahead")]


def test_errors_reach_the_reader() -> None:
    with pytest.raises(ZeroDivisionError):
        list(ahead(lambda number: 1 // number, [1, 0, 2], workers=2, window=2))
