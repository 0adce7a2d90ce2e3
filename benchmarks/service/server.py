"""``prototag serve`` in a separate process, with its memory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Running:
    """Running service."""

    process: subprocess.Popen[str]
    port: int

    def memory(self) -> dict[str, float]:
        """Return the current and the peak memory in megabytes."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        kept = dict(line.split(":", 1) for line in lines)
        return {
            name: round(int(kept[field].split()[0]) / 1024, 1)
            for name, field in (("now_mb", "VmRSS"), ("most_mb", "VmHWM"))
        }

    def seconds(self) -> float:
        """Return the CPU seconds so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def serving(what: Path, *arguments: object) -> Iterator[Running]:
    """Started on a free port, ended by SIGTERM; its exit code must be 0."""
    command = [sys.executable, "-m", "prototag", "serve", what, "--port", "0", *arguments]
    process = subprocess.Popen(
        [str(part) for part in command],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stderr is not None
    output = ""
    while "http://" not in (line := process.stderr.readline()):
        output += line
        if not line:
            raise RuntimeError(output)
    port = int(line[line.index("http://") :].split()[0].rstrip("/").rpartition(":")[2])
    reader = threading.Thread(target=process.stderr.read, daemon=True)
    reader.start()
    try:
        yield Running(process, port)
    finally:
        process.send_signal(signal.SIGTERM)
        code = process.wait(60)
        reader.join()
        process.stderr.close()
        if code:
            raise RuntimeError(f"the service ended with {code}")
