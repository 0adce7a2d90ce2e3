"""Throughput of the pipeline compared with the backbone alone on prepared tensors."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from prototag.engine.threads import count_threads, map_in_order
from prototag.features.backbones import EmbeddedBackbone
from prototag.features.transformer import FeatureExtractor
from prototag.features.vector_cache import VectorCache
from prototag.images.crops import View, crops_by_name
from prototag.images.decode import open_image


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def crops_of(files: list[Path], crops: str, network: EmbeddedBackbone) -> list[np.ndarray]:
    """Return the prepared input tensors of the backbone."""

    def view(size: tuple[int, int]) -> View:
        return crops_by_name(crops).view(size, network.size, network.shapes)

    images = (open_image(file, at_least=lambda size: view(size).at_least()) for file in files)
    return [view(image.size).cut(image, network.interpolation) for image in images]


def blocks_of(crops: str, network: EmbeddedBackbone) -> list[str]:
    """Return the names of the outputs."""
    return list(crops_by_name(crops).outputs or network.outputs)


def bare_run(network: EmbeddedBackbone, stacks: list[np.ndarray], names: list[str]) -> None:
    """Run the backbone alone on prepared tensors."""
    if len(stacks) == 1:
        network(stacks[0], names)
        return
    workers = count_threads(network.n_jobs)
    for _ in map_in_order(
        lambda s: network.alone(s, names), stacks, workers=workers, window=2 * workers
    ):
        pass


def pipeline(
    files: list[Path], crops: str, n_jobs: int, rounds: int, folder: Path
) -> dict[str, Any]:
    """Images per second from files on disk, cache written, against the bare network."""
    network = EmbeddedBackbone(n_jobs=n_jobs)
    pixels, names = crops_of(files, crops, network), blocks_of(crops, network)
    bare, whole = [], []
    for number in range(rounds):
        path = folder / f"{crops}-{n_jobs}-{len(files)}-{number}.sqlite"
        with VectorCache(path) as cache:
            extractor = FeatureExtractor(network, crops=crops, n_jobs=n_jobs, cache=cache)
            turns = [
                lambda: bare.append(seconds(lambda: bare_run(network, pixels, names))),
                lambda: whole.append(seconds(lambda: extractor.extract(files))),  # noqa: B023
            ]
            for turn in turns[:: 1 if number % 2 else -1]:
                turn()
    return {
        "crops": crops,
        "n_jobs": n_jobs,
        "images": len(files),
        "rounds": rounds,
        "bare_images_per_second": round(len(files) / median(bare), 2),
        "pipeline_images_per_second": round(len(files) / median(whole), 2),
        "share_of_bare_rate": round(median(b / w for b, w in zip(bare, whole, strict=True)), 3),
        "share_of_bare_rate_rounds": [round(b / w, 3) for b, w in zip(bare, whole, strict=True)],
    }


def against(files: list[Path], n_jobs: int, rounds: int, folder: Path) -> dict[str, Any]:
    """The default against what was the default (the paper's crops) and the bare network."""
    network = EmbeddedBackbone(n_jobs=n_jobs)
    pixels, names = crops_of(files, "large", network), blocks_of("large", network)
    taken: dict[str, list[float]] = {"bare": [], "large": [], "paper": []}
    for number in range(rounds):

        def turn(crops: str) -> None:
            if crops == "bare":
                taken[crops].append(seconds(lambda: bare_run(network, pixels, names)))
                return
            path = folder / f"against-{crops}-{n_jobs}-{len(files)}-{number}.sqlite"  # noqa: B023
            with VectorCache(path) as cache:
                extractor = FeatureExtractor(network, crops=crops, n_jobs=n_jobs, cache=cache)
                taken[crops].append(seconds(lambda: extractor.extract(files)))
            path.unlink()

        for crops in [*taken][:: 1 if number % 2 else -1]:
            turn(crops)
    pairs = zip(taken["bare"], taken["large"], taken["paper"], strict=True)
    shares = [(bare / large, paper / large) for bare, large, paper in pairs]
    rates = {crops: round(len(files) / median(given), 2) for crops, given in taken.items()}
    return {
        "n_jobs": n_jobs,
        "images": len(files),
        "rounds": rounds,
        "images_per_second": rates,
        "default_share_of_bare_rate": round(median(share for share, _ in shares), 3),
        "default_times_the_paper_s_crops": round(median(times for _, times in shares), 3),
        "rounds_share_and_times": [[round(a, 3), round(b, 3)] for a, b in shares],
    }


def one_image(file: Path, crops: str, n_jobs: int, rounds: int) -> dict[str, Any]:
    """Milliseconds that decoding, cropping and pooling add to one warm picture.

    Processor time does not count the turns of other processes; the quietest round is the least
    disturbed one.
    """
    network = EmbeddedBackbone(n_jobs=n_jobs)
    pixels, names = crops_of([file], crops, network), blocks_of(crops, network)
    extractor = FeatureExtractor(network, crops=crops, n_jobs=n_jobs, cache=None)
    extractor.transform([file])
    bare, whole, added = [], [], []
    for _ in range(rounds):
        start = time.process_time()
        bare.append(1e3 * seconds(lambda: bare_run(network, pixels, names)))
        middle = time.process_time()
        whole.append(1e3 * seconds(lambda: extractor.transform([file])))
        added.append(1e3 * (time.process_time() - middle - (middle - start)))
    return {
        "crops": crops,
        "n_jobs": n_jobs,
        "rounds": rounds,
        "bare_ms": round(median(bare), 2),
        "extractor_ms": round(median(whole), 2),
        "overhead_ms": round(median(w - b for b, w in zip(bare, whole, strict=True)), 2),
        "overhead_quietest_ms": round(min(whole) - min(bare), 2),
        "overhead_processor_ms": round(median(added), 2),
    }


def second_run(
    files: list[Path], crops: str, n_jobs: int, rounds: int, folder: Path
) -> dict[str, Any]:
    """How much faster the cache is: files untouched, and renamed so that each is read again."""
    network = EmbeddedBackbone(n_jobs=n_jobs)
    first, again, moved = [], [], []
    for number in range(rounds):
        with VectorCache(folder / f"second-{crops}-{number}.sqlite") as cache:
            extractor = FeatureExtractor(network, crops=crops, n_jobs=n_jobs, cache=cache)
            first.append(seconds(lambda: extractor.extract(files)))  # noqa: B023
            again.append(median(seconds(lambda: extractor.extract(files)) for _ in range(5)))  # noqa: B023
            files = [file.rename(file.with_name(f"{number}-{file.name[-9:]}")) for file in files]
            moved.append(seconds(lambda: extractor.extract(files)))  # noqa: B023
        time.sleep(2.1)  # until the stamps of the renamed files are trusted
    return {
        "crops": crops,
        "n_jobs": n_jobs,
        "images": len(files),
        "first_ms_per_image": round(1e3 * median(first) / len(files), 3),
        "again_ms_per_image": round(1e3 * median(again) / len(files), 4),
        "times_faster": round(median(f / a for f, a in zip(first, again, strict=True))),
        "times_faster_after_renaming": round(
            median(f / m for f, m in zip(first, moved, strict=True))
        ),
    }
