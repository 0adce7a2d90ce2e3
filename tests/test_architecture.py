"""What the pages say of the code is so: names, rooms, the walks, the arrays of model files."""

from __future__ import annotations

import re
import sys
import threading
import tomllib
from functools import reduce
from importlib import import_module
from pathlib import Path
from types import FrameType

import pytest

import prototag
import tagged
from prototag.cli import main

ROOT = Path(__file__).parents[1]
SOURCE = Path(prototag.__file__).parent
DOCS = ROOT / "docs"
PAGE = (DOCS / "architecture.md").read_text()
METHOD = (DOCS / "method" / "equations.md").read_text()
DOTTED = re.compile(r"`([a-z_]\w*(?:\.\w+)+)`")
OUTSIDE = {"__init__", "__main__"}  # no rooms


def rooms_of_the_tree() -> set[str]:
    found = {path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()}
    return found | {path.stem for path in SOURCE.glob("*.py")} - OUTSIDE


def rooms_of_the_contract() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    layers = project["tool"]["importlinter"]["contracts"][0]["layers"]
    return [room for layer in layers for room in layer.split(" | ") if room not in OUTSIDE]


def section(title: str) -> str:
    found = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", PAGE, re.S | re.M)
    assert found, f"no section {title!r}"
    return found[1]


def first_column(text: str) -> list[str]:
    return re.findall(r"^\| `([^`]+)` \|", text, re.M)


def is_module(path: Path) -> bool:
    return path.is_dir() or path.with_suffix(".py").exists()


def resolve(name: str) -> object:
    """What a dotted name below ``prototag`` stands for."""
    parts = name.removeprefix("prototag.").split(".")
    deep = max(n for n in range(len(parts) + 1) if is_module(SOURCE.joinpath(*parts[:n])))
    return reduce(getattr, parts[deep:], import_module(".".join(["prototag", *parts[:deep]])))


def test_the_list_of_rooms_is_the_tree_in_the_order_of_the_contract():
    rooms = first_column(section("Packages"))
    assert set(rooms) == rooms_of_the_tree()
    assert rooms == rooms_of_the_contract()


@pytest.mark.parametrize("name", sorted(set(DOTTED.findall(PAGE + METHOD))))
def test_every_dotted_name_exists(name):
    if not (ROOT / name).exists():
        resolve(name)


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: page.name)
def test_full_names_and_files_on_other_pages_exist(page):
    text = page.read_text()
    for name in re.findall(r"`(prototag(?:\.\w+)+)", text):
        if name != "prototag.xmp" and not name.endswith(".prototag"):
            resolve(name)
    for file in re.findall(r"`((?:tests|kernels|src|tools|benchmarks)/[\w./]+)`", text):
        assert (ROOT / file).exists(), file


@pytest.mark.parametrize("page", ["deviations", "features", "baselines"])
def test_examples_that_no_tutorial_has_run(page, tmp_path, monkeypatch, capsys):
    names = {"paths": tagged.collection(tmp_path, 12, listed=False)}
    monkeypatch.chdir(tmp_path)
    code = re.findall(
        r"^```python\n(.*?)^```", (DOCS / "method" / f"{page}.md").read_text(), re.S | re.M
    )
    assert code
    for text in code:
        exec(compile(text, f"docs/method/{page}.md", "exec"), names)
    capsys.readouterr()


class Recorder:
    """Functions of ours by the thread that called them first, in the order of their calls."""

    def __init__(self) -> None:
        self.threads: dict[str, list[str]] = {}
        self.seen: set[str] = set()

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        path = Path(frame.f_code.co_filename)
        if event != "call" or not path.is_relative_to(SOURCE):
            return
        parts = path.relative_to(SOURCE).with_suffix("").parts
        module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        name = f"{module}.{frame.f_code.co_qualname}"
        if name not in self.seen:
            self.seen.add(name)
            self.threads.setdefault(threading.current_thread().name, []).append(name)


def walk(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Recorder:
    """Run a command of the command line, and remember what it called."""
    recorder = Recorder()
    monkeypatch.setattr(sys, "argv", ["prototag", *arguments])
    threading.setprofile(recorder)
    sys.setprofile(recorder)
    try:
        with pytest.raises(SystemExit) as ended:
            main()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    assert not ended.value.code
    return recorder


def assert_walked(title: str, recorder: Recorder) -> None:
    told = first_column(section(title))
    assert len(told) > 20
    assert [name for name in told if name not in recorder.seen] == []
    for names in recorder.threads.values():  # threads go on side by side; each has its order
        assert [name for name in told if name in names] == [n for n in names if n in told]


def test_the_walk_of_a_request_is_made(tmp_path):
    from starlette.testclient import TestClient

    from prototag.service.app import create_app

    tagged.collection(tmp_path, 1, listed=False)
    recorder = Recorder()
    threading.setprofile(recorder)
    try:
        app = create_app(annotator=tagged.annotator(), roots=[tmp_path])
        with TestClient(app, base_url="http://127.0.0.1") as client:
            assert client.post("/api/v1/annotate", json={"path": "000.jpg"}).status_code == 200
    finally:
        threading.setprofile(None)
    told = first_column(section("A request to its answer"))
    assert len(told) == 10
    assert [name for name in told if name not in recorder.seen] == []


def test_the_walks_are_made_in_this_order(tmp_path, monkeypatch, capsys):
    tagged.collection(tmp_path / "photos", 40)
    tagged.collection(tmp_path, 1, start=100, listed=False)
    monkeypatch.chdir(tmp_path)
    train = walk(monkeypatch, "train", "photos", "--jobs", "1")
    annotate = walk(monkeypatch, "annotate", "100.jpg", "--write-xmp", "--jobs", "1")
    capsys.readouterr()
    assert (tmp_path / "100.jpg.xmp").exists()
    assert_walked("A folder to its model", train)
    assert_walked("A picture to its sidecar", annotate)
