"""No command calls anybody, and none writes anywhere but where it was told to."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tagged

COMMANDS = """
train {work}/train -m {work}/model.prototag
annotate {work}/new -m {work}/model.prototag --write-xmp
evaluate {work}/train -m {work}/model.prototag --html {work}/report.html
explain {work}/new/100.jpg -m {work}/model.prototag --html {work}/why.html
similar {work}/new/100.jpg -m {work}/model.prototag
inspect -m {work}/model.prototag
untag {work}/new
"""
# Runs the commands in one process and prints what Python is asked for: sockets, files to write.
WATCHED = """
import os, sys
def watch(event, arguments):
    if event in ("socket.connect", "socket.bind", "socket.getaddrinfo", "socket.sendto",
                 "socket.gethostbyname", "subprocess.Popen", "os.system"):
        sys.__stderr__.write(f"ASKED {event} {arguments!r}\\n")
    elif event == "open" and isinstance(arguments[0], (str, bytes)):
        mode, flags = arguments[1] or "", arguments[2] or 0
        if set(mode) & set("wax+") or flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            sys.__stderr__.write(f"WROTE {os.path.abspath(os.fsdecode(arguments[0]))}\\n")
sys.addaudithook(watch)
from prototag.cli import program
for line in sys.stdin.read().splitlines():
    if line.strip():
        program()(line.split(), standalone_mode=False)
"""


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    folder = tmp_path_factory.mktemp("silence")
    tagged.collection(folder / "train", 40)
    tagged.collection(folder / "new", 3, start=100)
    for name in ("home", "tmp"):
        (folder / name).mkdir()
    return folder


def environment(work: Path) -> dict[str, str]:
    """Without what tells programs that they are tested, in a home of its own."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    return {
        **kept,
        "HOME": str(work / "home"),
        "TMPDIR": str(work / "tmp"),
        "PROTOTAG_CACHE": str(work / "cache" / "vectors.sqlite"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def run(command: list[str], work: Path) -> subprocess.CompletedProcess[str]:
    answer = subprocess.run(
        command,
        input=COMMANDS.format(work=work),
        env=environment(work),
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr[-2000:]
    return answer


def test_python_is_asked_for_no_socket_and_no_foreign_file(work):
    said = run([sys.executable, "-c", WATCHED], work).stderr
    assert "ASKED" not in said
    written = set(re.findall(r"^WROTE (.*)$", said, re.M))
    assert written, "the watch saw nothing at all"
    assert [path for path in written if not path.startswith((str(work), "/dev/"))] == []
    assert list((work / "home").iterdir()) == []


@pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")
def test_the_system_is_asked_for_no_socket_and_no_foreign_file(work):
    """The same below Python: libraries that call out of native code are seen, too."""
    trace = work / "trace"
    calls = "trace=connect,sendto,sendmsg,sendmmsg,openat,open,creat,mkdir,mkdirat"
    run(["strace", "-f", "-qq", "-e", calls, "-o", str(trace), sys.executable, "-c", WATCHED], work)
    lines = trace.read_text(errors="replace").splitlines()
    assert len(lines) > 100
    called = [line for line in lines if re.search(r"\b(connect|sendto|sendm+sg)\(", line)]
    foreign = [line for line in called if "AF_UNIX" not in line and "127.0.0.1" not in line]
    assert foreign == []
    written = [
        line for line in lines if re.search(r"O_WRONLY|O_RDWR|O_CREAT|\b(creat|mkdir)", line)
    ]
    paths = {match[1] for line in written if (match := re.search(r'"([^"]*)"', line))}
    allowed = (str(work), "/dev/", "/proc/self/")
    assert [path for path in paths if path.startswith("/") and not path.startswith(allowed)] == []
