"""What the pages say of the code is so: names, rooms, the walks, the arrays of model files."""

from __future__ import annotations

import ast
import re
import sys
import threading
import tomllib
from functools import cache, reduce
from importlib import import_module
from pathlib import Path
from types import FrameType

import pytest

import prototag
import tagged
from prototag.cli import main

ROOT = Path(__file__).parents[1]
SOURCE = Path(prototag.__file__).parent
DOCS = ROOT / "docs"
PAGE = (DOCS / "architecture.md").read_text()
METHOD = (DOCS / "method" / "equations.md").read_text()
DOTTED = re.compile(r"`([a-z_]\w*(?:\.\w+)+)`")
OUTSIDE = {"__init__", "__main__"}  # no rooms


def rooms_of_the_tree() -> set[str]:
    found = {path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()}
    return found | {path.stem for path in SOURCE.glob("*.py")} - OUTSIDE


def rooms_of_the_contract() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    layers = project["tool"]["importlinter"]["contracts"][0]["layers"]
    return [room for layer in layers for room in layer.split(" | ") if room not in OUTSIDE]


def section(title: str) -> str:
    found = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", PAGE, re.S | re.M)
    assert found, f"no section {title!r}"
    return found[1]


def first_column(text: str) -> list[str]:
    return re.findall(r"^\| `([^`]+)` \|", text, re.M)


def is_module(path: Path) -> bool:
    return path.is_dir() or path.with_suffix(".py").exists()


def resolve(name: str) -> object:
    """What a dotted name below ``prototag`` stands for."""
    parts = name.removeprefix("prototag.").split(".")
    deep = max(n for n in range(len(parts) + 1) if is_module(SOURCE.joinpath(*parts[:n])))
    return reduce(getattr, parts[deep:], import_module(".".join(["prototag", *parts[:deep]])))


def test_the_list_of_rooms_is_the_tree_in_the_order_of_the_contract():
    rooms = first_column(section("Packages"))
    assert set(rooms) == rooms_of_the_tree()
    assert rooms == rooms_of_the_contract()


MODULES = sorted(SOURCE.rglob("*.py"))


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def package_of(path: Path) -> str:
    """Return the package of a module, or the module itself where it stands alone."""
    return path.relative_to(SOURCE).with_suffix("").parts[0]


def docstrings(tree: ast.Module) -> set[ast.AST]:
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    bodies = [node.body for node in ast.walk(tree) if isinstance(node, owners) and node.body]
    return {body[0].value for body in bodies if isinstance(body[0], ast.Expr)}


def strings(tree: ast.Module) -> list[str]:
    """Return all string literals but docstrings."""
    told = docstrings(tree)
    constants = [node for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    return [c.value for c in constants if isinstance(c.value, str) and c not in told]


def names_of_higher_packages(text: str, package: str) -> list[str]:
    """Return the dotted names in a string that begin with a package above ``package``."""
    order = rooms_of_the_contract()
    if package not in order:
        return []
    higher = set(order[: order.index(package)])
    names = re.findall(r"(?<![\w./-])(?:prototag\.)?((?:[a-z_]\w*)(?:[.:]\w+)+)", text)
    heads = [re.split(r"[.:]", name) for name in names]
    return [
        ".".join(parts)
        for parts in heads
        if parts[0] in higher and is_module(SOURCE.joinpath(*parts[:2]))
    ]


def test_names_of_higher_packages_are_found_in_strings():
    assert names_of_higher_packages("prototag.research.registry", "storage")
    assert names_of_higher_packages("tagging.model._kernel_batch", "engine")
    assert names_of_higher_packages("prototag.mcdl.estimator:MCDL", "arrays")
    assert not names_of_higher_packages("prototag.coding.coder", "mcdl")
    assert not names_of_higher_packages("no file.library.txt in the library.", "storage")


def test_no_string_names_a_module_of_a_higher_package():
    """The import linter does not see what is imported, or listed, by a string."""
    leaks = [
        (str(path.relative_to(SOURCE)), name)
        for path in MODULES
        for text in strings(tree_of(path))
        for name in names_of_higher_packages(text, package_of(path))
    ]
    assert leaks == []


# Attributes that begin with an underscore by the convention of their makers.
CONVENTIONS = {
    "_asdict",  # of named tuples
    "_fields",
    "_replace",
    "_make",
    "_n_features_out",  # of scikit-learn's transformers
    "_parameter_constraints",  # of scikit-learn's estimators
    "_validate_params",
}
SQL = re.compile(r"\b(SELECT .* FROM|INSERT .*INTO|UPDATE .* SET|DELETE FROM)\b", re.S)
ABOVE_SQL = ("annotator", "cli", "service")


def attribute_reads(tree: ast.AST) -> list[tuple[str, str]]:
    """Return what precedes the dot, and the name, of all attributes."""
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    return [(ast.unparse(node.value), node.attr) for node in nodes]


def private_names(tree: ast.AST) -> set[str]:
    """Return the private names that a module gives to functions, methods and attributes."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            names.add(node.attr)
    return {name for name in names if name.startswith("_")}


def test_no_package_reads_private_attributes_of_another():
    """A private name that no module of the package defines is another package's."""
    trees = {path: tree_of(path) for path in MODULES}
    own: dict[str, set[str]] = {}
    for path, tree in trees.items():
        own.setdefault(package_of(path), set()).update(private_names(tree))
    found = {
        (package_of(path), name)
        for path, tree in trees.items()
        for owner, name in attribute_reads(tree)
        if re.match(r"_[^_]", name)
        and owner not in ("self", "cls", "super()")
        and name not in own[package_of(path)] | CONVENTIONS
    }
    assert found == set()


def test_only_the_library_speaks_sql():
    """Commands, pages and the annotator ask a library by its methods."""
    found = []
    for path in MODULES:
        if package_of(path) in ABOVE_SQL:
            tree = tree_of(path)
            calls = [name for _, name in attribute_reads(tree) if name.startswith("execute")]
            found += [(path.name, told) for told in calls + list(filter(SQL.search, strings(tree)))]
    assert found == []


def test_callers_of_a_library_use_its_methods():
    """``store`` and ``trainer`` are parts of a library, for the library package only."""
    found = {
        str(path.relative_to(SOURCE))
        for path in MODULES
        if package_of(path) in ABOVE_SQL
        for owner, name in attribute_reads(tree_of(path))
        if owner.endswith("library") and name in ("store", "trainer")
    }
    assert found == set()


def is_packed(node: ast.AST) -> bool:
    """Whether an assignment has as many values as targets and is no swap of what it reads."""
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Tuple):
        return False
    targets = node.targets[0]
    if not isinstance(targets, ast.Tuple):
        return False
    values = node.value.elts
    if any(isinstance(one, ast.Starred) for one in [*targets.elts, *values]):
        return False
    read = {ast.unparse(part) for value in values for part in ast.walk(value)}
    return read.isdisjoint(map(ast.unparse, targets.elts))


@pytest.mark.parametrize(
    ("statement", "packed"),
    [
        ("a, b = 1, 2", True),
        ("self.a, self.b = a, f(b)", True),
        ("a, b = b, a", False),
        ("low, high = low + 1, n", False),
        ("a, b = f(x)", False),
        ("a, *b = 1, 2, 3", False),
        ("a = 1, 2", False),
    ],
)
def test_packed_statements_are_distinguished_from_swaps_and_unpacking(statement, packed):
    assert is_packed(ast.parse(statement).body[0]) is packed


def test_a_line_has_one_statement():
    packed = [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path in MODULES
        for node in ast.walk(tree_of(path))
        if is_packed(node)
    ]
    assert packed == []


@pytest.mark.parametrize("name", sorted(set(DOTTED.findall(PAGE + METHOD))))
def test_every_dotted_name_exists(name):
    if not (ROOT / name).exists():
        resolve(name)


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: page.name)
def test_full_names_and_files_on_other_pages_exist(page):
    text = page.read_text()
    for name in re.findall(r"`(prototag(?:\.\w+)+)", text):
        if name != "prototag.xmp" and not name.endswith(".prototag"):
            resolve(name)
    for file in re.findall(r"`((?:tests|kernels|src|tools|benchmarks)/[\w./]+)`", text):
        assert (ROOT / file).exists(), file


@pytest.mark.parametrize("page", ["deviations", "features", "baselines"])
def test_examples_that_no_tutorial_has_run(page, tmp_path, monkeypatch, capsys):
    names = {"paths": tagged.collection(tmp_path, 12, listed=False)}
    monkeypatch.chdir(tmp_path)
    code = re.findall(
        r"^```python\n(.*?)^```", (DOCS / "method" / f"{page}.md").read_text(), re.S | re.M
    )
    assert code
    for text in code:
        exec(compile(text, f"docs/method/{page}.md", "exec"), names)
    capsys.readouterr()


class Recorder:
    """Functions of ours by the thread that called them first, in the order of their calls."""

    def __init__(self) -> None:
        self.threads: dict[str, list[str]] = {}
        self.seen: dict[str, None] = {}  # in the order of first calls, over all threads

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        path = Path(frame.f_code.co_filename)
        if event != "call" or not path.is_relative_to(SOURCE):
            return
        parts = path.relative_to(SOURCE).with_suffix("").parts
        module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        name = f"{module}.{frame.f_code.co_qualname}"
        if name not in self.seen:
            self.seen[name] = None
            self.threads.setdefault(threading.current_thread().name, []).append(name)


def walk(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Recorder:
    """Run a command of the command line, and remember what it called."""
    recorder = Recorder()
    monkeypatch.setattr(sys, "argv", ["prototag", *arguments])
    threading.setprofile(recorder)
    sys.setprofile(recorder)
    try:
        with pytest.raises(SystemExit) as ended:
            main()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    assert not ended.value.code
    return recorder


def assert_walked(title: str, recorder: Recorder) -> None:
    told = first_column(section(title))
    assert len(told) > 20
    assert [name for name in told if name not in recorder.seen] == []
    for names in recorder.threads.values():  # threads go on side by side; each has its order
        assert [name for name in told if name in names] == [n for n in names if n in told]


def test_the_walk_of_a_request_is_made(tmp_path):
    from starlette.testclient import TestClient

    from prototag.service.app import create_app

    tagged.collection(tmp_path, 1, listed=False)
    recorder = Recorder()
    threading.setprofile(recorder)
    try:
        app = create_app(annotator=tagged.annotator(), roots=[tmp_path])
        with TestClient(app, base_url="http://127.0.0.1") as client:
            assert client.post("/api/v1/annotate", json={"path": "000.jpg"}).status_code == 200
    finally:
        threading.setprofile(None)
    told = first_column(section("A request to its answer"))
    assert len(told) == 10
    assert [name for name in told if name not in recorder.seen] == []


def test_the_calls_from_a_decision_to_new_suggestions_are_made_in_this_order(tmp_path, monkeypatch):
    from starlette.testclient import TestClient

    from prototag import Library
    from prototag.service import background_trainer
    from prototag.service.app import create_app
    from prototag.service.routes import review

    tagged.collection(tmp_path, 40)
    tagged.collection(tmp_path, 20, start=40, listed=False)
    with Library.create(tmp_path, crops="fast", cache=None) as library:
        library.scan()
        library.learn()
        picture = library.suggest("red", limit=1)[0].picture
    # Only the request ends the debounce, and it waits for the end of the update.
    monkeypatch.setattr(background_trainer, "DEBOUNCE_S", 600.0)
    monkeypatch.setattr(review, "MAX_UPDATE_WAIT_S", 60.0)
    next_batch = next(one for one in review.OPERATIONS if one.handler is review.review_batch)
    decision = {"picture": picture, "tag": "red", "verdict": "accepted"}
    recorder = Recorder()
    with Library(tmp_path / "prototag.library", cache=None) as library:
        threading.setprofile(recorder)
        try:
            with TestClient(create_app(library=library), base_url="http://127.0.0.1") as client:
                recorder.seen.clear()  # the start schedules an update, too
                body = {"decisions": [decision]}
                assert client.post("/api/v1/decisions", json=body).status_code == 201
                answer = client.post(next_batch.full_path, json={"tag": "red", "limit": 5})
        finally:
            threading.setprofile(None)
    shown = [cell["picture"] for cell in answer.json()["cells"]]
    assert shown
    assert picture not in shown
    told = first_column(section("A decision to new suggestions"))
    assert len(told) == 20
    assert [name for name in recorder.seen if name in told] == told


def test_the_walks_are_made_in_this_order(tmp_path, monkeypatch, capsys):
    tagged.collection(tmp_path / "photos", 40)
    tagged.collection(tmp_path, 1, start=100, listed=False)
    monkeypatch.chdir(tmp_path)
    train = walk(monkeypatch, "train", "photos", "--jobs", "1")
    annotate = walk(monkeypatch, "annotate", "100.jpg", "--write-xmp", "--jobs", "1")
    capsys.readouterr()
    assert (tmp_path / "100.jpg.xmp").exists()
    assert_walked("A folder to its model", train)
    assert_walked("A picture to its sidecar", annotate)
