"""`python -m prototag`: learn planted data, score what was held out, and say why.

The answer is known here: every image is a mixture of a few prototypes, each of which carries tags,
and people left out a fifth of the tags that would be right.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from prototag import MCDL, __version__, load, metrics
from prototag.datasets import planted
from prototag.mcdl import Progress

TRAIN, TEST = 2400, 600


def main() -> None:
    data = planted(TRAIN + TEST, t=40, k=150, missing=0.2, noise=0.4, random_state=7)
    X, Y, X_new, Y_new = data.X[:TRAIN], data.Y[:TRAIN], data.X[TRAIN:], data.Y_true[TRAIN:]
    print(
        f"prototag {__version__}: learning {TRAIN:,} images with 40 tags, a fifth of them missing"
    )

    def progress(step: Progress) -> None:
        left = "" if step.seconds_left is None else f", {step.seconds_left:.0f} s left"
        line = (
            f"  iteration {step.iteration}/{step.max_iter}: objective {step.objective:,.0f}{left}"
        )
        if sys.stdout.isatty():
            print(f"\r{line:<70}", end="", flush=True)
        elif step.iteration % 5 == 0:
            print(line)

    start = time.perf_counter()
    model = MCDL.paper(150, n_jobs=-1, random_state=0, callback=progress).fit(X, Y)
    if sys.stdout.isatty():
        print()
    print(
        f"  150 prototypes in {time.perf_counter() - start:.1f} s; every visual code is certified:"
    )
    print(f"  no code is further than {model.codes_gap_:.0e} from its optimum\n")

    start = time.perf_counter()
    scores = model.decision_function(X_new)
    each = (time.perf_counter() - start) / TEST * 1e6
    learned = metrics.report(Y_new, scores, model.threshold_)
    often = np.broadcast_to(np.asarray(Y.mean(axis=0)).ravel(), scores.shape)
    guess = metrics.report(Y_new, often, float(np.sort(often[0])[-6]))
    print(f"{TEST} new images, {each:.0f} microseconds each, against all tags that are right:")
    print("                      precision  recall      F1   tags found")
    for name, row in (("prototag", learned), ("the most frequent tags", guess)):
        figures = [100 * row[f"threshold_{part}"] for part in ("precision", "recall", "f1")]
        found = row["threshold_n_plus"]
        print(f"{name:22s}{figures[0]:8.1f} {figures[1]:7.1f} {figures[2]:7.1f} {found:6.0f} of 40")

    image = int(np.argmax(np.asarray((scores > model.threshold_).sum(axis=1))))
    right = {data.tag_names[tag] for tag in Y_new[[image]].indices}
    print(f"\nWhy image {image} was given its tags (parts of the score by prototype):")
    for part in model.explain(X_new[[image]])[0][:6]:
        name = data.tag_names[part.tag]
        shares = zip(part.prototypes[:3], part.shares[:3], strict=True)
        reasons = ", ".join(f"{share:.2f} from #{number}" for number, share in shares)
        verdict = "right" if name in right else "wrong"
        print(f"  {name}  {part.score:.2f}  {verdict:5s}  = {reasons}")

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "demo.prototag"
        model.save(path)
        same = np.array_equal(load(path).decision_function(X_new), scores)
        size = path.stat().st_size / 1024
    print(f"\nSaved and loaded again: {size:.0f} kB, same scores bit for bit: {same}")


if __name__ == "__main__":
    main()
