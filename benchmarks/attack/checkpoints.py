"""Forged checkpoints with valid checksums: refused with a message, or resumed from."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np

from benchmarks.attack import mutations
from benchmarks.attack.model_files import change_array, change_header, forge
from benchmarks.attack.runner import Attempt, in_words
from prototag import MCDL
from prototag.errors import PrototagError
from prototag.research.datasets import planted
from prototag.storage import modelfile


def prepare(folder: Path) -> Attempt:
    data = planted(n=40, t=5, k=12, m=10, random_state=0)
    path = folder / "checkpoint"
    settings = {"n_prototypes": 8, "random_state": 0, "checkpoint": path}
    MCDL(**settings, max_iter=1).fit(data.X, data.Y)
    original, (known, parts) = path.read_bytes(), modelfile.read(path)

    def attempt(rng: random.Random, _: Path) -> str:
        header, arrays = json.loads(json.dumps(known)), dict(parts)
        header.pop("tensors")
        if rng.random() < 0.2:
            path.write_bytes(mutations.damage(rng, original))
        else:
            if rng.random() < 0.3:
                change_header(rng, header)
            else:
                change_array(rng, arrays)
            path.write_bytes(forge(header, arrays, rng))
        try:
            model = MCDL(**settings, max_iter=2).fit(data.X, data.Y)
        except PrototagError as error:
            in_words(error)
            return "refused"
        assert np.isfinite(model.decision_function(data.X[:3])).all(), "scores that are not finite"
        return "sound"

    return attempt
