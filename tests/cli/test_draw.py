"""The progress line appears on terminals only, and foretells by what had to be computed."""

import io

from prototag.cli.draw import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_nothing_is_drawn_where_nobody_looks() -> None:
    stream = io.StringIO()
    with Progress(3, stream=stream) as progress:
        progress.advance(3)
    assert stream.getvalue() == ""


def test_a_terminal_gets_one_line_that_is_redrawn() -> None:
    stream = Terminal()
    with Progress(2, stream=stream) as progress:
        progress.advance(2)
    assert stream.getvalue().startswith("\r")
    assert "2 of 2" in stream.getvalue()
    assert stream.getvalue().endswith("\n")


def test_rate_and_time_left_leave_the_cache_out() -> None:
    progress = Progress(10_000, show=False)
    progress.advance(4000, cached=3500, skipped=7)
    line = progress.line(50.0)
    assert "4,000 of 10,000" in line
    assert "10.0 images/s" in line
    assert "10:00 left" in line
    assert "3,500 from the cache" in line
    assert "7 skipped" in line
    assert "1:40:00" in line_of(rate=1.0, left=6000)


def line_of(rate: float, left: int) -> str:
    progress = Progress(left + 10, show=False)
    progress.advance(10)
    return progress.line(10 / rate)


def test_before_anything_is_computed_no_time_is_foretold() -> None:
    assert "left" not in Progress(5, show=False).line(0.0)


def test_without_a_total_there_is_a_count_and_a_rate() -> None:
    progress = Progress(None, show=False)
    progress.advance(30)
    assert progress.line(10) == "30 done, 3.0 images/s"
