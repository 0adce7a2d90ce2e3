"""The registry: every entry can be built, names differ, and others derive from it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from prototag.research import baselines, registry
from prototag.research.registry import CONTENDERS, Contender, named


def test_names_and_kinds_differ():
    names = [contender.name.lower() for contender in CONTENDERS]
    assert len(set(names)) == len(names)
    kinds = [entry.kind for entry in registry.rivals().values()]
    assert len(set(kinds)) == len(kinds)
    assert not set(kinds) & {"mcdl", "tagger", "annotator", "exemplars"}


@pytest.mark.parametrize("contender", CONTENDERS, ids=lambda contender: contender.name)
def test_an_entry_is_built_as_it_says(contender):
    model = contender.build(n_jobs=2, random_state=7, **contender.small)
    given = model.get_params(deep=False)
    assert given["n_jobs"] == 2
    assert given.get("random_state", 7) == 7
    for name, value in {**contender.options, **contender.small}.items():
        assert given[name] == value
    assert contender.small  # with its own settings, tests of manners stay quick


def test_what_an_annotator_does_not_have_is_refused():
    with pytest.raises(ValueError, match="Invalid parameter 'colour'"):
        named(["kNN"])[0].build(colour="red")


def test_entries_are_found_by_name_in_any_case():
    assert [contender.name for contender in named(["KNN", "protoTAG"])] == ["kNN", "ProtoTag"]
    assert named(None) == list(CONTENDERS)
    with pytest.raises(ValueError, match="no annotator is called luck: there are ProtoTag; "):
        named(["luck"])


def test_the_rivals_are_those_of_the_registry():
    assert baselines.__all__ == sorted(registry.rivals())
    assert dir(baselines) == baselines.__all__
    for name in baselines.__all__:
        found = getattr(baselines, name)
        assert found.__name__ == name
        assert registry.of_kind(found.kind) is found
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        baselines.Nonsense  # noqa: B018
    assert registry.of_kind("nonsense") is None


def test_a_method_of_a_class_is_a_home():
    made = Contender("x", "prototag.mcdl.estimator:MCDL.udl", "MCDL", {"init_iter": 3}).build()
    assert (made.init_iter, made.max_iter) == (3, 0)


def test_classes_are_imported_when_they_are_used():
    code = "import sys, prototag.research.baselines; print('sklearn' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
