"""The list of materials says which version it is of."""

from __future__ import annotations

import json

import pytest
from tools.name_sbom import with_root_version


def listed(**root: str) -> str:
    return json.dumps({"metadata": {"component": {"name": "prototag", **root}}, "components": []})


def test_the_root_gets_its_version_and_address():
    root = json.loads(with_root_version(listed(), "1.2"))["metadata"]["component"]
    assert root == {"name": "prototag", "version": "1.2", "purl": "pkg:pypi/prototag@1.2"}
    assert with_root_version(with_root_version(listed(), "1.2"), "1.2") == with_root_version(
        listed(), "1.2"
    )


def test_a_list_of_another_version_is_refused():
    with pytest.raises(SystemExit, match=r"the list is of version 1\.1, the package is 1\.2"):
        with_root_version(listed(version="1.1"), "1.2")
