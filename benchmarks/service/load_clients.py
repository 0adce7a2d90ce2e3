"""Load clients: wrk for requests that take milliseconds, Python threads for uploads.

Every part is bounded in count or in time, and asks loopback alone.
"""

from __future__ import annotations

import http.client
import re
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

WRK = ("wrk", "-t1", "--latency")
TIMES = {"us": 1e-3, "ms": 1.0, "s": 1e3}
SCRIPT = """
local paths = {}
for line in io.lines("%s") do paths[#paths + 1] = line end
local at = 0
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
request = function()
  at = at %% #paths + 1
  return wrk.format(nil, nil, nil, '{"path": "' .. paths[at] .. '"}')
end
"""


def by_path(
    port: int, paths: Sequence[str], work: Path, clients: int, seconds: int
) -> dict[str, Any]:
    """Annotate files whose vectors are known, by wrk."""
    names, script = work / "paths.txt", work / "paths.lua"
    names.write_text("\n".join(paths))
    script.write_text(SCRIPT % names)
    url = f"http://127.0.0.1:{port}/api/v1/annotate"
    done = subprocess.run(
        [*WRK, f"-c{clients}", f"-d{seconds}s", "-s", str(script), url],
        capture_output=True,
        text=True,
        check=True,
        timeout=seconds + 60,
    ).stdout
    refused = re.search(r"Non-2xx or 3xx responses: (\d+)", done)
    rate = re.search(r"Requests/sec:\s+([\d.]+)", done)
    assert rate is not None, done
    return {
        "clients": clients,
        "seconds": seconds,
        "requests_per_second": float(rate[1]),
        "not_200": int(refused[1]) if refused else 0,
        **{f"p{share}_ms": _latency(done, share) for share in (50, 99)},
    }


def _latency(text: str, share: int) -> float:
    match = re.search(rf"{share}%\s+([\d.]+)(us|ms|s)", text)
    assert match is not None, text
    return round(float(match[1]) * TIMES[match[2]], 3)


class Client:
    """Client with one persistent connection."""

    def __init__(self, port: int) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def send(self, data: bytes) -> int:
        self.connection.request(
            "POST", "/api/v1/annotate", data, {"Content-Type": "application/octet-stream"}
        )
        answer = self.connection.getresponse()
        answer.read()
        return answer.status


def uploads(port: int, pictures: Sequence[bytes], clients: int) -> dict[str, Any]:
    """Send each picture once, distributed over the clients."""
    waiting, lock = iter(pictures), threading.Lock()
    statuses: Counter[int] = Counter()
    times: list[float] = []

    def work() -> None:
        client = Client(port)
        while True:
            with lock:
                data = next(waiting, None)
            if data is None:
                client.connection.close()
                return
            began = time.perf_counter()
            status = client.send(data)
            with lock:
                times.append(time.perf_counter() - began)
                statuses[status] += 1

    threads = [threading.Thread(target=work) for _ in range(clients)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - began
    return {
        "clients": clients,
        "pictures": len(pictures),
        "seconds": round(seconds, 2),
        "answered_per_second": round(statuses[200] / seconds, 1),
        "statuses": dict(sorted(statuses.items())),
        "p50_ms": round(1e3 * float(np.percentile(times, 50)), 1),
        "p99_ms": round(1e3 * float(np.percentile(times, 99)), 1),
    }
