"""Pages as a real browser shows them: Chromium without a window, where there is one."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
needs_browser = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium here: apt-get install chromium"
)

# Runs inside the page. It stands before the policy of the page, which would forbid it.
_PROBE = """<script>
const seen = {violations: [], errors: []};
addEventListener("securitypolicyviolation", e => seen.violations.push(e.violatedDirective));
addEventListener("error", e => seen.errors.push(e.message || e.target.outerHTML), true);
addEventListener("load", () => {
  const all = [...document.querySelectorAll("body *")];
  const inside = (node, kinds) => node.closest(kinds) !== null;
  seen.inner = innerWidth;
  seen.width = document.documentElement.scrollWidth;
  seen.beyond = all.filter(node => node.getBoundingClientRect().right > innerWidth + 1
    && !inside(node, ".scroll, nav ul, .hidden, svg svg")).map(node => node.outerHTML.slice(0, 99));
  seen.ground = getComputedStyle(document.body).backgroundColor;
  seen.images = [...document.images].map(image => image.naturalWidth);
  seen.charts = [...document.querySelectorAll("svg.chart")].map(
    chart => Math.round(chart.getBoundingClientRect().height));
  seen.requests = performance.getEntriesByType("resource").map(entry => entry.name)
    .filter(name => !name.startsWith("data:"));
  seen.scripts = document.scripts.length - 1;
  seen.hacked = window.hacked === undefined ? false : window.hacked;
  const head = document.querySelector("th.number button");
  if (head) {
    head.click();
    head.click();  // once more: the smallest first
    const place = head.parentNode.cellIndex;
    seen.sorted = [...head.closest("table").tBodies[0].rows].map(row => row.cells[place].dataset.v);
    const search = head.closest(".scroll").previousSibling;
    search.value = "TAG 7";
    search.dispatchEvent(new Event("input"));
    seen.filtered = [...head.closest("table").tBodies[0].rows].filter(row => !row.hidden)
      .map(row => row.textContent);
  }
  parent.postMessage(seen, "*");
});
</script>"""


def shown(folder: Path, pages: dict[str, tuple[str, int]], *, dark: bool = False) -> dict[str, Any]:
    """What is seen of pages (name: HTML and width in pixels), all in one start of the browser."""
    frames = []
    for name, (page, width) in pages.items():
        file = folder / f"{name}.html"
        file.write_text(page.replace("<head>", f"<head>{_PROBE}", 1), encoding="utf-8")
        style = f"width:{width}px;height:800px;border:0"
        frames.append(f'<iframe name="{name}" src="{file.name}" style="{style}"></iframe>')
    collect = """<pre></pre><script>
    const found = {};
    addEventListener("message", e => {
      for (const frame of document.querySelectorAll("iframe"))
        if (frame.contentWindow === e.source) found[frame.name] = e.data;
      document.querySelector("pre").textContent = JSON.stringify(found);
    });</script>"""
    whole = folder / "all.html"
    whole.write_text(f"<!doctype html><meta charset=utf-8>{collect}{''.join(frames)}")
    options = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync"
    options += " --disable-background-networking --disable-component-update"
    options += " --window-size=1400,1000 --timeout=20000 --virtual-time-budget=10000 --dump-dom"
    answer = subprocess.run(
        [
            str(CHROMIUM),
            *options.split(),
            f"--blink-settings=preferredColorScheme={0 if dark else 1}",
            f"--user-data-dir={folder / 'profile'}",
            whole.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return json.loads(html.unescape(re.search("<pre>(.*?)</pre>", answer.stdout, re.DOTALL)[1]))
