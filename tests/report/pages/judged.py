"""An evaluation with pictures and hostile names, for the pages."""

from __future__ import annotations

import numpy as np

from pictures import encoded, scene
from prototag.annotator.types import Prototype, TrainingPicture
from prototag.evaluation.evaluate import Evaluation, evaluate

HOSTILE = [
    "<script>window.hacked = 1</script>",
    "<img src=x onerror='window.hacked = 2'>",
    '"><svg onload="window.hacked = 3">',
    "</style></title></bdi><h1>large</h1>",
    "javascript:window.hacked=4",
    "\u202ereversed, \x00 and \ud800",
    "https://example.org/<link rel=stylesheet href=//example.org/a.css>",
    "W" * 1000,
    "🌊 the sea, 海, البحر",
]
N = 36


def evaluation() -> tuple[Evaluation, list[bytes | None]]:
    rng = np.random.default_rng(0)
    names = [*HOSTILE, *(f"tag {j}" for j in range(21))]
    Y = rng.random((N, len(names))) < 0.2
    p = np.clip(0.6 * Y + rng.normal(0.2, 0.2, Y.shape), 0, 1)
    images = [(HOSTILE[i] if i < len(HOSTILE) else f"{i}.jpg") for i in range(N)]
    result = evaluate(Y, p, 0.5, tags=names, probabilities=p, images=images, Y_train=Y)
    sources: list[bytes | None] = [encoded(scene(seed=i), "JPEG") for i in range(N)]
    sources[3:5] = [None, b"broken"]
    return result, sources


def prototypes(sources: list[bytes | None]) -> list[Prototype]:
    weights = [(name, 1 / (1 + place)) for place, name in enumerate(HOSTILE)]
    return [
        Prototype(TrainingPicture(HOSTILE[1], HOSTILE, source or b""), weights, 2)
        for source in sources[:6]
    ]
