"""The coder against SPAMS, scikit-learn and the bare product X D^T, turn by turn in one run.

    python -m benchmarks.coding [--quick]

Writes benchmarks/results/coding.json and coding.md. Every round times each contender once, so that
a busy machine disturbs all alike; figures are medians over the rounds, in microseconds per image.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.collections import Collection, best_at_hand
from benchmarks.machine import stamp
from prototag.coding.coder import Coder
from prototag.engine import Threads

RESULTS = Path(__file__).parents[1] / "results"
CAP = 20
SEED = 0
TWO = Threads(2)


def prototypes(data: Collection, k: int, rng: np.random.Generator) -> np.ndarray:
    """k training vectors; beyond their number, vectors of other crops of the same images."""
    pool = data.X if k <= len(data.X) else np.vstack([data.X, data.X_more])
    return np.ascontiguousarray(pool[rng.permutation(len(pool))[:k]])


def timed(function: Callable[[], object], count: int) -> float:
    start = time.perf_counter()
    function()
    return (time.perf_counter() - start) / count * 1e6


def spams_coder(D: np.ndarray, threads: int) -> Callable[[np.ndarray], object] | None:
    try:
        import spams
    except ImportError:
        return None
    columns = np.asfortranarray(D.T)

    def code(X: np.ndarray) -> object:
        return spams.lasso(
            np.asfortranarray(X.T), D=columns, lambda1=1.0, mode=0, pos=True, L=CAP,
            numThreads=threads,
        )  # fmt: skip

    return code


def sklearn_coder(D: np.ndarray) -> Callable[[np.ndarray], object]:
    from sklearn.decomposition import sparse_encode

    return lambda X: sparse_encode(X, D, algorithm="lasso_lars", alpha=0.1, positive=True)


def compare(data: Collection, k: int, images: int, rounds: int) -> dict[str, object]:
    """Batch and single-image times at one number of prototypes."""
    D = prototypes(data, k, np.random.default_rng(SEED))
    X = data.X_test[:images]
    ours = Coder(D, max_nonzeros=CAP)
    with_gram = Coder(D, max_nonzeros=CAP, gram=True) if k <= 4000 else None
    rival = {threads: spams_coder(D, threads) for threads in (1, 2)}
    few = X[: max(2, images // 200)]
    contenders: dict[str, tuple[Callable[[], object], int]] = {
        "X D^T, 1 thread": (lambda: X @ D.T, len(X)),
        "prototag, 1 thread": (lambda: ours.encode(X), len(X)),
        "prototag, 2 threads": (lambda: ours.encode(X, engine=TWO), len(X)),
        "prototag, one image at a time": (
            lambda: [ours.encode(x[None]) for x in X[:50]],
            len(X[:50]),
        ),
        "scikit-learn sparse_encode": (lambda: sklearn_coder(D)(few[:2]), 2),
    }
    if rival[1] is not None and rival[2] is not None:
        contenders |= {
            "SPAMS lasso, 1 thread": (lambda: rival[1](X), len(X)),
            "SPAMS lasso, 2 threads": (lambda: rival[2](X), len(X)),
            "SPAMS lasso, one image at a time": (
                lambda: [rival[1](x[None]) for x in few],
                len(few),
            ),
        }
    ours.screening_map()  # learned once
    if with_gram is not None:
        with_gram.screening_map()
        contenders["prototag with D D^T, 1 thread"] = (
            lambda: with_gram.encode(X),
            len(X),
        )
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(rounds):
        for name, (function, count) in contenders.items():
            if name.startswith("scikit") and (number or k > 4000):
                continue
            with threadpool_limits(2 if "2 threads" in name else 1):
                times[name].append(timed(function, count))
    median = {name: float(np.median(t)) for name, t in times.items() if t}

    def ratio(a: str, b: str) -> float | None:
        # Ratios of the same round: what slowed one slowed the other.
        if not times.get(a) or not times.get(b):
            return None
        return float(np.median(np.array(times[a]) / np.array(times[b])))

    return {
        "k": k,
        "images": len(X),
        "rounds": rounds,
        "microseconds": median,
        "ratios": {
            "SPAMS / prototag, batch, 1 thread": ratio(
                "SPAMS lasso, 1 thread", "prototag, 1 thread"
            ),
            "SPAMS / prototag, batch, 2 threads": ratio(
                "SPAMS lasso, 2 threads", "prototag, 2 threads"
            ),
            "SPAMS / prototag, one image at a time": ratio(
                "SPAMS lasso, one image at a time", "prototag, one image at a time"
            ),
            "prototag / X D^T": ratio("prototag, 1 thread", "X D^T, 1 thread"),
            "prototag with D D^T / without": ratio(
                "prototag with D D^T, 1 thread", "prototag, 1 thread"
            ),
        },
    }


def supports(codes) -> list[frozenset[int]]:
    return [
        frozenset(codes.indices[a:b].tolist())
        for a, b in zip(codes.indptr[:-1], codes.indptr[1:], strict=True)
    ]


def certify(data: Collection, k: int, limit: int | None) -> dict[str, object]:
    """Gaps and supports of all images at one number of prototypes, against the exact mode."""
    D = prototypes(data, k, np.random.default_rng(SEED))
    X = np.vstack([data.X, data.X_test])[:limit]
    fast = Coder(D, max_nonzeros=CAP).encode(X, engine=TWO)
    exact = Coder(D, max_nonzeros=CAP, exact=True).encode(X, engine=TWO)
    ours, reference = supports(fast.codes), supports(exact.codes)
    answer: dict[str, object] = {
        "k": k,
        "images": len(X),
        "share where the cap binds": float(fast.capped.mean()),
        "largest gap where it does not": float(fast.gap[~fast.capped].max()),
        "largest gap of the exact mode": float(exact.gap[~exact.capped].max()),
        "share of equal supports": float(
            np.mean([a == b for a, b in zip(ours, reference, strict=True)])
        ),
    }
    rival = spams_coder(D, 2)
    if rival is not None:
        # SPAMS leaves crumbs of rounding in the codes of images that are prototypes themselves:
        # compared on images that are not, above the size that we count as zero.
        A = rival(data.X_test).T.tocsr()
        A.data[A.data <= 1e-6] = 0
        A.eliminate_zeros(), A.sort_indices()
        test = supports(
            Coder(D, max_nonzeros=CAP, exact=True).encode(data.X_test, engine=TWO).codes
        )
        same = [a == b for a, b in zip(supports(A), test, strict=True)]
        answer["share of test images whose support equals SPAMS's"] = float(np.mean(same))
    return answer


def table(result: dict) -> str:
    names = list(dict.fromkeys(name for row in result["speed"] for name in row["microseconds"]))
    ratios = list(result["speed"][0]["ratios"])
    ks = [f"k = {row['k']:,}" for row in result["speed"]]
    lines = [
        f"# Coding: {result['data']}",
        "",
        f"{result['machine']['processor']}, {result['machine']['cores']} cores; at most {CAP} "
        f"non-zeros; microseconds per image, medians of {result['speed'][0]['rounds']} interleaved "
        "rounds.",
        "",
        "| | " + " | ".join(ks) + " |",
        "|---|" + "---|" * len(ks),
    ]
    for name in names:
        cells = [row["microseconds"].get(name) for row in result["speed"]]
        lines.append(
            f"| {name} | " + " | ".join("" if c is None else f"{c:,.0f}" for c in cells) + " |"
        )
    lines += ["", "| ratio | " + " | ".join(ks) + " |", "|---|" + "---|" * len(ks)]
    for name in ratios:
        cells = [row["ratios"][name] for row in result["speed"]]
        lines.append(
            f"| {name} | " + " | ".join("" if c is None else f"{c:.1f}" for c in cells) + " |"
        )
    lines += ["", "Exactness:", ""]
    for row in result["exactness"]:
        lines += [f"- k = {row['k']:,}, {row['images']:,} images: " + "; ".join(
            f"{name} {value:.3g}" if "gap" in name else f"{name} {100 * value:.2f} %"
            for name, value in row.items() if name not in ("k", "images")
        )]  # fmt: skip
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer images, nothing written")
    quick = parser.parse_args().quick
    data = best_at_hand()
    sizes = [4000] if quick else [4000, 12_000, 20_000]
    images, rounds = (512, 3) if quick else (1536, 7)
    result = {
        "machine": stamp(SEED, "spams-bin", "threadpoolctl"),
        "data": data.name,
        "checksum": data.checksum,
        "max_nonzeros": CAP,
        "speed": [compare(data, k, images, rounds if k == 4000 else 3) for k in sizes],
        "exactness": [certify(data, 4000, 1000 if quick else None)]
        + ([] if quick else [certify(data, 12_000, 4000)]),
    }
    print(table(result))
    if not quick:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "coding.json").write_text(json.dumps(result, indent=1) + "\n")
        (RESULTS / "coding.md").write_text(table(result))


if __name__ == "__main__":
    main()
