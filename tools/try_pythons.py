"""Build the wheels of a release and try them with every Python that this machine has.

    python tools/try_pythons.py dist

Builds a wheel for Python 3.11 and one for all later versions from the sdist in the folder, and runs
``tools/try_wheel.py`` with each Python from 3.11 on. Then pipx and uvx, if they are installed,
install the wheel from the folder. Needs nothing but the standard library.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

TRY_WHEEL = Path(__file__).with_name("try_wheel.py")
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
LIMITED_API_FROM = "3.12"  # one wheel serves this version and all later ones, see pyproject.toml


def pythons() -> dict[str, Path]:
    """Return the interpreters that are found, by version."""
    found = {}
    for version in VERSIONS:
        for candidate in _candidates(version):
            if _version(candidate) == version:
                found[version] = candidate
                break
    return found


def _candidates(version: str) -> Iterator[Path]:
    """Yield interpreters that may have a version: on the search path, of pyenv, of uv."""
    on_path = shutil.which(f"python{version}")
    if on_path:
        yield Path(on_path)
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    yield from sorted(root.glob(f"versions/{version}.*/bin/python3"), reverse=True)
    shared = Path.home() / ".local" / "share" / "uv" / "python"
    yield from sorted(shared.glob(f"cpython-{version}.*/bin/python3"), reverse=True)


def _version(python: Path) -> str:
    """Return the version of an interpreter that can make environments; empty if it cannot."""
    code = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"
    try:
        ran = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return ran.stdout.strip()


def build(python: Path, folder: Path) -> None:
    """Build the wheel of one Python from the sdist in the folder, as the release does."""
    (sdist,) = folder.glob("*.tar.gz")
    with tempfile.TemporaryDirectory() as made:
        subprocess.run([python, "-m", "venv", made], check=True)
        pip = [Path(made) / "bin" / "python", "-m", "pip", "--disable-pip-version-check"]
        subprocess.run([*pip, "wheel", "--quiet", "--no-deps", "-w", folder, sdist], check=True)


def wheel_of(version: str, folder: Path) -> Path | None:
    """Return the wheel that a Python installs."""
    tag = "cp311-cp311" if version < LIMITED_API_FROM else "cp312-abi3"
    return next(iter(folder.glob(f"prototag-*-{tag}-*.whl")), None)


def try_pipx(wheel: Path, python: Path) -> None:
    """Install the wheel by pipx in folders of its own, and run the command."""
    with tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, "PIPX_HOME": home, "PIPX_BIN_DIR": f"{home}/bin"}
        command = ["pipx", "install", "--python", python, f"prototag[web] @ {wheel.as_uri()}"]
        subprocess.run(command, check=True, env=environment, capture_output=True)
        _check_command([f"{home}/bin/prototag"])


def try_uvx(wheel: Path, python: Path) -> None:
    """Run the command by uvx, with the folder of the wheel as the only source of prototag."""
    with tempfile.TemporaryDirectory() as cache:
        options = ["--python", str(python), "--cache-dir", cache, "--no-python-downloads"]
        _check_command(["uvx", *options, "--find-links", str(wheel.parent), "prototag"])


def _check_command(command: list[str]) -> None:
    ran = subprocess.run([*command, "--version"], check=True, capture_output=True, text=True)
    if not re.fullmatch(r"prototag \d+\.\d+\.\d+\S*\s*", ran.stdout):
        raise SystemExit(f"{command} printed {ran.stdout!r}")


def main(folder: Path) -> None:
    """Build, try, and print a line for each Python and each installer."""
    found = pythons()
    for version in ("3.11", LIMITED_API_FROM):
        if version in found and wheel_of(version, folder) is None:
            build(found[version], folder)
    for version in VERSIONS:
        wheel = wheel_of(version, folder)
        if version not in found or wheel is None:
            print(f"Python {version}: not tried, because it is not installed here", flush=True)
            continue
        subprocess.run([found[version], TRY_WHEEL, wheel], check=True, stdout=subprocess.DEVNULL)
        print(f"Python {version}: {wheel.name} works", flush=True)
    latest = max(found, key=lambda version: int(version.partition(".")[2]))
    wheel = wheel_of(latest, folder)
    for name, attempt in (("pipx", try_pipx), ("uvx", try_uvx)):
        if shutil.which(name) is None or wheel is None:
            print(f"{name}: not tried, because it is not installed here", flush=True)
            continue
        attempt(wheel.resolve(), found[latest])
        print(f"{name}: installs {wheel.name}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
