"""Limit the heaps of glibc and return free pages to the system.

glibc gives each thread a heap of its own, up to eight per core, and keeps freed memory in all of
them. After a scan or a training, a service with several threads holds hundreds of megabytes in this
way. With other C libraries the functions do nothing.
"""

from __future__ import annotations

import ctypes
import sys
from functools import lru_cache
from typing import Any

MAX_HEAPS = 2
_M_ARENA_MAX = -8  # from malloc.h of glibc


def limit_heaps(count: int = MAX_HEAPS) -> bool:
    """Limit the number of heaps; call it before the process starts threads."""
    library = _glibc()
    return library is not None and bool(library.mallopt(_M_ARENA_MAX, count))


def release() -> bool:
    """Return free pages of all heaps to the system; False if there were none."""
    library = _glibc()
    return library is not None and bool(library.malloc_trim(0))


@lru_cache(maxsize=1)
def _glibc() -> Any:
    if not sys.platform.startswith("linux"):
        return None
    library = ctypes.CDLL(None)
    return library if hasattr(library, "mallopt") and hasattr(library, "malloc_trim") else None
