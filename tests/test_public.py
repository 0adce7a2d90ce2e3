"""The public surface: names are added on purpose and removed with a deprecation."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import prototag
from prototag import errors
from prototag.research import datasets


def test_public_names_are_frozen():
    assert sorted(prototag.__all__) == [
        "Annotator",
        "Coder",
        "ExemplarMCDL",
        "FeatureExtractor",
        "Library",
        "MCDL",
        "Reduction",
        "Tagger",
        "__version__",
        "load",
        "recommended",
        "sparse_encode",
        "tune",
    ]
    assert dir(prototag) == sorted(prototag.__all__)
    assert all(getattr(prototag, name) is not None for name in prototag.__all__)
    assert sorted(datasets.__all__) == [
        "Collection",
        "Planted",
        "bundle",
        "clipart",
        "corel5k",
        "espgame",
        "flickr125k",
        "flickr60k",
        "folder",
        "hide_tags",
        "iaprtc12",
        "mirflickr",
        "planted",
        "save_bundle",
        "unpack_clipart",
    ]


def test_sparse_encode_has_the_documented_signature():
    assert str(inspect.signature(prototag.sparse_encode)).startswith(
        "(X: 'npt.ArrayLike', prototypes: 'npt.ArrayLike', *, budget: 'float' = 1.0, "
        "max_nonzeros: 'int' = 20, exact: 'bool' = False, n_jobs: 'int | None' = None)"
    )


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        prototag.nonsense  # noqa: B018


def test_errors_can_be_caught_together_and_as_value_errors():
    for name in ("ModelFileError", "CheckpointError", "MetadataError"):
        error = getattr(errors, name)
        assert issubclass(error, errors.PrototagError)
        assert issubclass(error, ValueError)


def test_import_is_quick_because_it_loads_nothing_heavy():
    code = "import sys, prototag; print({'numpy', 'scipy', 'sklearn'} & set(sys.modules))"
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == "set()"


def test_version_is_that_of_the_package():
    from importlib.metadata import version

    assert prototag.__version__ == version("prototag")
