"""Gaps and supports of all images against the exact mode, and against SPAMS."""

from __future__ import annotations

import numpy as np

from benchmarks.coding.encoders import CAP, prototypes, spams_one_call
from benchmarks.collections import Collection
from prototag import _kernels
from prototag.coding.coder import Coder, Encoded
from prototag.engine import Threads

CRUMB = 1e-6  # SPAMS leaves rounding in the codes of images that are prototypes themselves


def supports(codes) -> list[frozenset[int]]:
    return [
        frozenset(codes.indices[a:b].tolist())
        for a, b in zip(codes.indptr[:-1], codes.indptr[1:], strict=True)
    ]


def same(ours, theirs) -> int:
    return sum(a == b for a, b in zip(supports(ours), supports(theirs), strict=True))


def certify(data: Collection, k: int, limit: int | None = None) -> dict[str, object]:
    """Compare all images at one number of prototypes, on each instruction set of the machine."""
    two = Threads(2)
    D, X = prototypes(data, k), np.vstack([data.X_test, data.X])[:limit]
    exact = Coder(D, max_nonzeros=CAP, exact=True).encode(X, engine=two)
    answer: dict[str, object] = {
        "k": k,
        "images": len(X),
        "codes that the cap ends": int(exact.capped.sum()),
        "largest gap of the others, exact path": _gap(exact),
    }
    widest = _kernels.instructions()
    for name in ("portable", "avx2", "avx512"):
        if _kernels.instructions(name) != name:
            continue
        fast = Coder(D, max_nonzeros=CAP).encode(X, engine=two)
        answer[f"{name}: largest gap"] = _gap(fast)
        answer[f"{name}: supports equal to the exact path"] = same(fast.codes, exact.codes)
    _kernels.instructions(widest)
    spams_encode = spams_one_call(D, cholesky=False, threads=2)
    if spams_encode is not None:
        test = len(data.X_test)
        theirs = spams_encode(data.X_test).T.tocsr()
        theirs.data[theirs.data <= CRUMB] = 0
        theirs.eliminate_zeros(), theirs.sort_indices()
        answer["test images"] = test
        answer["test images whose support equals SPAMS's"] = same(exact.codes[:test], theirs)
    return answer


def _gap(encoded: Encoded) -> float:
    return float(encoded.gap[~encoded.capped].max(initial=0.0))
