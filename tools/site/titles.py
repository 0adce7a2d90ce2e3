"""What pages are called."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def title(name: str) -> str:
    """The first heading of a file of the repository, which may stand below front matter."""
    path = ROOT / name
    match = re.search(r"^# (.+)", path.read_text("utf-8"), re.M) if path.is_file() else None
    return match[1] if match else name
