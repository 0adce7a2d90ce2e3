"""Programs see the types of the package: mypy and pyright check a client of an installed copy."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import venv
from importlib.util import find_spec
from pathlib import Path

import pytest

import prototag

ROOT = Path(__file__).parents[1]
CLIENT = ROOT / "tests" / "typed_client" / "client.py"


@pytest.fixture(scope="module")
def python(tmp_path_factory) -> Path:
    """An environment that has the package as pip installs it, and the packages of this one.

    Type checkers do not follow the import hook of an editable install.
    """
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    installed = folder / "installed"
    installed.mkdir()
    (installed / "prototag").symlink_to(ROOT / "src" / "prototag")
    packages = next(path for path in sys.path if path.endswith("site-packages"))
    (site / "packages.pth").write_text(f"{installed}\n{packages}\n")
    return folder / "bin" / "python"


def check(command: list[str], client: Path) -> str:
    """Return the output of a type checker that must not fail for another reason."""
    done = subprocess.run(
        [*command, str(client)],
        capture_output=True,
        text=True,
        cwd=client.parent,
        env={**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"},
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


def mypy(python: Path, client: Path, cache: Path) -> list[str]:
    """Return the errors that mypy finds in a client."""
    module = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--config-file="]
    module += ["--python-executable", str(python), "--cache-dir", str(cache)]
    return check(module, client).splitlines()


def pyright(python: Path, client: Path) -> list[str]:
    """Return the errors that pyright finds in a client."""
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", str(python)]
    report = json.loads(check(command, client))
    found = [one for one in report["generalDiagnostics"] if one["severity"] == "error"]
    return [f"{one['range']['start']['line'] + 1}: {one['message']}" for one in found]


@pytest.fixture
def wrong(tmp_path) -> Path:
    """A client with one mistake in each of its last lines."""
    path = tmp_path / "wrong.py"
    path.write_text(
        "from prototag import Annotator, FeatureExtractor\n"
        "a = Annotator(crops=5)\n"
        "a.annotate('a.jpg', precision='high')\n"
        "b: int = a.estimate().precision\n"
        "FeatureExtractor(progress='bar')\n"
    )
    return path


def test_mypy_accepts_the_client_and_sees_mistakes(python, wrong, tmp_path):
    assert mypy(python, CLIENT, tmp_path / "cache") == []
    errors = mypy(python, wrong, tmp_path / "cache")
    assert [error.split(":")[1] for error in errors if ": error:" in error] == ["2", "3", "4", "5"]


@pytest.mark.skipif(find_spec("pyright") is None, reason="needs pyright, of the group lint")
def test_pyright_accepts_the_client_and_sees_mistakes(python, wrong):
    assert pyright(python, CLIENT) == []
    assert [error.split(":")[0] for error in pyright(python, wrong)] == ["2", "3", "4", "5"]


def test_without_the_marker_the_types_would_not_count(python, wrong, tmp_path):
    """``py.typed`` makes the difference, so that the tests above cannot pass without it."""
    installed = python.parents[1] / "installed"
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "prototag").mkdir()
    for path in (ROOT / "src" / "prototag").iterdir():
        if path.name != "py.typed":
            (copy / "prototag" / path.name).symlink_to(path)
    pth = next(python.parents[1].glob("lib/python*/site-packages/packages.pth"))
    kept = pth.read_text()
    pth.write_text(kept.replace(str(installed), str(copy)))
    try:
        errors = mypy(python, wrong, tmp_path / "cache")
    finally:
        pth.write_text(kept)
    assert any("py.typed marker" in error for error in errors)


def test_type_checkers_see_the_lazy_names():
    tree = ast.parse(Path(prototag.__file__).read_text())
    imported = {
        name.asname or name.name: f"{node.module}.{name.name}"
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }
    assert imported == {
        name: f"prototag.{module}.{name}" for name, module in prototag._MODULES.items()
    }
