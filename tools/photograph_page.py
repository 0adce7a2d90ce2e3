"""Take a screenshot of a page for the documentation, with headless Chromium.

prototag demo demo
python -m tools.photograph_page demo/report.html docs/images/report.jpg --height 1000
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import tempfile
from pathlib import Path

from PIL import Image


def photograph(page: Path, width: int, height: int, *, dark: bool) -> Image.Image:
    """Take a screenshot of a page at twice the pixel density."""
    browser = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
    if browser is None:
        raise SystemExit("no Chromium here: apt-get install chromium")
    with tempfile.TemporaryDirectory() as folder:
        shot = Path(folder) / "shot.png"
        options = "--headless --no-sandbox --disable-gpu --hide-scrollbars --no-first-run"
        subprocess.run(
            [
                browser,
                *options.split(),
                "--force-device-scale-factor=2",
                f"--blink-settings=preferredColorScheme={0 if dark else 1}",
                f"--window-size={width},{height}",
                f"--user-data-dir={folder}/profile",
                f"--screenshot={shot}",
                page.resolve().as_uri(),
            ],
            check=True,
            capture_output=True,
        )
        with Image.open(shot) as image:
            return image.convert("RGB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("page", type=Path)
    parser.add_argument("picture", type=Path)
    parser.add_argument("--width", type=int, default=1000)
    parser.add_argument("--height", type=int, default=1000)
    parser.add_argument("--dark", action="store_true")
    given = parser.parse_args()
    image = photograph(given.page, given.width, given.height, dark=given.dark)
    image.resize((image.width * 3 // 4, image.height * 3 // 4)).save(
        given.picture, quality=78, optimize=True, progressive=True
    )


if __name__ == "__main__":
    main()
