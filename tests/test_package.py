"""What a release is made of: one version, licences of all inside, a workflow, completion."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import prototag
from prototag import cli
from tools import check_version

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
WORKFLOW = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())
STEPS = [step for job in WORKFLOW["jobs"].values() for step in job["steps"]]


def test_the_version_stands_in_one_place():
    assert "version" in PROJECT["project"]["dynamic"]
    assert PROJECT["tool"]["scikit-build"]["metadata"]["version"]["input"].endswith("__init__.py")
    assert check_version.version() == prototag.__version__
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert str(cited["version"]) == prototag.__version__


def test_a_tag_must_name_the_version():
    check_version.check(f"v{prototag.__version__}")
    with pytest.raises(SystemExit, match=r"the tag is v9, the version 1\.0: tag v1\.0"):
        check_version.check("v9", "1.0")


def test_every_file_that_is_not_ours_is_in_the_notice():
    notice = (ROOT / "NOTICE").read_text()
    source = ROOT / "src" / "prototag"
    foreign = [
        p for p in source.rglob("*") if p.suffix in (".onnx", ".1", ".zip", ".woff2", ".npz")
    ]
    assert len(foreign) >= 6
    for path in foreign:
        assert path.name in notice
    for name in ("nanobind", "robin_map"):
        assert re.search(rf"^{name} \(compiled into", notice, re.M)


def test_notice_and_licences_name_each_other():
    named = set(re.findall(r"LICENSES/([\w.-]+\.txt)", (ROOT / "NOTICE").read_text()))
    assert named == {path.name for path in (ROOT / "LICENSES").iterdir()}
    assert PROJECT["project"]["license-files"] == ["LICENSE", "NOTICE", "LICENSES/*"]


def test_the_licences_are_those_of_the_nanobind_that_is_compiled_in():
    nanobind = pytest.importorskip("nanobind")
    header = Path(nanobind.include_dir()).parent / "ext/robin_map/include/tsl/robin_map.h"
    lines = [line.strip().removeprefix("*").strip() for line in header.read_text().splitlines()]
    kept = (ROOT / "LICENSES" / "robin_map-MIT.txt").read_text()
    assert all(line.strip() in lines for line in kept.splitlines())


def test_nothing_is_published_without_a_tag():
    events = WORKFLOW[True]  # YAML 1.1 reads `on` as true
    assert set(events) == {"push", "workflow_dispatch"}
    assert events["push"] == {"tags": ["v*"]}
    assert WORKFLOW["permissions"] == {"contents": "read"}
    for name, job in WORKFLOW["jobs"].items():
        if job.get("permissions", {}).get("contents") == "write":
            assert job["if"] == "github.ref_type == 'tag'", name
    assert not [step for step in STEPS if "pypi" in str(step).lower() or "twine" in str(step)]


def test_wheels_are_built_for_all_systems_and_tried():
    systems = {one["name"] for one in WORKFLOW["jobs"]["wheels"]["strategy"]["matrix"]["include"]}
    assert systems == {
        "linux-x86_64",
        "linux-aarch64",
        "macos-x86_64",
        "macos-arm64",
        "windows-amd64",
    }
    settings = PROJECT["tool"]["cibuildwheel"]
    script = re.search(r"\{project\}/(\S+)", settings["test-command"])
    assert script is not None
    assert (ROOT / script[1]).exists()
    assert settings["test-extras"] == ["web"]


def test_what_the_workflow_calls_exists():
    makefile = (ROOT / "Makefile").read_text()
    text = "\n".join(step.get("run", "") for step in STEPS)
    for target in re.findall(r"\bmake ([\w-]+)", text):
        assert f"\n{target}:" in makefile
    for module in re.findall(r"-m tools\.(\w+)", text):
        assert (ROOT / "tools" / f"{module}.py").exists()
    assert "cyclonedx-py" in text


def test_the_container_is_not_root_and_opens_nothing():
    lines = (ROOT / "Containerfile").read_text().splitlines()
    users = [number for number, line in enumerate(lines) if line.startswith("USER ")]
    entry = lines.index('ENTRYPOINT ["prototag", "serve"]')
    assert users
    assert users[-1] < entry
    assert not [line for line in lines if line.startswith(("EXPOSE", "CMD")) and "--host" in line]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_shown_for_each_shell(shell):
    off = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    shown = _run({**off}, "--show-completion", shell)
    assert "_PROTOTAG_COMPLETE" in shown


@pytest.mark.parametrize(
    ("typed", "offered"),
    [("prototag ann", {"annotate"}), ("prototag annotate --write-", {"--write-xmp"})],
)
def test_commands_and_options_are_completed(typed, offered):
    words = {"COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split()) - 1)}
    found = _run({"_PROTOTAG_COMPLETE": "complete_bash", **words})
    assert set(found.split()) == offered


def test_all_commands_are_offered():
    words = {"COMP_WORDS": "prototag ", "COMP_CWORD": "1"}
    found = _run({"_PROTOTAG_COMPLETE": "complete_bash", **words})
    assert set(found.split()) == set(cli.COMMANDS)


def _run(variables: dict[str, str], *words: str) -> str:
    done = subprocess.run(
        [Path(sys.executable).with_name("prototag"), *words],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout
