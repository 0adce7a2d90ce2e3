"""Speed of prepared encoders and of single calls, compared with X D^T in the same rounds."""

from __future__ import annotations

from typing import Any

from benchmarks.coding.encoders import (
    CAP,
    images,
    prototypes,
    sklearn_one_call,
    spams_one_call,
    spams_prepared,
)
from benchmarks.coding.interleaved_timing import Rounds, TimedCall
from benchmarks.collections import Collection
from prototag import sparse_encode
from prototag.coding.coder import Coder
from prototag.engine import Threads

ONE_BY_ONE = 50


def prepared(data: Collection, k: int, n: int, rounds: int) -> dict[str, Any]:
    """Our ``Coder`` ready, SPAMS with its Gram matrix given."""
    D, X = prototypes(data, k), images(data, n)
    ours, theirs = Coder(D, max_nonzeros=CAP), spams_prepared(D)
    ours.encode(X)  # whatever is learned once is learned now
    two, singles = Threads(2), [x[None] for x in X[:ONE_BY_ONE]]
    calls = {
        "X D^T": TimedCall(lambda: X @ D.T, len(X)),
        "prototag": TimedCall(lambda: ours.encode(X), len(X)),
        "prototag, 2 threads": TimedCall(lambda: ours.encode(X, engine=two), len(X), 2),
        "prototag, one image at a time": TimedCall(
            lambda: [ours.encode(x) for x in singles], len(singles)
        ),
    }
    if theirs is not None:
        calls["SPAMS, Gram given"] = TimedCall(lambda: theirs(X), len(X))
        calls["SPAMS, Gram given, one image at a time"] = TimedCall(
            lambda: [theirs(x) for x in singles], len(singles)
        )
    rounds_of_calls = Rounds(calls, rounds)
    ratios = {"prototag / X D^T": rounds_of_calls.ratio("prototag", "X D^T")}
    if theirs is not None:
        alone = ", one image at a time"
        ratios["SPAMS / prototag"] = rounds_of_calls.ratio("SPAMS, Gram given", "prototag")
        ratios["SPAMS / prototag" + alone] = rounds_of_calls.ratio(
            "SPAMS, Gram given" + alone, "prototag" + alone
        )
    return {
        "k": k,
        "images": len(X),
        "rounds": rounds,
        "microseconds": rounds_of_calls.report(),
        "ratios": {name: ratio._asdict() for name, ratio in ratios.items()},
    }


def one_call(data: Collection, k: int, n: int, rounds: int) -> dict[str, Any]:
    """Time the whole call, from vectors and prototypes to codes."""
    D, X = prototypes(data, k), images(data, n)
    calls = {
        "X D^T": TimedCall(lambda: X @ D.T, len(X)),
        "prototag": TimedCall(lambda: sparse_encode(X, D, max_nonzeros=CAP), len(X)),
    }
    baselines = {
        "SPAMS": spams_one_call(D, cholesky=False),
        "SPAMS, cholesky": spams_one_call(D, cholesky=True),
    }
    for name, code in baselines.items():
        if code is not None:
            calls[name] = TimedCall(lambda code=code: code(X), len(X))
    if k <= 4000 and n == 1:
        calls["scikit-learn"] = TimedCall(lambda: sklearn_one_call(D)(X), len(X))
    rounds_of_calls = Rounds(calls, rounds)
    answer: dict[str, Any] = {
        "k": k,
        "images": len(X),
        "rounds": rounds,
        "microseconds": rounds_of_calls.report(),
    }
    present = [name for name in baselines if name in calls]
    if present:
        fastest = rounds_of_calls.fastest(*present)
        answer["fastest SPAMS"] = fastest
        answer["SPAMS / prototag"] = rounds_of_calls.ratio(fastest, "prototag")._asdict()
    return answer
