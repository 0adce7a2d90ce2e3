"""What pages are called."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def title(name: str) -> str:
    """The first heading of a file of the repository, which may stand below front matter."""
    path = ROOT / name
    found = re.search(r"^# (.+)", path.read_text("utf-8"), re.M) if path.is_file() else None
    return found[1] if found else name
