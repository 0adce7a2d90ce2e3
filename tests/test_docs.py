"""Every example in README and docs runs, and the command reference is the commands."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import tagged
from prototag import Annotator
from prototag.research import datasets

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
# Commands that test or measure the project itself, and would never end here.
OUTSIDE = ("make ", "git ", ".venv/bin/python -m benchmarks", "python -m tools", "pip ")
# Where the blocks of a page are run: here by a test of its own, by a simple one, or elsewhere.
HERE = {
    "README.md", "tutorials/photos.md", "tutorials/library.md", "tutorials/research.md",
    "tutorials/embed.md", "how-to/library.md", "how-to/service.md", "how-to/clipart.md",
}  # fmt: skip
SIMPLE = ["index.md", "how-to/networks.md", "reference/command-line.md", "reference/api/coding.md"]
ELSEWHERE = {
    "how-to/datasets.md": "research/datasets/test_page.py",
    "how-to/reports.md": "report/pages/test_evaluation.py",
    **dict.fromkeys(
        [f"method/{name}.md" for name in ("deviations", "features", "neighbours", "rivals")],
        "test_architecture.py",
    ),
}
# Blocks that are not run, by how they begin.
NOT_RUN = {
    "prototag paper --quick": "takes minutes; cli/test_paper.py runs the command on less",
    "prototag paper iaprtc12": "its data cannot be shipped",
    '{"path": "2021/beach.jpg"': "a line of a file; annotator/test_vectors.py reads such lines",
    "# on every machine": "needs a cluster; cli/test_cluster.py",
    "from prototag import recommended\nfrom prototag.engine.dask": "the same; engine/test_dask.py",
    "dask scheduler": "the same",
    "dask ssh": "needs other machines",
    "helm install": "needs Kubernetes",
    "from dask_jobqueue": "needs Slurm",
    "# a model: tags of pictures\nprototag serve": "does not end; service/test_server.py",
    "pip install 'prototag[web]'\nprototag open": "does not end; service/test_server.py",
    "podman build": "needs podman and a network",
    "prototag immich": "needs Immich; service/test_immich.py plays it",
    "Models:": "PhotoPrism's configuration",
    "python -m venv export": "needs a network",
    "import json, sys\nimport torch": "needs torch and a network",
    "prototag train photos/ --network clip.onnx": "needs the file that was exported",
    "from prototag import Annotator\nfrom prototag.features.backbones": "the same",
    "page = explanation_page(": "a fragment; report/pages/test_explanation.py",
    "# the paper's experiments": "takes minutes to hours",
    "folder/images/0/0.jpg": "a tree of files",
    '{"file_name"': "lines of files",
    "files, bytes ->": "a drawing",
    "camera.png": "an output",
    "sum_i [": "mathematics",
    "|d . x": "mathematics",
}


def blocks(page: Path, *languages: str) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```", page.read_text(), re.S | re.M)
    return [text for language, text in found if not languages or language in languages]


def name_of(page: Path) -> str:
    return (
        (page.relative_to(DOCS) if page.is_relative_to(DOCS) else page)
        .as_posix()
        .replace(f"{ROOT.as_posix()}/", "")
    )


def test_every_block_is_run_or_has_a_reason_not_to_be():
    used = set()
    for page in PAGES:
        name = name_of(page)
        run = name in {*HERE, *SIMPLE, *ELSEWHERE}
        text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.S | re.M)
        assert not re.search(r"\n\n    (?!options:)\S", text), f"{name}: fence what is indented"
        for block in blocks(page):
            reasons = {start for start in NOT_RUN if block.startswith(start)}
            used |= reasons
            usage = name == "reference/command-line.md" and "[OPTIONS]" in block
            ours = block in blocks(page, "sh", "python") and run
            assert reasons or usage or ours, f"{name} has a block that nobody runs:\n{block}"
    assert used == {*NOT_RUN}, "reasons without a block"
    for name, place in ELSEWHERE.items():
        assert (DOCS / name).exists()
        assert Path(name).stem in (ROOT / "tests" / place).read_text()


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with tagged photos/ and new/ pictures, as the tutorials have them."""
    tagged.collection(tmp_path / "photos", 40)
    tagged.collection(tmp_path / "new", 3, start=100, listed=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def shell(text: str, place: Path) -> None:
    """Run a block, without what only a checkout or a network has."""
    assert not re.search(r"^prototag (open|serve)", text, re.M), "would never end"
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
    for text in blocks(DOCS / "tutorials" / "photos.md", "sh", "bash"):
        shell(text, place)
    for name in ("mine.prototag", "report.html", "why.html", "tags.csv", "tags.jsonl"):
        assert (place / name).exists()
    assert not list((place / "new").glob("*.xmp"))  # all was taken back


def test_the_library_tutorial_runs(place):
    page = DOCS / "tutorials" / "library.md"
    shell("\n".join(blocks(page, "sh")), place)
    assert (place / "said.jsonl").exists()
    assert (place / "photos" / "005.jpg.xmp").exists()
    python(page)


def test_the_research_tutorial_runs(place):
    python(DOCS / "tutorials" / "research.md")
    assert (place / "tuned.prototag").exists()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_the_embedding_tutorial_runs(place, capsys):
    python(DOCS / "tutorials" / "embed.md")
    assert "no such file.jpg failed" in capsys.readouterr().out
    assert (place / "mine.prototag").exists()


def test_the_page_of_the_library_runs(place):
    for text in blocks(DOCS / "how-to" / "library.md", "sh"):
        shell(text, place)
    assert (place / "mine.jsonl").exists()
    assert (place / "photos" / "001.jpg.xmp").exists()
    python(DOCS / "how-to" / "library.md")
    assert (place / "mine.library").exists()


def test_the_readme_runs(place):
    for text in blocks(ROOT / "README.md", "sh", "bash"):
        shell(text, place)
    assert (place / "mine.prototag").exists()


@pytest.mark.parametrize("name", SIMPLE)
def test_the_page_runs(name, place):
    for text in blocks(DOCS / name, "sh"):
        if not any(text.startswith(start) for start in NOT_RUN):
            shell(text, place)
    python(DOCS / name)


def test_the_page_of_the_clip_art_runs(monkeypatch):
    """With every twelfth drawing, as all of them take a minute."""
    whole = datasets.clipart()
    few = whole.keep(np.arange(0, len(whole.images), 12))
    monkeypatch.setattr(datasets, "clipart", lambda: few)
    python(DOCS / "how-to" / "clipart.md")


@pytest.mark.parametrize("name", ["command_reference", "http_reference"])
def test_the_reference_is_current(name):
    tool = import_module(f"tools.{name}")
    assert tool.TARGET.read_text() == tool.page(), f"run: python -m tools.{name}"


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
            text = (DOCS / "how-to" / "service.md").read_text()
            page.write_text(text.replace("127.0.0.1:8765", address))
            for text in blocks(page, "sh"):
                if shutil.which("curl") or "curl" not in text:
                    shell(text, place)
            python(page)
        finally:
            service.terminate()
        assert service.wait(30) == 0
    assert "'likeness'" in capsys.readouterr().out
