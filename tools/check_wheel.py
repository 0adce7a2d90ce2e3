"""Check the contents of an sdist and a wheel: required, forbidden and machine-specific files.

    python -m tools.check_wheel dist

Compares with the checkout that it is run in. Prints sizes, and ends with an error for each fault.
"""

from __future__ import annotations

import re
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "prototag"
# Compiled, or left by running.
BUILD_SUFFIXES = (".so", ".pyd", ".pyc")
# Folders in which people and machines build; the second pattern is that of Windows.
MACHINE_PATH = re.compile(
    rb"/(?:home|root|Users|tmp|private|workspace|__w)/[\w.+-]+|[A-Za-z]:\\(?:Users|a)\\[\w.+-]+"
)
SCANNED_SUFFIXES = (".so", ".pyd", "METADATA", "RECORD", "WHEEL", "PKG-INFO", "entry_points.txt")
FORBIDDEN = re.compile(r"(^|/)(tests?|benchmarks|build|dist|\.git|\.venv|__pycache__)(/|$)")
MAX_BYTES = 48_000_000  # networks 21 MB, knowledge of words 18 MB, sample drawings 8 MB


def package_files(source: Path = SOURCE) -> set[str]:
    """Return all files of the package in the checkout, by their names in a wheel."""
    return {
        path.relative_to(source.parent).as_posix()
        for path in source.rglob("*")
        if path.is_file() and path.suffix not in BUILD_SUFFIXES and path.name != ".DS_Store"
    }


def licences(root: Path = ROOT) -> set[str]:
    """Return LICENSE, NOTICE and the files that NOTICE refers to."""
    texts = {path.relative_to(root).as_posix() for path in (root / "LICENSES").iterdir()}
    return {"LICENSE", "NOTICE", *texts}


def paths_of_machines(content: bytes, own: tuple[str, ...]) -> Iterator[str]:
    """Return absolute paths of the build machine."""
    paths = {match.decode("ascii", "replace") for match in MACHINE_PATH.findall(content)}
    paths |= {path for path in own if len(path) > 4 and path.encode() in content}
    yield from sorted(paths)


def check_wheel(path: Path, root: Path = ROOT) -> list[str]:
    """Return messages about the faults of a wheel."""
    faults = []
    own = (str(root), sys.prefix)
    with zipfile.ZipFile(path) as wheel:
        names = {name for name in wheel.namelist() if not name.endswith("/")}
        info = next((n.split("/")[0] for n in names if n.endswith(".dist-info/METADATA")), "")
        inside = {name for name in names if name.startswith("prototag/")}
        expected = package_files(root / "src" / "prototag")
        faults += [f"{name} is missing" for name in sorted(expected - inside)]
        extra = {name for name in inside - expected if not name.endswith((".so", ".pyd"))}
        extra |= {n for n in names - inside if not n.startswith((f"{info}/", "prototag.libs/"))}
        faults += [f"{name} does not belong" for name in sorted(extra)]
        faults += [f"{n} does not belong" for n in sorted(names - extra) if _stray(n, expected)]
        kernels = [n for n in inside if n.startswith("prototag/_kernels.")]
        if len(kernels) != 1:
            faults.append(f"there are {len(kernels)} compiled modules instead of one")
        for text in sorted(licences(root)):
            if f"{info}/licenses/{text}" not in names:
                faults.append(f"the licence {text} is missing")
        for name in sorted(names):
            if name.endswith(SCANNED_SUFFIXES):
                paths = paths_of_machines(wheel.read(name), own)
                faults += [f"{name} names {place}, a path of the machine" for place in paths]
    if path.stat().st_size > MAX_BYTES:
        faults.append(f"{path.stat().st_size:,} bytes are more than {MAX_BYTES:,}")
    return faults


def _stray(name: str, expected: set[str]) -> bool:
    return name not in expected and bool(FORBIDDEN.search(name))


def check_sdist(path: Path, root: Path = ROOT) -> list[str]:
    """Return messages about the faults of an sdist."""
    with tarfile.open(path) as sdist:
        top = path.name.removesuffix(".tar.gz")
        names = {m.name.removeprefix(f"{top}/") for m in sdist.getmembers() if m.isfile()}
        content = sdist.extractfile(f"{top}/PKG-INFO")
        described = content.read() if content else b""
    kernels = {p.relative_to(root).as_posix() for p in (root / "kernels").rglob("*.[ch]pp")}
    expected = {f"src/{name}" for name in package_files(root / "src" / "prototag")} | kernels
    expected |= licences(root) | {"CMakeLists.txt", "pyproject.toml", "README.md", "PKG-INFO"}
    faults = [f"{name} is missing" for name in sorted(expected - names)]
    left = re.compile(r"(^|/)(build|dist|\.git|\.venv|__pycache__)/|\.(so|pyd|pyc)$")
    faults += [f"{name} does not belong" for name in sorted(names) if left.search(name)]
    paths = paths_of_machines(described, (str(root), sys.prefix))
    faults += [f"PKG-INFO names {place}, a path of the machine" for place in paths]
    return faults


def main(folder: Path) -> int:
    """Check the distributions of a folder; return the number of faults."""
    wheels, sdists = sorted(folder.glob("*.whl")), sorted(folder.glob("*.tar.gz"))
    if not wheels or not sdists:
        print(f"{folder} must hold an sdist and a wheel: run `make wheel`.", file=sys.stderr)
        return 1
    count = 0
    for path in [*sdists, *wheels]:
        faults = check_wheel(path) if path in wheels else check_sdist(path)
        print(f"{path.name}: {path.stat().st_size / 1e6:.1f} MB, {len(faults)} faults")
        for fault in faults:
            print(f"  {fault}")
        count += len(faults)
    return count


if __name__ == "__main__":
    sys.exit(min(main(Path(sys.argv[1] if len(sys.argv) > 1 else "dist")), 1))
