"""The tool that follows a command through the source files, and how many files that takes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Files that a command may pass through: what was measured, or the aim where that is larger. The
# aims are 25 and 40. A change that needs more files has to say why here; one that needs fewer
# lowers the number.
# train: one more since bursts and unknown pairs have a file of their own (tagging/task.py).
# annotate: one more since what a file says of a model is checked in tagging/model_io.py.
# train: one more since it asks whether it is given a folder of vectors (features/vector_folder.py).
# annotate: five more for the guard of databases, the layout of batches, the RBF kernel, the policy
# of writing tags and the validation of arguments, which have a file each, named after its subject.
# train: nine more for these and for near-duplicates, leave-one-out, ranking, correlation of tags
# and the estimates of memory of each package.
# train: six more since priors by the names of tags have a package (knowledge), data frames can be
# given, and the expected precision of tags is printed from its own type.
# train: two more since names are looked up in the lexicon (knowledge/lexicon.py) and those that
# cameras give are no words (metadata/generated_names.py).
# annotate: one more since options of the general vocabulary are shared by commands
# (cli/general_option.py).
MOST_FILES = {"annotate": 32, "train": 59}


@pytest.fixture(scope="module", params=MOST_FILES)
def found(request):
    done = subprocess.run(
        [sys.executable, "-m", "tools.trace", request.param, "--json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_files_are_listed_from_the_command_on(found):
    files = [row["file"] for row in found["files"]]
    assert len(files) == len(set(files)) == found["n_files"]
    assert files[0] == "cli/__init__.py"
    assert f"cli/{found['command']}.py" in files[:4]  # after shared options
    assert all((ROOT / "src" / "prototag" / file).is_file() for file in files)
    assert {"features/extractor.py", "images/decode.py"} <= set(files)  # also those of threads


def test_functions_count_and_imports_do_not(found):
    called = {row["file"]: row["functions"] for row in found["files"]}
    assert called[f"cli/{found['command']}.py"][0] == found["command"]
    assert "errors.py" not in called  # imported by all, and nothing in it is called
    assert all(called.values())


def test_changes_of_file_are_counted(found):
    assert found["n_turns_of_a_reader"] >= found["n_files"] - 1
    assert found["n_calls_into_another_file"] >= found["n_files"] - 1


def test_no_more_files_than_before(found):
    files = "\n".join(row["file"] for row in found["files"])
    assert found["n_files"] <= MOST_FILES[found["command"]], files
