"""Memory that the C library keeps after work: fewer heaps, and free pages back to the system.

glibc gives each thread a heap of its own, up to eight for each processor, and keeps freed memory in
all of them. A service with several threads holds hundreds of megabytes that way after it has read
pictures or trained. Other C libraries have neither function; there nothing happens.
"""

from __future__ import annotations

import ctypes
import sys
from functools import lru_cache
from typing import Any

MAX_HEAPS = 2
_M_ARENA_MAX = -8  # glibc's number of the parameter of mallopt


def limit_heaps(count: int = MAX_HEAPS) -> bool:
    """Limit the heaps of this process; to be called before it starts threads."""
    library = _glibc()
    return library is not None and bool(library.mallopt(_M_ARENA_MAX, count))


def release() -> bool:
    """Return free pages of all heaps to the system; whether there were any."""
    library = _glibc()
    return library is not None and bool(library.malloc_trim(0))


@lru_cache(maxsize=1)
def _glibc() -> Any:
    if not sys.platform.startswith("linux"):
        return None
    library = ctypes.CDLL(None)
    return library if hasattr(library, "mallopt") and hasattr(library, "malloc_trim") else None
