"""Compare two checkouts between which only names, words and structure changed.

    python -m benchmarks.rename_check BEFORE_PYTHON [AFTER_PYTHON] [--rounds 7] [--only bits]

Each PYTHON is the interpreter of an environment with one checkout installed; AFTER_PYTHON is this
one if it is not given. Part ``bits`` requires identical bits of

    codes     sparse codes over the prototypes, of one set of vectors
    golden    scores and probabilities of the golden model of each checkout
    training  scores and thresholds of models that each checkout trained on the same vectors
    sidecars  the files that ``prototag annotate --write-xmp`` writes, each with its own model

and reports the metrics of ``recommended()`` on the test split of IAPRTC-12 and COCO (synthetic
data where they are not available). Part ``speed`` measures a cold start, fit and annotation as
``benchmarks.compare_versions`` does: new processes, interleaved, with one thread. Results:
benchmarks/results/language_before_after.json.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import compare_versions
from benchmarks.machine import PACKAGES, stamp
from benchmarks.quality import vectors
from benchmarks.tool.cold import run
from prototag.evaluation import metrics
from prototag.research.datasets import planted

TARGET = Path(__file__).parent / "results" / "language_before_after.json"
PARTS = ("bits", "speed")
SEED = 0
TRAINING_IMAGES = 5_000
COLLECTIONS = ("large+inner", "coco")
# Asked for by the issue: figures of both sides within 0.1 of a percentage point.
FIGURES = (
    "threshold_precision",
    "threshold_recall",
    "threshold_f1",
    "threshold_n_plus",
    "mean_average_precision",
)

# Both sides run the scripts below, so these use only what both have.
CODES = """
from prototag import Coder
with np.load(f"{work}/codes.npz") as file:
    X, prototypes = file["X"], file["prototypes"]
codes = Coder(prototypes).encode(X).codes
np.savez(f"{own}/codes.npz", data=codes.data, indices=codes.indices, indptr=codes.indptr)
print(json.dumps({"nonzeros": int(codes.nnz)}))
"""
GOLDEN = """
import prototag
from prototag.storage import modelfile
from prototag.tagging.model import TagModel
root = os.path.dirname(os.path.dirname(os.path.dirname(prototag.__file__)))
folder = os.path.join(root, "tests", "tagging", "golden")
header, arrays = modelfile.read(os.path.join(folder, "model.prototag"))
model = TagModel.from_arrays(header["model"], arrays)
with np.load(os.path.join(folder, "scores.npz")) as recorded:
    X = recorded["X"]
scores, probabilities = model.scores(X), model.probabilities(X)
np.savez(f"{own}/golden.npz", X=X, scores=scores, probabilities=probabilities)
print(json.dumps({"images": len(X)}))
"""
TRAIN = """
from scipy import sparse
from prototag import recommended
name = sys.argv[4]
with np.load(f"{work}/{name}.npz") as file:
    X, Y, X_test = (file[key] for key in ("X", "Y", "X_test"))
    groups = file["groups"].tolist()
model = recommended(n_jobs=threads, random_state=0)
renamed = "feature_groups" in model.get_params()
if groups:
    model.set_params(**{"feature_groups" if renamed else "blocks": groups})
model.fit(X, sparse.csr_array(Y.astype(np.float32)))
scores = model.decision_function(X_test)
np.savez(f"{own}/{name}.npz", scores=scores, threshold=np.asarray(model.threshold_))
print(json.dumps({"scored": len(scores)}))
"""


def write_codes(work: Path) -> dict[str, Any]:
    """Write unit vectors and prototypes; more prototypes than the kernel screens at once."""
    data = planted(3_000, 40, 300, m=128, noise=0.5, random_state=SEED)
    X = (data.X / np.linalg.norm(data.X, axis=1, keepdims=True)).astype(np.float32)
    np.savez(work / "codes.npz", X=X[1_000:], prototypes=X[:1_000])
    return {"name": "planted", "vectors": len(X) - 1_000, "prototypes": 1_000}


def write_collection(name: str, work: Path, most: int) -> tuple[dict[str, Any], np.ndarray]:
    """Write the vectors of a collection, and return its description and its test labels."""
    try:
        data = vectors.read(name, most, SEED)
        X, Y, X_test, truth = data.X, data.Y, data.X_test, data.Y_test
        groups, about = data.feature_groups, {"checksum": data.checksum}
    except FileNotFoundError:
        drawn = planted(most + 2_000, 80, most // 4, m=256, noise=0.5, random_state=SEED)
        X, Y, X_test, truth = drawn.X[:most], drawn.Y[:most], drawn.X[most:], drawn.Y[most:]
        groups, about = (), {"checksum": {"planted": f"seed {SEED}"}}
    np.savez(work / f"{name}.npz", X=X, Y=Y.toarray() > 0, X_test=X_test, groups=groups)
    return {**about, "training_images": X.shape[0], "test_images": X_test.shape[0]}, truth


def arrays_of(side: compare_versions.Side, name: str) -> dict[str, np.ndarray]:
    with np.load(side.own / f"{name}.npz") as file:
        return dict(file)


def same_bits(sides: dict[str, compare_versions.Side], name: str) -> dict[str, bool]:
    """Return for each array of a result whether both sides computed the same bytes."""
    before, after = (arrays_of(side, name) for side in sides.values())
    return {
        key: before[key].dtype == after[key].dtype and before[key].tobytes() == after[key].tobytes()
        for key in before
    }


def compare_training(
    sides: dict[str, compare_versions.Side], work: Path, name: str, most: int
) -> dict[str, Any]:
    """Train both sides on a collection; compare the bits and the metrics of the test split."""
    about, truth = write_collection(name, work, most)
    figures = {}
    for label, side in sides.items():
        side.script(TRAIN, name)
        trained = arrays_of(side, name)
        report = metrics.report(truth, trained["scores"], trained["threshold"])
        figures[label] = {
            key: round(report[key] * (1 if key.endswith("n_plus") else 100), 3) for key in FIGURES
        }
    old, new = figures.values()
    largest = max(abs(new[key] - old[key]) for key in FIGURES)
    return {
        **about,
        "same_bits": same_bits(sides, name),
        "figures": figures,
        "largest_difference": round(largest, 3),
    }


def compare_sidecars(sides: dict[str, compare_versions.Side], work: Path) -> dict[str, Any]:
    """Let both sides write sidecars of the same pictures, and compare the files."""
    sources = [Path(path) for path, _tags in json.loads((work / "new.json").read_text())]
    written: dict[str, dict[str, bytes]] = {}
    for label, side in sides.items():
        folder = side.own / "photos"
        folder.mkdir()
        for source in sources:
            (folder / source.name).write_bytes(source.read_bytes())
        command = [side.python, "-m", "prototag", "annotate", str(folder), "--write-xmp"]
        command += ["-m", str(side.own / "model.prototag"), "--top", "5"]
        run(command, side.environment)
        written[label] = {file.name: file.read_bytes() for file in sorted(folder.glob("*.xmp"))}
    before, after = written.values()
    differing = [
        name for name in before.keys() | after.keys() if before.get(name) != after.get(name)
    ]
    return {
        "pictures": len(sources),
        "sidecars": len(after),
        "bytes": sum(map(len, after.values())),
        "differing": len(differing),
        "same_bits": bool(after) and not differing,
    }


def compare_bits(sides: dict[str, compare_versions.Side], work: Path, most: int) -> dict[str, Any]:
    result: dict[str, Any] = {"codes": write_codes(work), "golden": {}, "training": {}}
    for name, script in (("codes", CODES), ("golden", GOLDEN)):
        for side in sides.values():
            result[name].update(side.script(script))
        result[name]["same_bits"] = same_bits(sides, name)
    for name in COLLECTIONS:
        result["training"][name] = compare_training(sides, work, name, most)
    result["sidecars"] = compare_sidecars(sides, work)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("before", metavar="BEFORE_PYTHON")
    parser.add_argument("after", metavar="AFTER_PYTHON", nargs="?", default=sys.executable)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", choices=PARTS, help="keep the recorded result of the other part")
    parser.add_argument("--quick", action="store_true", help="small, and nothing written")
    given = parser.parse_args()
    pictures, annotated, learned, scored, most = (
        (60, 60, 500, 1_000, 500) if given.quick else (400, 600, 1_500, 5_000, TRAINING_IMAGES)
    )
    result = json.loads(TARGET.read_text()) if TARGET.exists() and not given.quick else {}
    result["machine"] = stamp(SEED, "pillow", "onnxruntime")
    result["threads"] = 1
    pythons = (given.before, given.after)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        about = {
            "pictures": compare_versions.write_pictures(work, pictures, annotated),
            "vectors": compare_versions.write_vectors(work, learned, scored),
        }
        sides = {
            label: compare_versions.Side(os.path.abspath(path), work, label, 1, same_columns=False)
            for label, path in zip(compare_versions.SIDES, pythons, strict=True)
        }
        names = (*PACKAGES, "pillow", "onnxruntime")
        checkouts = {
            label: side.script(compare_versions.ABOUT, *names) for label, side in sides.items()
        }
        time.sleep(2.1)  # timestamps of files are trusted from two seconds on
        for side in sides.values():
            side.script(compare_versions.LEARN)
        if given.only in (None, "bits"):
            result["bits"] = {"sides": checkouts, **compare_bits(sides, work, most)}
            print(json.dumps(result["bits"], indent=1), flush=True)
        if given.only in (None, "speed"):
            times = compare_versions.measure(sides, 2 if given.quick else given.rounds)
            measured = {what: compare_versions.compared(seconds) for what, seconds in times.items()}
            result["speed"] = {
                "sides": checkouts,
                **about,
                "rounds": given.rounds,
                "measured": measured,
            }
            print(json.dumps(result["speed"], indent=1), flush=True)
    if not given.quick:
        TARGET.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
