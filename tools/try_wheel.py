"""Test a wheel in an empty environment, without compiler, network or checkout.

    python tools/try_wheel.py dist/prototag-*.whl     # installs it into a new environment
    python tools/try_wheel.py --installed             # tries what this Python has (cibuildwheel)

Dependencies come from the package index, as wheels only. Then, in a folder far from the checkout
and where possible in a network of its own that has nothing but loopback: train, annotate, serve,
open and demo. Needs nothing but the standard library, because it runs before anything is installed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
import venv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

WINDOWS = sys.platform == "win32"
NO_NETWORK = ["unshare", "--net"]  # a user who is not root may add --map-root-user
TIMEOUT_SECONDS = 600  # for each command, also on a busy machine
# Two tags that can be seen, by folder.
PICTURES = """
import sys
from pathlib import Path
import numpy as np
from PIL import Image
rng = np.random.default_rng(0)
for tag, colour in {"red": (200, 30, 30), "blue": (40, 60, 200)}.items():
    for number in range(23):
        place = Path("photos", tag) if number < 20 else Path("new")
        place.mkdir(parents=True, exist_ok=True)
        pixels = np.array(colour) + rng.normal(0, 12, (48, 64, 3))
        image = Image.fromarray(pixels.clip(0, 255).astype(np.uint8))
        image.save(place / f"{tag}{number}.jpg")
"""


def install(wheel: Path, folder: Path) -> Path:
    """Return the Python of a new environment with the wheel and its dependencies."""
    venv.create(folder / "env", with_pip=True)
    python = folder / "env" / ("Scripts/python.exe" if WINDOWS else "bin/python")
    asked = f"prototag[web] @ {wheel.resolve().as_uri()}"
    # What is imported is compiled then; all else need not be.
    pip = [str(python), "-m", "pip", "install", "--quiet", "--no-compile"]
    subprocess.run(
        [*pip, "--only-binary", ":all:", asked], check=True, cwd=folder, env=poor(python, folder)
    )
    return python


def poor(python: Path, folder: Path) -> dict[str, str]:
    """Return environment variables without compilers and without paths of this project."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PROTOTAG", "PYTHON"))}
    path = str(python.parent)
    if shutil.which("c++", path=path) or shutil.which("cc", path=path):
        path = str(folder)  # an environment that has a compiler of its own
    cache = {"PROTOTAG_CACHE": str(folder / "cache.db")}
    return {**kept, "CC": "/bin/false", "CXX": "/bin/false", "PATH": path, **cache}


def lonely() -> list[str]:
    """Return the prefix that isolates a command from the network; empty if not permitted."""
    for prefix in (NO_NETWORK, [*NO_NETWORK, "--map-root-user"]):
        try:
            if subprocess.run([*prefix, "true"], capture_output=True).returncode == 0:
                return prefix
        except OSError:
            break
    return []


def raise_loopback() -> None:
    """Enable the loopback interface, for machines without ``ip``."""
    import fcntl
    import socket
    import struct

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        up = struct.pack("16sh22x", b"lo", 0x1)  # IFF_UP
        fcntl.ioctl(any_socket, 0x8914, up)  # SIOCSIFFLAGS


def prove(python: Path, folder: Path) -> None:
    """Run the first steps of a new user in ``folder``."""
    env = poor(python, folder)
    prototag = [str(python), "-m", "prototag"]

    def run(*command: str) -> str:
        began = time.monotonic()
        done = subprocess.run(
            command, cwd=folder, env=env, capture_output=True, text=True, timeout=TIMEOUT_SECONDS
        )
        if done.returncode:
            raise SystemExit(f"{command} ended with {done.returncode}:\n{done.stderr}")
        print_command(began, command)
        return done.stdout

    where = run(str(python), "-P", "-c", "import prototag; print(prototag.__file__)").strip()
    if Path(__file__).parents[1] / "src" in Path(where).parents:
        raise SystemExit(f"{where} is the checkout, not the wheel.")
    run(*prototag, "--version")
    run(str(python), "-c", PICTURES)
    run(*prototag, "train", "photos", "-m", "mine.prototag")
    output = run(*prototag, "annotate", "new", "-m", "mine.prototag", "--top", "1", "--json")
    check_tags(output)
    with answering([*prototag, "serve", "mine.prototag", "--port", "0"], folder, env) as address:
        picture = (folder / "new" / "red21.jpg").read_bytes()
        answer = json.loads(get(f"{address}api/v1/annotate?top=1", picture))
        if [tag["tag"] for tag in answer["tags"]] != ["red"]:
            raise SystemExit(f"the service said {answer}")
    with answering([*prototag, "open", "photos", "--no-browser"], folder, env) as address:
        if b"<html" not in get(address):
            raise SystemExit("prototag open gave no page.")
        if json.loads(get(f"{address}api/v1/health")).get("has_library") is not True:
            raise SystemExit("prototag open has no library.")
    run(*prototag, "demo")
    if not (folder / "prototag-demo" / "report.html").stat().st_size:
        raise SystemExit("the demo wrote no report.")


def print_command(began: float, command: Sequence[str]) -> None:
    """Return one line for each command of prototag."""
    if "prototag" in command:
        print(f"  {time.monotonic() - began:5.1f} s  {' '.join(command[3:])}", flush=True)


def check_tags(lines: str) -> None:
    """Check that each new picture has the tag with which its name begins."""
    annotations = [json.loads(line) for line in lines.splitlines()]
    names = {Path(one["path"]).name: [tag["tag"] for tag in one["tags"]] for one in annotations}
    wrong = {name: tags for name, tags in names.items() if tags != [re.split(r"\d", name)[0]]}
    if wrong or len(names) != 6:
        raise SystemExit(f"annotate gave {names}")


@contextmanager
def answering(command: list[str], folder: Path, env: dict[str, str]) -> Iterator[str]:
    """Run a service and yield its address; check that it stops without error."""
    began = time.monotonic()
    log = folder / "service.log"
    with log.open("w") as file, subprocess.Popen(command, cwd=folder, env=env, stderr=file) as it:
        try:
            while not (match := re.search(r"http://127\.0\.0\.1:\d+/", log.read_text())):
                if it.poll() is not None or time.monotonic() - began > TIMEOUT_SECONDS:
                    raise SystemExit(f"{command} does not listen:\n{log.read_text()}")
                time.sleep(0.1)
            yield match[0]
            it.terminate()
            if it.wait(TIMEOUT_SECONDS) and not WINDOWS:  # where to terminate is to kill
                raise SystemExit(f"{command} ended with {it.returncode}:\n{log.read_text()}")
            print_command(began, command)
        finally:
            it.kill()


def get(address: str, body: bytes | None = None) -> bytes:
    """Return the answer of a service on this computer, ignoring proxies."""
    asking = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    headers = {"Content-Type": "image/jpeg"} if body else {}
    with asking.open(
        urllib.request.Request(address, body, headers), timeout=TIMEOUT_SECONDS
    ) as answer:
        return bytes(answer.read())


def main(words: list[str]) -> None:
    """Run the command line described at the top of this file."""
    if words[:1] == ["--alone"]:
        raise_loopback()
        prove(Path(words[1]), Path(words[2]))
        return
    began = time.monotonic()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        folder = Path(temporary).resolve()
        installed = words == ["--installed"]
        python = Path(sys.executable) if installed else install(Path(words[0]), folder)
        print(f"Installed after {time.monotonic() - began:.1f} s.", flush=True)
        if prefix := lonely():
            me = [sys.executable, str(Path(__file__).resolve()), "--alone", str(python)]
            subprocess.run([*prefix, *me, str(folder)], check=True)
        else:
            print("  No network of its own can be made here: the network is not denied.")
            prove(python, folder)
    print(f"The wheel works: {time.monotonic() - began:.1f} s.")


if __name__ == "__main__":
    main(sys.argv[1:])
