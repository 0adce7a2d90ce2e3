"""docs/reference/model-file.md lists the fields and arrays of real model files, and no others."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import tagged
from prototag import MCDL, ExemplarMCDL, recommended
from prototag.loading import CLASSES_BY_KIND
from prototag.research import registry
from prototag.research.datasets import planted
from prototag.storage import modelfile

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "model-file.md").read_text()
ALWAYS = {"format", "version", "kind", "tensors"}
OPTIONAL = {"knowledge", "tuning", "model/projection/scale", "model/kernel/landmarks", "centres"}
ABSENT = {("mcdl", "prototype_images")}  # "`exemplars` only", the page says
ESTIMATOR, PROTOTYPES = "Every estimator", "MCDL and ExemplarMCDL"
PARTS = {
    "annotator": ["The model", "The annotator's own"],
    "tagger": [ESTIMATOR, "The model"],
    "mcdl": [ESTIMATOR, PROTOTYPES],
    "exemplars": [ESTIMATOR, PROTOTYPES],
    "checkpoint": ["Checkpoint"],
}
BASELINES = {entry.kind: entry for entry in registry.baselines().values()}


class Listed(NamedTuple):
    dtypes: list[str]
    shapes: list[str]


SPARSE = {
    "data": Listed(["BOOL"], ["e"]),
    "indices": Listed(["I32", "I64"], ["e"]),
    "indptr": Listed(["I32", "I64"], ["n + 1"]),
}


def rows(title: str) -> list[list[str]]:
    """The cells of the table below a heading."""
    text = re.search(rf"^##+ {title}\n(.*?)(?=^##+ |\Z)", PAGE, re.S | re.M)
    assert text, f"no section {title!r}"
    lines = [line for line in text[1].splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def in_tables(titles: list[str]) -> dict[str, Listed]:
    return {
        name.strip("`"): Listed(dtype.split(" or "), shape.split(" or "))
        for title in titles
        for name, dtype, shape, _ in rows(title)
    }


def listed_arrays(kind: str) -> dict[str, Listed]:
    if kind not in BASELINES:
        found = in_tables(PARTS[kind])
        return {name: found[name] for name in found if (kind, name) not in ABSENT}
    found = in_tables([ESTIMATOR])
    [cell] = [arrays for name, arrays, _ in rows("Baselines") if name == f"`{kind}`"]
    if "`mcdl/...`" in cell:
        return found | {f"mcdl/{name}": form for name, form in listed_arrays("mcdl").items()}
    for name, form in re.findall(r"`([\w/.]+)` ([^,]+)", cell):
        if name.endswith("/..."):
            parts = SPARSE if name == "tags/..." else SPARSE | {"data": Listed(["F32"], ["e"])}
            found |= {name.removesuffix("...") + part: parts[part] for part in parts}
        else:
            dtype, _, shape = form.strip().partition(" ")
            found[name] = Listed([dtype], [shape])
    return found


def listed_fields(kind: str) -> set[str]:
    found = set()
    for names, where, _ in rows("Their fields"):
        places = set(re.split(r", | if ", where))
        groups = {kind, "baselines"} if kind in BASELINES else {kind}
        if kind not in ("annotator", "checkpoint"):
            groups.add("estimators")
        if groups & places:
            found |= set(re.findall(r"`(\w+)`", names))
    return found


def assert_listed(kind: str, path: Path) -> None:
    """All that a file has is on the page, and all that the page has is in the file."""
    header = modelfile.read_header(path)
    assert header["kind"] == kind
    fields = header.keys() - ALWAYS
    assert listed_fields(kind) - OPTIONAL <= fields <= listed_fields(kind)
    arrays, tensors = listed_arrays(kind), header["tensors"]
    assert arrays.keys() - OPTIONAL <= tensors.keys() <= arrays.keys()
    sizes: dict[str, int] = {}  # what the letters stand for: one number each in one file
    for name in sorted(tensors, key=lambda name: any("+" in s for s in arrays[name].shapes)):
        assert tensors[name]["dtype"] in arrays[name].dtypes, name
        shape = tensors[name]["shape"]
        assert any(fits(listed, shape, sizes) for listed in arrays[name].shapes), name
    if kind in BASELINES:
        [values] = [values for name, _, values in rows("Baselines") if name == f"`{kind}`"]
        assert set(re.findall(r"`(\w+)`", values)) == header["fitted"].keys()


def fits(shape: str, extents: list[int], sizes: dict[str, int]) -> bool:
    """Whether ``n + 1 x 4`` describes an array; a letter that is new takes the extent's size."""
    wanted = shape.split(" x ")
    if len(wanted) != len(extents):
        return False
    for sum_, extent in zip(wanted, extents, strict=True):
        known = [int(term) if term.isdigit() else sizes.get(term) for term in sum_.split(" + ")]
        rest = extent - sum(size for size in known if size is not None)
        unknown = [t for t, size in zip(sum_.split(" + "), known, strict=True) if size is None]
        if len(unknown) > 1 or (not unknown and rest):
            return False
        sizes |= dict.fromkeys(unknown, rest)
    return True


@pytest.fixture(scope="module")
def data() -> Any:
    return planted(n=60, t=6, k=12, m=16, random_state=0)


def test_the_page_lists_every_kind():
    assert {row[0].strip("`") for row in rows("Kinds")} == {*CLASSES_BY_KIND, "checkpoint"}
    assert {row[0].strip("`") for row in rows("Baselines")} == set(BASELINES)


def test_an_annotator(tmp_path):
    assert_listed("annotator", tagged.model(tmp_path))


def test_a_tagger(data, tmp_path):
    recommended().fit(data.X, data.Y).save(tmp_path / "model")
    assert_listed("tagger", tmp_path / "model")


def test_the_method_and_its_checkpoint(data, tmp_path):
    model = MCDL(0.3, max_iter=1, init_iter=1, checkpoint=tmp_path / "checkpoint")
    model.fit(data.X, data.Y).save(tmp_path / "model")
    assert_listed("mcdl", tmp_path / "model")
    assert_listed("checkpoint", tmp_path / "checkpoint")


def test_the_repaired_core(data, tmp_path):
    ExemplarMCDL().fit(data.X, data.Y).save(tmp_path / "model")
    assert_listed("exemplars", tmp_path / "model")


@pytest.mark.parametrize("kind", sorted(BASELINES))
def test_a_baseline(kind, data, tmp_path):
    baseline = BASELINES[kind].build(**BASELINES[kind].test_options)
    baseline.fit(data.X, data.Y).save(tmp_path / "model")
    assert_listed(kind, tmp_path / "model")
