"""All experiments of the paper on any collection: trials, tables, figures and one report."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from prototag.errors import InputError
from prototag.events import Meter, Progress
from prototag.research.datasets import Collection
from prototag.research.experiments import report_pages, studies
from prototag.research.experiments.trials import Laboratory, Task
from prototag.research.registry import OURS, Method, select
from prototag.storage.atomic_write import replacing


@dataclass(frozen=True)
class Scale:
    """The size of the studies."""

    seeds: tuple[int, ...] = (0, 1, 2)
    sizes: tuple[float, ...] = (0.03, 0.06, 0.12, 0.23)  # prototypes, as shares of the images
    iterations: int = 5  # in the studies `sizes` and `family`
    growth: tuple[int, ...] = (2_000, 4_000, 8_000, 16_000)  # training images
    tuning_seconds: float = 300.0  # per tuning


STAGE = "Experiments"
STUDIES = ("prototypes", "sizes", "family", "networks", "growth")  # beside the comparison
FULL = Scale()
QUICK = Scale(
    seeds=(0,),
    sizes=(0.05, 0.1, 0.2),
    iterations=3,
    growth=(500, 1_000, 2_000),
    tuning_seconds=15.0,
)


def run(
    collections: Sequence[Collection],
    folder: str | Path,
    *,
    quick: bool = False,
    methods: Sequence[str] | None = None,
    only: Sequence[str] | None = None,
    seeds: Sequence[int] | None = None,
    images: int | None = None,
    n_jobs: int = 1,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Run the studies; write ``report.html``, ``report.md``, ``report.tex`` and ``results.json``.

    Parameters
    ----------
    collections : with vectors
        All studies use the first; the others are further vectors of the same images (other
        networks or crops), for the comparison by network.
    folder : path
        Trials are stored in its subfolder ``trials``, from which an interrupted run resumes.
    quick : bool
        Run small studies with one seed, which take minutes on a small collection.
    methods : names, optional
        See :mod:`prototag.research.registry`; all by default.
    only : names, optional
        The studies beside the comparison: some of ``STUDIES``; all by default.
    seeds : optional
        For methods whose results depend on the seed.
    images : int, optional
        Train on at most so many images, drawn by seed 0; all test images are annotated.
    n_jobs : int
        Threads for fitting. Images are annotated on one thread.
    progress : callable, optional
        Called with an :class:`prototag.events.Event` before each trial, and one at the end.
    """
    folder = Path(folder)
    scale = QUICK if quick else FULL
    tasks = [Task.of(collection) for collection in collections]
    if images is not None:
        tasks = [task.first(images, 0) for task in tasks]
    if not tasks:
        raise ValueError("no collection to study: give at least one collection with vectors.")
    main = tasks[0]
    selected = select(methods)
    chosen = _select_studies(only)
    all_seeds = tuple(seeds or scale.seeds)
    announce = _Announcer(_count_steps(selected, chosen, all_seeds, scale, len(tasks)), progress)
    lab = Laboratory(folder / "trials", n_jobs=n_jobs, tuning_seconds=scale.tuning_seconds)
    n = len(main.X)
    counts = [max(2, round(share * n)) for share in scale.sizes]
    results: dict[str, Any] = {
        "collection": main.name,
        "checksum": main.checksum,
        "images": [n, len(main.X_test)],
        "tags": main.Y.shape[1],
        "quick": quick,
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": stamp(),
        "comparison": studies.comparison(lab, main, selected, all_seeds, announce),
    }
    k = counts[-1]
    near = _neighbour_methods(selected)
    run_study: dict[str, Callable[[], Any]] = {
        "prototypes": lambda: studies.prototypes(main, near, k, scale.iterations, n_jobs, announce),
        "sizes": lambda: studies.sizes(lab, main, counts, scale.iterations, announce),
        "family": lambda: studies.family(lab, main, k, scale.iterations, announce),
        "networks": lambda: studies.networks(lab, tasks, announce),
        "growth": lambda: studies.growth(scale.growth, n_jobs, announce),
    }
    for name in chosen:
        results[name] = run_study[name]()
    write(results, folder)
    announce("done")
    return results


def _select_studies(names: Sequence[str] | None) -> list[str]:
    """Return the studies with these names, in the order of ``STUDIES``; all if None."""
    unknown = [name for name in names or () if name not in STUDIES]
    if unknown:
        raise InputError(f"unknown study {'; '.join(unknown)}: select from {'; '.join(STUDIES)}.")
    return [name for name in STUDIES if names is None or name in names]


def _neighbour_methods(methods: Sequence[Method]) -> list[Method]:
    """Return the methods that run among prototypes, which are in principal components."""
    return [
        method
        for method in methods
        if method.family == "neighbours" and method.components is not None
    ]


class _Announcer:
    """Progress of steps: announcing a step completes the previous one."""

    def __init__(self, total: int, progress: Progress | None) -> None:
        self._meter = Meter(STAGE, total, progress)
        self._started = False

    def __call__(self, message: str) -> None:
        self._meter.advance(int(self._started), message=message)
        self._started = True


def _count_steps(
    methods: Sequence[Method],
    chosen: Sequence[str],
    seeds: Sequence[int],
    scale: Scale,
    tasks: int,
) -> int:
    """Count the steps that the studies announce."""
    trials = sum(len(seeds) if method.random else 1 for method in methods)
    differences = len(methods) - 1 if any(c.name == OURS for c in methods) else 0
    steps = {
        "prototypes": 1 + 2 * len(_neighbour_methods(methods)),
        "sizes": 2 * len(scale.sizes),
        "family": 3,
        "networks": 3 * tasks,
        "growth": len(scale.growth),
    }
    return trials + differences + sum(steps[name] for name in chosen)


def write(results: dict[str, Any], folder: Path) -> None:
    """Write the four files of a report, each atomically."""
    texts = {
        "results.json": json.dumps(results, indent=1) + "\n",
        "report.md": report_pages.markdown(results),
        "report.tex": report_pages.tex(results),
        "report.html": report_pages.page(results).html(),
    }
    for name, text in texts.items():
        with replacing(folder / name) as file:
            file.write(text.encode())


def stamp() -> dict[str, Any]:
    """Describe the machine, package versions and load, on which times depend."""
    packages = ("prototag", "numpy", "scipy", "scikit-learn")
    machine: dict[str, Any] = {
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": {name: version(name) for name in packages},
        "cores": os.cpu_count(),
    }
    if hasattr(os, "getloadavg"):
        machine["load_average"] = [round(value, 2) for value in os.getloadavg()]
    return machine
