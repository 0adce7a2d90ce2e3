"""All commands together: what becomes of errors, and how they are told from bugs."""

from __future__ import annotations

import errno
import re

import pytest
import typer
from typer.main import get_command

from prototag.annotator.annotator import Annotator
from prototag.cli import GROUPS, program, terminal
from prototag.errors import InputError


def raising(monkeypatch, error):
    def broken(*_arguments, **_options):
        raise error

    monkeypatch.setattr(Annotator, "load", broken)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (InputError("the tag is unknown."), "prototag: the tag is unknown.\n"),
        (OSError(errno.ENOSPC, "No space", "a.jpg"), "prototag: a.jpg: No space.\n"),
        (MemoryError(), "prototag: there is not enough memory"),
    ],
)
def test_errors_that_a_person_can_fix_are_one_line(run, new, monkeypatch, error, words):
    raising(monkeypatch, error)
    result = run("explain", new[0], "-m", "a model")
    assert result.exit_code == 1
    assert result.stderr.startswith(words)
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("error", [ValueError("odd"), KeyError("odd"), IndexError("odd")])
def test_other_errors_are_reported_as_bugs(run, new, monkeypatch, error):
    raising(monkeypatch, error)
    result = run("explain", new[0], "-m", "a model")
    assert result.exit_code == 1
    first, second, *_ = result.stderr.splitlines()
    assert first == "prototag: this is a bug in prototag; please report it with the text below."
    assert second.startswith("Traceback")
    assert type(error).__name__ in result.stderr.splitlines()[-1]


@pytest.mark.parametrize("error", [ValueError("odd"), InputError("odd")])
def test_debug_raises_all_of_them(run, new, monkeypatch, error):
    raising(monkeypatch, error)
    with pytest.raises(type(error), match="odd"):
        run("--debug", "explain", new[0], "-m", "a model")


def test_a_command_line_that_makes_no_sense_is_answered_with_its_usage(run, model, new):
    for wrong in (["--by", "colour"], ["-n", "0"], ["--unheard-of"]):
        result = run("similar", new[0], "-m", model, *wrong)
        assert result.exit_code == 2
        assert "Usage" in result.stderr
        assert "bug" not in result.stderr


def test_no_threads_cannot_work(run, model, new):
    result = run("annotate", *new, "-m", model, "-j", 0)
    assert result.exit_code == 2
    assert "--jobs 0 means no thread" in result.stderr


@pytest.mark.parametrize("command", ["annotate -o", "explain --html", "evaluate --html"])
def test_outputs_that_cannot_be_written_are_refused_before_the_work(
    run, tmp_path, monkeypatch, command
):
    monkeypatch.chdir(tmp_path)
    name, option = command.split()
    for output, words in ((".", ". is a folder"), ("no/x", "the folder no does not exist")):
        result = run(name, "picture.jpg", "-m", "no model", option, output)
        assert result.exit_code == 2
        assert words in result.stderr


def test_counts_shares_and_kinds_in_words():
    assert [terminal.percent(share) for share in (0, 0.001, 0.834)] == ["0%", "<1%", "83%"]
    assert terminal.count(1, "tag") == "1 tag"
    assert terminal.count(1870, "picture") == "1,870 pictures"
    assert terminal.kinds("auto") == "auto"
    assert terminal.kinds("xmp, text") == ["xmp", "text"]


def test_messages_name_no_page_outside_the_installation():
    """Help texts and messages named pages below docs/: the wheel has none."""
    import ast
    from pathlib import Path

    import prototag

    named = []
    for file in sorted(Path(prototag.__file__).parent.rglob("*.py")):
        tree = ast.parse(file.read_text())
        documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        said_to_developers = {
            id(node.body[0].value)
            for node in ast.walk(tree)
            if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
        }
        named += [
            f"{file.name}:{node.lineno}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and "docs/" in node.value.removeprefix("/docs/")  # a path of the service
            and id(node) not in said_to_developers
        ]
    assert named == []


@pytest.mark.parametrize(
    ("given", "value"),
    [
        ("0.9", 0.9),
        ("90", 0.9),
        ("90%", 0.9),
        (" 62.5 % ", 0.625),
        ("1", 1),
        ("100", 1),
        ("0", 0),
        ("1%", 0.01),
        ("2", 0.02),
    ],
)
def test_shares_and_percentages_are_numbers(given, value):
    assert terminal.share(given) == pytest.approx(value)


@pytest.mark.parametrize("given", ["nan", "-1", "-0.1", "101", "1.5", "inf", "150%", "-5%"])
def test_what_is_no_share_is_refused(given):
    with pytest.raises(typer.BadParameter, match="neither a share from 0 to 1 nor a percentage"):
        terminal.share(given)
    with pytest.raises(typer.BadParameter, match="'half' is not a number: give a share or a perc"):
        terminal.share("half")


@pytest.mark.parametrize("option", ["--precision", "--min-probability"])
def test_options_take_shares_and_percentages(run, model, new, option):
    expected = run("annotate", *new, "-m", model, option, "0.8", "--json").stdout
    for same in ("80", "80%"):
        assert run("annotate", *new, "-m", model, option, same, "--json").stdout == expected
    refused = run("annotate", *new, "-m", model, option, "1.5")
    assert refused.exit_code == 2
    assert "neither a share" in refused.stderr
    bad = run("immich", "http://127.0.0.1:1", "--key-file", new[0], "--precision", "much")
    assert bad.exit_code == 2
    assert "'much' is not a number" in bad.stderr


def test_the_help_groups_the_commands_and_explains_the_two_ways(run):
    shown = run("--help").stdout
    places = [shown.index(f" {group} ") for group in GROUPS]
    assert places == sorted(places)
    for group, members in GROUPS.items():
        after = shown[shown.index(f" {group} ") :].partition("╰")[0]
        listed = re.findall(r"^│ (\w+) ", after, re.M)
        assert sorted(listed) == sorted(members)
    for way in ("With a model file: ", "With a library: "):
        assert way in shown


def test_every_command_with_results_prints_json():
    """Pages, servers and the tour print messages, and no results."""
    without = {"demo", "open", "serve", "paper"}
    command = get_command(program())
    for name, one in command.commands.items():
        for inner in getattr(one, "commands", {name: one}).values():
            flags = {flag for parameter in inner.params for flag in parameter.opts}
            assert ("--json" in flags) == (name not in without), (name, inner.name)
