"""Gives the root of a list of materials the version that pyproject.toml leaves to the package.

    python -m tools.name_sbom dist/prototag.cdx.json

cyclonedx-py reads the name from pyproject.toml, where the version is dynamic: a list without it
does not say which release it is of.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tools.check_version import version


def named(text: str, own: str) -> str:
    """The list with the version of its root, and with the address by which indexes know it."""
    listed = json.loads(text)
    root = listed["metadata"]["component"]
    if root.get("version", own) != own:
        raise SystemExit(f"the list is of version {root['version']}, the package is {own}.")
    root |= {"version": own, "purl": f"pkg:pypi/{root['name']}@{own}"}
    return json.dumps(listed, indent=2, sort_keys=True) + "\n"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(named(path.read_text("utf-8"), version()), "utf-8")
