"""Every example in README and docs runs, and the command reference is the commands."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import tagged
from prototag import Annotator
from prototag.cli import demo
from prototag.research.datasets import clipart
from tools import tutorial_output

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
# Commands that test or measure the project itself.
OUTSIDE = (
    "make ",
    "git ",
    ".venv/bin/python -m benchmarks",
    "python -m tools",
    "pip ",
)
# Where the blocks of a page are run: here by a test of its own, by a simple one, or elsewhere.
HERE = {
    "README.md", "guide/quickstart.md", "guide/what-it-knows.md", "integrate/python.md",
    "integrate/http.md",
    "integrate/library.md", "research/estimators.md",
}  # fmt: skip
SIMPLE = ["index.md", "reference/networks.md", "reference/command-line.md"]
SIMPLE += ["reference/api/estimators.md"]
ELSEWHERE = {
    "research/datasets.md": "research/datasets/test_page.py",
    **dict.fromkeys(
        [f"method/{name}.md" for name in ("deviations", "features", "baselines")],
        "test_architecture.py",
    ),
}
# Blocks that are not run, by their first characters.
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
    "prototag open photos/": "does not end; service/test_server.py",
    "prototag demo\nprototag open": "does not end; service/test_server.py",
    "prototag find dog on a beach": "needs photographs; cli/test_words.py runs queries",
    "git clone": "needs a network",
    "pipx install": "tools/try_pythons.py runs pipx and uvx",
    "cp integrations/desktop": "writes to the home folder; cli/test_open.py validates the entry",
    "prototag annotate new/ -m mine.prototag --min": "options that cli/test_annotate.py runs",
    "podman build": "needs podman and a network",
    "prototag immich": "needs Immich; service/test_immich.py plays it",
    "Models:": "PhotoPrism's configuration",
    "mkdir -p ~/.config/darktable": "with_programs/test_darktable.py runs the script in darktable",
    "prototag annotate ~/Pictures/album": "with_programs/test_readers.py",
    "cp $INPUT $OUTPUT": "with_programs/test_readers.py",
    "prototag annotate photos/ -m mine.prototag --embed --write": "with_programs/test_readers.py",
    "exiftool ": "with_programs/test_readers.py",
    "python -m venv export": "needs a network",
    "import json, sys\nimport torch": "needs torch and a network",
    "prototag train photos/ --network clip.onnx": "needs the file that was exported",
    "from prototag import Annotator\nfrom prototag.features.backbones": "the same",
    "# the paper's experiments": "takes minutes to hours",
    "folder/images/0/0.jpg": "a tree of files",
    '{"file_name"': "lines of files",
    "files, bytes ->": "a drawing",
    "sum_i [": "mathematics",
    "|d . x": "mathematics",
}
# Pages whose `text` blocks behind `sh` and `python` blocks are outputs
# (`python -m tools.tutorial_output`).
WITH_OUTPUT = (
    "README.md", "guide/quickstart.md", "guide/what-it-knows.md", "integrate/python.md",
    "integrate/http.md",
    "integrate/library.md", "research/estimators.md",
)  # fmt: skip


def blocks(page: Path, *languages: str) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```", page.read_text(), re.S | re.M)
    return [text for language, text in found if not languages or language in languages]


def outputs(page: Path) -> list[str]:
    """Return the `text` blocks that directly follow commands or examples."""
    text = page.read_text()
    return [block[3] for block in tutorial_output.BLOCK.finditer(text) if block[3] is not None]


def words(text: str) -> set[str]:
    return set(re.findall(r"[a-z]{2,}", text.lower()))


def check_output(page: Path, printed: list[str]) -> None:
    """Compare the outputs in a page with those of a run: the words of its messages and tables.

    The run trains on fewer drawings, so numbers, drawings and tags differ, and a message may lack
    a clause: the same block must print half of the words, and the page three quarters.
    """
    shown = [output for _, _, output in tutorial_output.BLOCK.findall(page.read_text())]
    assert len(shown) == len(printed)
    known = words(" ".join(clipart().tags))
    everywhere = words(" ".join(printed))
    for expected, text in zip(shown, printed, strict=True):
        messages = re.sub(r"\S*(?:[/…]|\.webp)\S*", "", expected)  # without paths
        numbers = [line for line in messages.splitlines() if line.strip().isdigit()]
        assert not numbers or re.search(r"^\s*\d+$", text, re.M), f"{page.name} shows {numbers}"
        asked = words(messages) - known
        missing = asked - words(text)
        wrong = f"{page.name} shows {sorted(missing)}, not printed:\n{expected}\n{text}"
        assert len(missing) <= len(asked) / 2, wrong
        assert len(missing - everywhere) <= len(asked) / 4, wrong


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
        assert not re.search(r"\n\n    (?!options:|\|)\S", text), f"{name}: fence what is indented"
        for block in blocks(page):
            reasons = {start for start in NOT_RUN if block.startswith(start)}
            used |= reasons
            usage = name == "reference/command-line.md" and "[OPTIONS]" in block
            ours = block in blocks(page, "sh", "python") and run
            ours = ours or (name in WITH_OUTPUT and block in outputs(page))
            assert reasons or usage or ours, f"{name} has a block that nobody runs:\n{block}"
    assert used == {*NOT_RUN}, "reasons without a block"
    for name, place in ELSEWHERE.items():
        assert (DOCS / name).exists()
        assert Path(name).stem in (ROOT / "tests" / place).read_text()


@pytest.mark.parametrize("name", WITH_OUTPUT)
def test_outputs_are_those_of_the_commands(name):
    page = ROOT / name if name == "README.md" else DOCS / name
    shown = outputs(page)
    assert shown
    for output in shown:
        assert words(output), f"{name} has an output without words: run tools.tutorial_output"


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with tagged photos/ and new/ pictures, as the tutorials have them."""
    tagged.collection(tmp_path / "photos", 40)
    tagged.collection(tmp_path / "new", 3, start=100, listed=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def shell(text: str, place: Path) -> str:
    """Run a block, without what only a checkout or a network has, and return what it prints."""
    assert not re.search(r"^prototag (open|serve)", text, re.M), "would never end"
    lines = [line for line in text.splitlines() if not line.startswith(OUTSIDE)]
    return tutorial_output.run("\n".join(lines), place)


def run_page(page: Path, place: Path) -> list[str]:
    """Run the blocks of a page in their order, and return what each prints."""
    names: dict[str, object] = {"__name__": "__example__"}
    printed = []
    for language, text, _ in tutorial_output.BLOCK.findall(page.read_text()):
        if language == "sh":
            printed.append(shell(text, place))
        else:
            printed.append(tutorial_output.interpreted(text, names, place))
    return printed


@pytest.fixture(scope="session")
def drawings(tmp_path_factory):
    """A part of what `prototag demo` unpacks: every sixth drawing and those that pages name."""
    folder = tmp_path_factory.mktemp("demo")
    text = " ".join(page.read_text() for page in PAGES)
    named = set(re.findall(r"[\w/.-]+\.webp", text))
    for part in ("train", "test"):
        target = demo.unpacked(folder / "prototag-demo", part)
        lines = (target / "metadata.jsonl").read_text().splitlines()
        kept = []
        for number, line in enumerate(lines):
            name = json.loads(line)["file_name"]
            if number % 6 == 0 or any(one.endswith(name) for one in named):
                kept.append(line)
            else:
                (target / name).unlink()
        (target / "metadata.jsonl").write_text("".join(f"{line}\n" for line in kept))
    return folder


@pytest.fixture
def sample(drawings, tmp_path, monkeypatch):
    """A folder with prototag-demo/; vectors are shared by all tests that use it."""
    shutil.copytree(drawings / "prototag-demo", tmp_path / "prototag-demo")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PROTOTAG_CACHE", str(drawings / "cache.sqlite"))
    return tmp_path


def test_the_quickstart_runs(sample):
    page = DOCS / "guide" / "quickstart.md"
    check_output(page, run_page(page, sample))
    for name in ("mine.prototag", "report.html", "why.html", "strict.csv", "top.csv"):
        assert (sample / name).exists()
    assert not list((sample / "prototag-demo").rglob("*.xmp"))  # all tags were removed again


def test_the_page_of_the_general_vocabulary_runs(sample, monkeypatch):
    monkeypatch.delenv("PROTOTAG_MODEL", raising=False)
    page = DOCS / "guide" / "what-it-knows.md"
    check_output(page, run_page(page, sample))


def test_the_page_of_the_library_runs(sample):
    page = DOCS / "integrate" / "library.md"
    check_output(page, run_page(page, sample))
    assert (sample / "decisions.jsonl").exists()
    assert list((sample / "prototag-demo" / "train").rglob("*.xmp"))


def test_the_research_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = DOCS / "research" / "estimators.md"
    printed = run_page(page, tmp_path)
    check_output(page, printed)
    assert (tmp_path / "tuned.prototag").exists()
    for name in ("report.html", "experiment.html", "figure.svg"):
        assert (tmp_path / name).stat().st_size > 1000
    assert "| 2,000 | 41.7 |" in printed[-1]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_the_page_of_python_runs(sample):
    page = DOCS / "integrate" / "python.md"
    check_output(page, run_page(page, sample))
    assert (sample / "mine.prototag").exists()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of jupyter_client itself
def test_the_notebook_runs(sample):
    """Every cell runs, and prints and shows what the committed outputs have."""
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    committed = nbformat.read(DOCS / "integrate" / "notebook.ipynb", as_version=4)
    assert "/tmp" not in json.dumps(committed)
    notebook = nbformat.from_dict(committed)
    resources = {"metadata": {"path": str(sample)}}
    nbclient.NotebookClient(notebook, timeout=300, resources=resources).execute()
    for before, cell in zip(committed.cells, notebook.cells, strict=True):
        if cell.cell_type == "code":
            assert _kinds(cell) == _kinds(before) != [], cell.source
    shown = [data for cell in notebook.cells for data in _data(cell)]
    pages = [data["text/html"] for data in shown if "text/html" in data]
    assert sum("data:image/webp" in page for page in pages) == 3  # two pictures, an explanation


def _data(cell) -> list[dict[str, str]]:
    return [output.get("data", {}) for output in cell.get("outputs", ())]


def _kinds(cell) -> list[list[str]]:
    return [sorted(data) for data in _data(cell)]


def test_the_readme_runs(sample):
    page = ROOT / "README.md"
    check_output(page, run_page(page, sample))
    assert (sample / "mine.prototag").exists()


@pytest.mark.parametrize("name", SIMPLE)
def test_the_page_runs(name, place):
    run_page(DOCS / name, place)


@pytest.mark.parametrize("name", ["command_reference", "http_reference"])
def test_the_reference_is_current(name):
    tool = import_module(f"tools.{name}")
    assert tool.TARGET.read_text() == tool.page(), f"run: python -m tools.{name}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        if not target.startswith(("http://", "https://")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.skipif(shutil.which("curl") is None, reason="the page calls curl")
def test_the_page_of_http_runs(sample):
    annotator = Annotator(n_jobs=1, crops="fast").fit("prototag-demo/train")
    annotator.save("mine.prototag")
    command = [sys.executable, "-m", "prototag", "serve", "mine.prototag"]
    command += ["--allow", "prototag-demo/test", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as service:
        try:
            assert service.stderr is not None
            address = service.stderr.readline().partition("http://")[2].split("/")[0]
            page = sample / "http.md"
            text = (DOCS / "integrate" / "http.md").read_text()
            page.write_text(text.replace("127.0.0.1:8765", address))
            printed = run_page(page, sample)
        finally:
            service.terminate()
        assert service.wait(30) == 0
    check_output(page, printed)
