"""Every example in README and docs runs, and the command reference is the commands."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tagged
from prototag import Annotator
from prototag.research.datasets import planted

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
# Commands that test or measure the project itself, and would never end here.
OUTSIDE = ("make ", "git ", ".venv/bin/python -m benchmarks", "python -m tools", "pip ")


def blocks(page: Path, *languages: str) -> list[str]:
    found = re.findall(r"^```(\w+)\n(.*?)^```", page.read_text(), re.S | re.M)
    return [text for language, text in found if language in languages]


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with tagged photos/ and new/ pictures, as the tutorials have them."""
    tagged.collection(tmp_path / "photos", 40)
    tagged.collection(tmp_path / "new", 3, start=100, listed=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def shell(text: str, place: Path) -> None:
    lines = [line for line in text.splitlines() if not line.startswith(OUTSIDE)]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "\n".join(lines)],
        cwd=place,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"{text}\n{done.stderr}"


def python(page: Path, **names: object) -> None:
    names["__name__"] = "__example__"
    for text in blocks(page, "python"):
        exec(compile(text, f"{page.name}", "exec"), names)


def test_the_photo_tutorial_runs(place):
    for text in blocks(ROOT / "docs" / "tutorial-photos.md", "sh", "bash"):
        shell(text, place)
    for name in ("mine.prototag", "report.html", "why.html", "tags.csv", "tags.jsonl"):
        assert (place / name).exists()
    assert not list((place / "new").glob("*.xmp"))  # all was taken back


def test_the_library_tutorial_runs(place):
    page = ROOT / "docs" / "tutorial-library.md"
    shell("\n".join(blocks(page, "sh")), place)
    assert (place / "said.jsonl").exists()
    assert (place / "photos" / "005.jpg.xmp").exists()
    python(page)


def test_the_research_tutorial_runs(place):
    python(ROOT / "docs" / "tutorial-research.md")
    assert (place / "tuned.prototag").exists()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_the_embedding_tutorial_runs(place, capsys):
    python(ROOT / "docs" / "tutorial-embed.md")
    assert "no such file.jpg failed" in capsys.readouterr().out
    assert (place / "mine.prototag").exists()


def test_the_page_of_the_library_runs(place):
    for text in blocks(ROOT / "docs" / "library.md", "sh"):
        shell(text, place)
    assert (place / "mine.jsonl").exists()
    assert (place / "photos" / "001.jpg.xmp").exists()
    python(ROOT / "docs" / "library.md")
    assert (place / "mine.library").exists()


def test_the_readme_runs(place):
    for name, picture in zip(
        ("one.jpg", "two.jpg"), sorted((place / "new").iterdir()), strict=False
    ):
        picture.rename(place / "new" / name)
    data = planted(n=60, t=5, k=15, m=24, random_state=0)
    python(ROOT / "README.md", X=data.X[:40], Y=data.Y[:40], X_new=data.X[40:], prototypes=data.X)
    for text in blocks(ROOT / "README.md", "sh", "bash"):
        shell(text, place)
    assert (place / "mine.prototag").exists()


def test_the_command_reference_is_current():
    from tools.command_reference import TARGET, page

    assert TARGET.read_text() == page(), "run: python -m tools.command_reference"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        if not target.startswith(("http://", "https://")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_service_page_runs(place, capsys):
    annotator = Annotator(n_jobs=1, crops="fast").fit("photos")
    annotator.save("mine.prototag")
    command = [sys.executable, "-m", "prototag", "serve", "mine.prototag", "--allow", "new"]
    with subprocess.Popen([*command, "--port", "0"], stderr=subprocess.PIPE, text=True) as service:
        try:
            assert service.stderr is not None
            address = service.stderr.readline().partition("http://")[2].split("/")[0]
            page = place / "service.md"
            text = (ROOT / "docs" / "service.md").read_text()
            page.write_text(text.replace("127.0.0.1:8765", address))
            for text in blocks(page, "sh"):
                if shutil.which("curl") or "curl" not in text:
                    shell(text, place)
            python(page)
        finally:
            service.terminate()
        assert service.wait(30) == 0
    assert "'likeness'" in capsys.readouterr().out
