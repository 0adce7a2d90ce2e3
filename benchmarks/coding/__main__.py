"""Speed of the coder compared with SPAMS, scikit-learn and the product X D^T, interleaved.

    python -m benchmarks.coding [--quick] [--only PART ...]

Two kinds of rows: *prepared*, where what depends on the prototypes alone is ready (our ``Coder``,
the Gram matrix of SPAMS), and *one call*, where everything is inside the clock. Every round times
each call once; figures are medians with quartiles over the rounds, in microseconds an image.
Writes benchmarks/results/coding.json and coding.md; with --only it renews these parts of them, and
says under which load.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from benchmarks.coding.encoders import CAP, SEED
from benchmarks.coding.exactness import certify
from benchmarks.coding.speed import one_call, prepared
from benchmarks.collections import best_at_hand
from benchmarks.machine import stamp

RESULTS = Path(__file__).parents[1] / "results"
PREPARED = (4_000, 12_000, 20_000)
PARTS = ("prepared", "one call", "exactness")
ONE_CALL = ((4_000, (1, 10, 100, 1_000, 10_000)), (12_000, (1, 100, 1_000)))


def measure(quick: bool, only: list[str]) -> dict[str, Any]:
    data = best_at_hand()
    machine = stamp(SEED, "spams-bin", "threadpoolctl")
    result: dict[str, Any] = {
        "machine": machine,
        "data": data.name,
        "checksum": data.checksum,
        "max_nonzeros": CAP,
        "threads": 1,
    }
    if quick:
        result["prepared"] = [prepared(data, 4000, 512, 3)]
        result["one call"] = [one_call(data, 4000, n, 3) for n in (1, 100)]
        result["exactness"] = [certify(data, 4000, 1000)]
        return result
    parts = {
        "prepared": lambda: [prepared(data, k, len(data.X_test), 9) for k in PREPARED],
        "one call": lambda: [
            one_call(data, k, n, 9 if n < 10_000 else 5) for k, sizes in ONE_CALL for n in sizes
        ],
        "exactness": lambda: [certify(data, 4000), certify(data, 12_000)],
    }
    if only:
        result = json.loads((RESULTS / "coding.json").read_text())
    for part in only or parts:
        result[part] = parts[part]()
        if only:
            result.setdefault("renewed", {})[part] = machine
    return result


def cell(spread: dict[str, float] | None, form: str) -> str:
    if spread is None:
        return ""
    low, median, high = (format(spread[name], form) for name in ("low", "median", "high"))
    return f"{median} ({low}-{high})"


def rows(head: str, columns: list[str], cells: dict[str, list[str]]) -> list[str]:
    lines = [f"| {head} | " + " | ".join(columns) + " |", "|---|" + "---|" * len(columns)]
    return lines + [f"| {name} | " + " | ".join(line) + " |" for name, line in cells.items()] + [""]


def table(result: dict[str, Any]) -> str:
    machine = result["machine"]
    lines = [
        f"# Coding: {result['data']}",
        "",
        f"{machine['processor']}, {machine['cores']} cores, {' '.join(machine['flags'])}; at most "
        f"{CAP} non-zeros, one thread unless said; microseconds an image: medians (quartiles) of "
        "interleaved rounds.",
        "",
        "## Prepared: our Coder ready, SPAMS with its Gram matrix given",
        "",
    ]
    ready = result["prepared"]
    columns = [f"k = {row['k']:,}" for row in ready]
    for part, form in (("microseconds", ",.1f"), ("ratios", ".2f")):
        names = ready[0][part]
        cells = {name: [cell(row[part].get(name), form) for row in ready] for name in names}
        lines += rows(part, columns, cells)
    lines += ["## One call: everything inside the clock", ""]
    for k in dict.fromkeys(row["k"] for row in result["one call"]):
        these = [row for row in result["one call"] if row["k"] == k]
        names = list(dict.fromkeys(name for row in these for name in row["microseconds"]))
        cells = {
            name: [cell(row["microseconds"].get(name), ",.1f") for row in these] for name in names
        }
        cells["ratio, SPAMS at its fastest / prototag"] = [
            cell(row.get("SPAMS / prototag"), ".2f") for row in these
        ]
        lines += rows(f"k = {k:,}, images:", [f"{row['images']:,}" for row in these], cells)
    lines += ["## Exactness", ""]
    for row in result["exactness"]:
        lines += rows(
            f"k = {row['k']:,}",
            ["images"],
            {
                name: [f"{value:.2g}" if isinstance(value, float) else f"{value:,}"]
                for name, value in row.items()
                if name != "k"
            },
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer images, nothing written")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=[], help="renew these parts")
    given = parser.parse_args()
    quick, result = given.quick, measure(given.quick, given.only)
    print(table(result))
    if not quick:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "coding.json").write_text(json.dumps(result, indent=1) + "\n")
        (RESULTS / "coding.md").write_text(table(result))


if __name__ == "__main__":
    main()
