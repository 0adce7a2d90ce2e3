"""A file too few or too many in a wheel is told; so is a path of the machine that built it."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from tools import check_wheel

INFO = "prototag-1.0.dist-info"
FILES = ("__init__.py", "service/templates/start.html", "features/backbones/net.onnx")


@pytest.fixture
def root(tmp_path) -> Path:
    root = tmp_path / "checkout"
    for name in FILES:
        path = root / "src" / "prototag" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    for name in ("LICENSE", "NOTICE", "LICENSES/MIT.txt", "kernels/coding/one.cpp"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x")
    return root


def contents(root: Path) -> dict[str, bytes]:
    inside = {f"prototag/{name}": b"x" for name in FILES}
    inside["prototag/_kernels.abi3.so"] = b"\x7fELF"
    described = {f"{INFO}/{name}": b"x" for name in ("METADATA", "RECORD", "WHEEL")}
    texts = {f"{INFO}/licenses/{name}": b"x" for name in check_wheel.licences(root)}
    return inside | described | texts


def faults(root: Path, files: dict[str, bytes]) -> list[str]:
    path = root / "prototag-1.0-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for name, content in files.items():
            wheel.writestr(name, content)
    return check_wheel.check_wheel(path, root)


def test_a_whole_wheel_has_no_faults(root):
    assert faults(root, contents(root)) == []


@pytest.mark.parametrize(
    ("gone", "told"),
    [
        ("prototag/service/templates/start.html", "start.html is missing"),
        ("prototag/features/backbones/net.onnx", "net.onnx is missing"),
        ("prototag/_kernels.abi3.so", "0 compiled modules"),
        (f"{INFO}/licenses/LICENSES/MIT.txt", "licence LICENSES/MIT.txt is missing"),
        (f"{INFO}/licenses/NOTICE", "licence NOTICE is missing"),
    ],
)
def test_what_is_missing_is_reported(root, gone, told):
    files = contents(root)
    del files[gone]
    assert [fault for fault in faults(root, files) if told in fault]


@pytest.mark.parametrize(
    "more", ["tests/test_one.py", "prototag/left.py", "build/a.o", "prototag/build/a.so", "x.txt"]
)
def test_what_does_not_belong_is_reported(root, more):
    assert f"{more} does not belong" in faults(root, {**contents(root), more: b""})


@pytest.mark.parametrize("place", ["/home/" + "somebody", "/Users/" + "x", "C:\\Users" + "\\x"])
@pytest.mark.parametrize("name", ["prototag/_kernels.abi3.so", f"{INFO}/METADATA"])
def test_a_path_of_the_machine_is_reported(root, name, place):
    found = faults(root, {**contents(root), name: b"\0" + place.encode() + b"/file.cpp\0"})
    assert found == [f"{name} names {place}, a path of the machine"]


def test_the_checkout_itself_is_such_a_path(root):
    files = {**contents(root), "prototag/_kernels.abi3.so": str(root).encode()}
    assert any(str(root) in fault for fault in faults(root, files))


def test_an_sdist_holds_the_sources_and_nothing_made(root):
    path = root / "prototag-1.0.tar.gz"
    wanted = [f"src/prototag/{name}" for name in FILES]
    wanted += ["CMakeLists.txt", "pyproject.toml", "README.md", "PKG-INFO", "LICENSE", "NOTICE"]
    with tarfile.open(path, "w:gz") as sdist:
        for name in [*wanted, "LICENSES/MIT.txt", "build/x.o", "src/prototag/_kernels.so"]:
            sdist.addfile(tarfile.TarInfo(f"prototag-1.0/{name}"), io.BytesIO())
    assert check_wheel.check_sdist(path, root) == [
        "kernels/coding/one.cpp is missing",
        "build/x.o does not belong",
        "src/prototag/_kernels.so does not belong",
    ]


def test_a_folder_without_packages_is_an_error(tmp_path, capsys):
    assert check_wheel.main(tmp_path) == 1
    assert "run `make wheel`" in capsys.readouterr().err
