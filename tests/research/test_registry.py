"""The registry: every entry can be built, names differ, and others derive from it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from prototag.research import baselines, registry
from prototag.research.registry import METHODS, Method, select


def test_names_and_kinds_differ():
    names = [method.name.lower() for method in METHODS]
    assert len(set(names)) == len(names)
    kinds = [entry.kind for entry in registry.baselines().values()]
    assert len(set(kinds)) == len(kinds)
    assert not set(kinds) & {"mcdl", "tagger", "annotator", "exemplars"}


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_an_entry_builds_its_estimator(method):
    model = method.build(n_jobs=2, random_state=7, **method.test_options)
    given = model.get_params(deep=False)
    assert given["n_jobs"] == 2
    assert given.get("random_state", 7) == 7
    for name, value in {**method.options, **method.test_options}.items():
        assert given[name] == value
    assert method.test_options  # with its own settings, tests of manners stay quick


def test_what_an_annotator_does_not_have_is_refused():
    with pytest.raises(ValueError, match="Invalid parameter 'colour'"):
        select(["kNN"])[0].build(colour="red")


def test_entries_are_found_by_name_in_any_case():
    assert [method.name for method in select(["KNN", "protoTAG"])] == ["kNN", "ProtoTag"]
    assert select(None) == list(METHODS)
    with pytest.raises(ValueError, match="unknown method luck: select from ProtoTag; "):
        select(["luck"])


def test_the_package_exports_the_baselines_of_the_registry():
    assert baselines.__all__ == sorted(registry.baselines())
    assert dir(baselines) == baselines.__all__
    for name in baselines.__all__:
        found = getattr(baselines, name)
        assert found.__name__ == name
        assert registry.baseline_of_kind(found.kind) is found
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        baselines.Nonsense  # noqa: B018
    assert registry.baseline_of_kind("nonsense") is None


def test_an_import_path_may_name_a_class_method():
    made = Method("x", "prototag.mcdl.estimator:MCDL.udl", "MCDL", {"init_iter": 3}).build()
    assert (made.init_iter, made.max_iter) == (3, 0)


def test_classes_are_imported_when_they_are_used():
    code = "import sys, prototag.research.baselines; print('sklearn' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
