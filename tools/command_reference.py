"""Generate docs/reference/command-line.md from the commands.

    python -m tools.command_reference

A test compares the page with what this gives.
"""

from __future__ import annotations

import re
import textwrap
from typing import Any

from typer.main import get_command

from prototag.cli import EPILOG, GROUPS, HELP, program
from tools.site.titles import ROOT, title

TARGET = ROOT / "docs" / "reference" / "command-line.md"
PAGE = re.compile(r"\bdocs/([\w/-]+\.md)")
HEAD = """# The command line

Generated from the commands by `python -m tools.command_reference`; `prototag COMMAND --help` says
the same.

"""
STREAMS = """
## What goes where

Results go to standard output: tables on a terminal, tab-separated lines when piped, JSON with
`--json`. Messages and progress go to standard error, so that results can be piped; progress is
drawn on terminals only. An error that you can fix is one line. Any other error is a bug in prototag
and is printed with its traceback; `prototag --debug COMMAND ...` shows the traceback of any error.
"""


def page() -> str:
    """Return the page."""
    commands = _all(get_command(program()))
    parts = [HEAD, _introduction(), _epilog()]
    for group, members in GROUPS.items():
        parts += [f"\n| {group} | |\n|---|---|\n"]
        for name, command in commands.items():
            if name.split()[0] in members:
                first = _text(command.help).split(". ")[0].rstrip(".")
                parts += [f"| [`{name}`](#prototag-{name.replace(' ', '-')}) | {first} |\n"]
    parts += [STREAMS]
    parts += [_command(name, command) for name, command in commands.items()]
    return "".join(parts)


def _introduction() -> str:
    """Return the help of the program, with consecutive examples in one block."""
    text = re.sub(r"\n\n(?=    )", "\n", HELP.strip())
    return re.sub(r"(?:^    .*\n?)+", _example, text + "\n\n", flags=re.M)


def _example(lines: re.Match[str]) -> str:
    text = textwrap.dedent(lines[0]).rstrip()
    language = "text" if text.startswith("prototag open") else "sh"  # a service, which does not end
    return f"\n```{language}\n{text}\n```\n"


def _epilog() -> str:
    """Return a table of exit codes and a list of defaults."""
    codes, places = re.split(r"(?<=half-written)\. ", _text(EPILOG))
    rows = [code.partition(" ") for code in codes.removeprefix("Exit codes: ").split("; ")]
    table = "".join(f"| {number} | {words} |\n" for number, _, words in rows)
    marked = re.sub(r"(?<!\S)(-[a-z]|\$\w+|\w+\.(?:prototag|library))\b", r"`\1`", places)
    listed = "".join(f"- {place}\n" for place in re.split(r"(?<=\.) (?=[A-Z])", marked))
    return f"{listed}\n| exit code | meaning |\n|---|---|\n{table}"


def _all(group: Any, above: str = "") -> dict[str, Any]:
    """Return commands by name; those of a group by group and name."""
    commands: dict[str, Any] = {}
    for name, command in group.commands.items():
        inner = _all(command, f"{above}{name} ") if hasattr(command, "commands") else {}
        commands |= inner or {above + name: command}
    return commands


def _command(name: str, command: Any) -> str:
    shown = [param for param in command.params if not getattr(param, "hidden", False)]
    arguments = [param for param in shown if param.param_type_name == "argument"]
    options = [param for param in shown if param.param_type_name == "option"]
    usage = " ".join([f"prototag {name}", *(_placeholder(one) for one in arguments)])
    paragraphs = [_text(part) for part in re.split(r"\n\s*\n", command.help)]
    rows = [f"| `{_placeholder(one)}` | {_described(one)} |\n" for one in arguments]
    rows += [f"| {_names(one)} | {_described(one)} |\n" for one in options]
    return (
        f"\n## prototag {name}\n\n```text\n{usage} [OPTIONS]\n```\n\n"
        + "\n\n".join(paragraphs)
        + "\n\n| | |\n|---|---|\n"
        + "".join(rows)
    )


def _text(words: str) -> str:
    return " ".join(words.split())


def _placeholder(argument: Any) -> str:
    name = argument.metavar or argument.name.upper()
    return name if argument.required or name.startswith("[") else f"[{name}]"


def _names(option: Any) -> str:
    names = ", ".join(f"`{name}`" for name in [*option.opts, *option.secondary_opts])
    return names if option.is_flag else f"{names} {_kind(option)}"


def _kind(option: Any) -> str:
    if option.metavar:
        words = str(option.metavar).split("|")
        return " / ".join(f"`{word}`" if word.islower() else word for word in words)
    choices = getattr(option.type, "choices", None)
    if choices:
        return " / ".join(f"`{one}`" for one in choices)
    name = option.type.name.upper().removesuffix(" RANGE")
    return {"STR": "TEXT", "INT": "NUMBER", "FLOAT": "NUMBER"}.get(name, name)


def _described(param: Any) -> str:
    words = [_text(param.help or "")]
    default = param.default
    if default is not None and default != () and not getattr(param, "is_flag", False):
        words.append(f"Default: `{default() if callable(default) else default}`.")
    if getattr(param, "envvar", None):
        words.append(f"Also `${param.envvar}`.")
    text = " ".join(words).replace("|", "\\|")
    return PAGE.sub(lambda page: f"[{title(page[0])}](../{page[1]})", text)


if __name__ == "__main__":
    TARGET.write_text(page(), encoding="utf-8")
