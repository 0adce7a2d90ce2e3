"""Where a result comes from: versions and machine, without the names of people or places."""

from __future__ import annotations

import platform
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any


def provenance() -> dict[str, Any]:
    return {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "machine": platform.machine(),
        **{name: version(name) for name in ("prototag", "numpy", "scipy", "scikit-learn")},
    }
