"""The progress line appears on terminals only; what is said in words appears everywhere."""

import io
from pathlib import Path

from prototag.cli import terminal
from prototag.events import Event, Meter


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_nothing_is_drawn_where_nobody_looks() -> None:
    stream = io.StringIO()
    with terminal.progress(stream) as progress:
        progress(Event("Reading", 3, 3))
    assert stream.getvalue() == ""


def test_messages_are_printed_without_a_terminal() -> None:
    stream = io.StringIO()
    with terminal.progress(stream) as progress:
        progress(Event("Learning", 0, message="Learning 5 tags from 40 pictures ..."))
        progress(Event("Learning", 0))
    assert stream.getvalue() == "Learning 5 tags from 40 pictures ...\n"


def test_a_terminal_gets_one_line_for_each_stage() -> None:
    stream = Terminal()
    with terminal.progress(stream) as progress:
        progress(Event("Reading", 2, 2))
        progress(Event("Learning", 1, 1, message="done"))
    first, second, rest = stream.getvalue().split("\n")
    assert first.startswith("\r\x1b[KReading")
    assert "2 of 2" in first
    assert second.startswith("\r\x1b[KLearning")
    assert second.endswith("1 of 1, done")
    assert rest == ""


def test_contents_of_a_progress_line() -> None:
    said = terminal.drawn_line(Event("Reading", 4000, 10_000, 6000.0, "7 skipped"))
    assert said == "Reading [#########...............] 4,000 of 10,000, 1:40:00 left, 7 skipped"
    assert terminal.drawn_line(Event("Reading", 30)) == "Reading 30 done"
    assert terminal.clock(59.6) == "1:00"


def test_a_meter_foretells_by_what_took_time(monkeypatch) -> None:
    told: list[Event] = []
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    meter = Meter("Reading", 10, told.append)
    meter.advance(4, instant=4)
    assert told[-1].seconds_left is None
    now[0] += 6.0
    meter.advance(2)
    assert told[-1] == Event("Reading", 6, 10, 12.0)
    meter.show("one cannot be read")
    assert told[-1].done == 6
    assert told[-1].message == "one cannot be read"


def test_time_left_is_foretold_by_whole_batches(monkeypatch) -> None:
    """Vectors of many pictures are computed before the first of them is told."""
    from itertools import islice
    from types import SimpleNamespace

    from prototag.annotator.types import Annotation
    from prototag.cli import annotate

    now, told = [0.0], []
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    monkeypatch.setattr("sys.stderr", Terminal())
    monkeypatch.setattr(terminal.Line, "__call__", lambda _, event: told.append(event))

    def answers(_choice, paths):
        while chunk := list(islice(paths, 50)):
            now[0] += 10.0
            yield from (Annotation(path, []) for path in chunk)

    run = annotate._Run(SimpleNamespace(annotate_with=answers, engine=None), None, "")
    run.process([Path(f"{n}.jpg") for n in range(500)], lambda _: None)
    assert {event.seconds_left for event in told if 50 <= event.done <= 100} == {90.0, 80.0}
    assert told[-1].done == told[-1].total == 500
