"""Set the version of the root component of an SBOM, which pyproject.toml takes from the package.

    python -m tools.name_sbom dist/prototag.cdx.json

cyclonedx-py reads the name from pyproject.toml, where the version is dynamic: a list without it
does not say which release it is of.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tools.check_version import version


def with_root_version(text: str, own: str) -> str:
    """Return the SBOM with the version and the package URL of its root."""
    listed = json.loads(text)
    root = listed["metadata"]["component"]
    if root.get("version", own) != own:
        raise SystemExit(f"the list is of version {root['version']}, the package is {own}.")
    root |= {"version": own, "purl": f"pkg:pypi/{root['name']}@{own}"}
    return json.dumps(listed, indent=2, sort_keys=True) + "\n"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(with_root_version(path.read_text("utf-8"), version()), "utf-8")
