"""Names of files and tags with markup, terminal escapes, right-to-left marks and formulas.

Output of commands must not contain escape codes, spreadsheet formulas or markup from names.
"""

from __future__ import annotations

import csv
import io
import json
import random
import shutil
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from benchmarks.attack.runner import Attempt, Limits
from prototag import Annotator

LIMITS = Limits(seconds=60.0, grown=900 << 20, room=8 << 30)
HOSTILE = (
    "\x1b[2J\x1b]0;owned\x07",
    "=HYPERLINK(1)",
    "+1+cmd|' /C calc'!A0",
    "-2+3",
    "@SUM(1)",
    "<script>alert(1)<!--script>",
    "<img src=x onerror=alert(1)>",
    "‮gpj.exe",
    "⁦x⁩",
    "a\rb\nc",
    "\x9b31m",
    '"; rm -rf ~',
    "'quoted'",
    "a,b;c\td",
    "{{7*7}}",
    "\U000e0041",
    "%s%n",
    "a|b|c",
    "\x85\u2028",
)
FORMULA = ("=", "+", "-", "@", "\t", "\r")


def _commands(rng: random.Random, folder: Path, picture: Path) -> list[str]:
    model = ["-m", str(folder / "model.prototag"), "--cache", str(folder / "cache.sqlite")]
    pictures = str(folder / "pictures")
    return rng.choice(
        (
            ["annotate", pictures, *model, "--top", "4"],
            ["annotate", pictures, *model, "--top", "4", "--csv"],
            ["annotate", pictures, *model, "--top", "4", "--json"],
            ["annotate", pictures, *model, "--top", "4", "--dry-run", "--write-xmp"],
            ["annotate", pictures, *model, "--top", "4", "--write-xmp", "--diff", "--dry-run"],
            ["annotate", pictures, *model, "--top", "4", "-o", str(folder / "out.csv")],
            ["explain", str(picture), *model, "--html", str(folder / "out.html")],
            ["similar", str(picture), *model],
            ["inspect", *model[:2]],
            ["untag", pictures, "--dry-run"],
        )
    )


def _check_text(text: str) -> None:
    for character in text:
        kind = unicodedata.category(character)
        allowed = character in "\n\t" or kind not in ("Cc", "Cf", "Zl", "Zp")
        assert allowed, f"{character!r} was printed"


def _check_csv(text: str) -> None:
    for row in csv.reader(io.StringIO(text)):
        for cell in row:
            try:
                float(cell)
            except ValueError:
                assert not cell.startswith(FORMULA), f"a formula: {cell!r}"


def prepare(folder: Path) -> Attempt:
    from typer.testing import CliRunner

    from prototag.cli import program

    rng = np.random.default_rng(0)
    arrays = [rng.integers(0, 255, (24, 24, 3), np.uint8) for _ in range(4 * len(HOSTILE))]
    tags = [[HOSTILE[n % len(HOSTILE)], HOSTILE[n // 4]] for n in range(len(arrays))]
    learned = Annotator(crops="fast", cache=None, min_pictures=2).fit(arrays, tags)
    learned.save(folder / "model.prototag")
    pictures = folder / "pictures"

    def attempt(chance: random.Random, _: Path) -> str:
        shutil.rmtree(pictures, ignore_errors=True)
        pictures.mkdir()
        named = []
        for number in range(3):
            name = chance.choice(HOSTILE).replace("/", "") + f"{number}.jpg"
            named.append(pictures / name)
            Image.fromarray(arrays[number]).save(named[-1])
        command = _commands(chance, folder, named[0])
        result: Any = CliRunner().invoke(program(), command)
        error = result.exception
        if error is not None and not isinstance(error, SystemExit):
            raise error
        assert "Traceback" not in result.stderr, result.stderr.strip().splitlines()[-1]
        _check_text(result.stderr)
        if "--json" in command:
            for line in result.stdout.splitlines():
                json.loads(line)
            assert "\x1b" not in result.stdout, "an escape was printed"
        elif "--csv" in command:
            _check_csv(result.stdout)
        else:
            _check_text(result.stdout)
        for output_name, check in (("out.csv", _check_csv), ("out.html", _check_page)):
            path = folder / output_name
            if path.exists():
                check(path.read_text())
                path.unlink()
        return f"{command[0]}: {'refused' if result.exit_code else 'sound'}"

    return attempt


def _check_page(text: str) -> None:
    assert "<script>alert" not in text, "a script of a name"
    assert "<img src=x" not in text, "markup of a name"
