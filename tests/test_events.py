"""Progress bars of rich and tqdm, drawn from the events of real operations."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

import tagged
from prototag import Annotator, FeatureExtractor
from prototag.errors import InputError
from prototag.events import Event, Meter, RichBar, notify, resolve_progress


@pytest.mark.parametrize("name", ["rich", "tqdm"])
def test_a_named_bar_shows_each_stage_to_its_end(name, tmp_path, capsys):
    files = tagged.collection(tmp_path, 8, start=100)
    annotator = Annotator.load(tagged.model(tmp_path), cache=None, progress=name)
    assert len(list(annotator.annotate(files))) == 8
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "Annotating" in shown.err
    assert "8/8" in shown.err
    assert "Computing vectors" not in shown.err
    FeatureExtractor(crops="fast", cache=None, progress=name).transform(files)
    shown = capsys.readouterr()
    assert "Computing vectors" in shown.err
    assert "8/8" in shown.err


@pytest.mark.parametrize("name", ["rich", "tqdm"])
def test_messages_and_abandoned_stages_end_their_bar(name, capsys):
    bar = resolve_progress(name)
    notify(bar, "Learning", "Learning [bold]3[/bold] tags ...")
    meter = Meter("First", 10, bar)
    meter.advance(4)
    Meter("Second", None, bar).advance(3)
    meter.advance(1, message="[red]again[/red]")
    bar.close()
    bar.close()  # without a bar nothing happens
    shown = capsys.readouterr().err
    assert "Learning [bold]3[/bold] tags ..." in shown
    assert all(stage in shown for stage in ("First", "Second"))
    assert re.search(r"5/10", shown)


def test_a_bar_that_is_left_open_gives_the_cursor_back_at_exit():
    code = (
        "import os, sys\n"
        "os.environ['FORCE_COLOR'] = '1'; os.environ['TERM'] = 'xterm'\n"
        "from prototag.events import Event, RichBar\n"
        "bar = RichBar(); bar(Event('Annotating', 3, 9)); print(file=sys.stderr)\n"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert answer.stderr.rfind("\x1b[?25h") > answer.stderr.rfind("\x1b[?25l") >= 0


def test_other_values_are_refused_and_callables_are_kept():
    assert resolve_progress(None) is None
    assert resolve_progress(print) is print
    with pytest.raises(
        InputError, match="progress='bar': give 'rich', 'tqdm', a callable, or None"
    ):
        Annotator(progress="bar")
    code = "import sys; sys.modules['tqdm'] = None; from prototag import Annotator\n"
    answer = subprocess.run(
        [sys.executable, "-c", code + "Annotator(progress='tqdm')"], capture_output=True, text=True
    )
    assert "tqdm is not installed. Run pip install tqdm" in answer.stderr


def test_annotating_counts_the_pictures(tmp_path):
    files = tagged.collection(tmp_path / "new", 5, start=100, listed=False)
    events: list[Event] = []
    annotator = Annotator.load(tagged.model(tmp_path), cache=None, progress=events.append)
    for images, total in (
        (files, 5),
        (tmp_path / "new", 5),
        (files[0], 1),
        ((file for file in files), None),
    ):
        events.clear()
        n = len(list(annotator.annotate(images)))
        assert [event.done for event in events] == [*range(1, n + 1)]
        assert {(event.stage, event.total) for event in events} == {("Annotating", total)}


def test_rich_is_imported_only_when_a_bar_is_drawn():
    code = (
        "import sys; from prototag.events import RichBar; RichBar(); print('rich' in sys.modules)"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == "False"
    assert callable(RichBar())
