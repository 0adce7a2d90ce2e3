"""Fail unless a Git tag names the version of the package.

python -m tools.check_version v0.1.0
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "prototag" / "__init__.py"


def version(source: Path = SOURCE) -> str:
    """Return ``__version__`` without importing the package, which may not be built yet."""
    match = re.search(r'^__version__ = "(.+)"$', source.read_text("utf-8"), re.M)
    if match is None:
        raise SystemExit(f"{source} names no __version__.")
    return match[1]


def check(tag: str, own: str | None = None) -> None:
    """Compare the versions; a mismatch is an error that says what to do."""
    own = version() if own is None else own
    if tag != f"v{own}":
        raise SystemExit(f"the tag is {tag}, the version {own}: tag v{own}, or change __version__.")


if __name__ == "__main__":
    check(sys.argv[1])
