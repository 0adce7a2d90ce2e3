"""The state of a fit after each iteration, so that a killed fit loses one iteration at most."""

from __future__ import annotations

import hashlib
import json
from numbers import Integral
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from prototag.arrays import Floats
from prototag.errors import CheckpointError
from prototag.mcdl.problem import State
from prototag.storage import modelfile


class Fit(Protocol):
    """What a checkpoint asks of the estimator that is being fitted."""

    checkpoint: str | Path | None
    max_iter: int
    random_state: Any

    def _recipe(self) -> dict[str, Any]: ...


class Checkpoint:
    """One file, replaced atomically after each iteration; without a path it does nothing."""

    def __init__(self, path: str | Path | None, fingerprint: str) -> None:
        self.path = path
        self.fingerprint = fingerprint
        self.state: State | None = None
        self._seed: int | None = None

    @classmethod
    def open(cls, fit: Fit, X: Floats, Y: sparse.csr_array) -> Checkpoint:
        """The checkpoint of a fit, with its state if there is one of the same fit.

        A ``random_state`` that is a number must be the same; without one, the seed of the fit that
        was begun is kept.
        """
        path, seed = fit.checkpoint, fit.random_state
        if path is None:
            return cls(None, "")
        number = int(seed) if isinstance(seed, Integral) else None
        self = cls(path, _fingerprint({**fit._recipe(), "random_state": number}, X, Y))
        if not Path(path).exists():
            return self
        header, arrays = modelfile.read(path)
        if header["kind"] != "checkpoint":
            raise CheckpointError(
                f"{path} is a {header['kind']!r}, not a checkpoint: give checkpoint= another path."
            )
        if header.get("fingerprint") != self.fingerprint:
            raise CheckpointError(
                f"{path} is the checkpoint of a fit with other data or other parameters: "
                "delete it, or give checkpoint= another path."
            )
        done = len(arrays["objective"]) - 1
        if done > fit.max_iter:
            raise CheckpointError(
                f"{path} has {done} iterations and max_iter={fit.max_iter}: "
                "raise max_iter, or delete it."
            )
        k, n = len(arrays["visual"]), len(X)
        self._seed = int(header["seed"])
        self.state = State(
            arrays["visual"],
            arrays["semantic"],
            modelfile.unpack_csr(arrays, "codes", (n, k)),
            arrays["tag_objective"],
            [tuple(row) for row in arrays["objective"].tolist()],
        )
        return self

    def seed(self, fresh: int) -> int:
        """The seed of the fit that was begun, or ``fresh``."""
        if self._seed is None:
            self._seed = fresh
        return self._seed

    def keep(self, state: State) -> None:
        """Replace the file by this state."""
        if self.path is None:
            return
        header = {"kind": "checkpoint", "fingerprint": self.fingerprint, "seed": self._seed}
        arrays = {
            "visual": state.D,
            "semantic": state.S,
            "objective": np.array(state.objective),
            "tag_objective": state.tag_objective,
        }
        modelfile.write(self.path, header, arrays | modelfile.pack_csr("codes", state.A))


def _fingerprint(recipe: dict[str, Any], X: Floats, Y: sparse.csr_array) -> str:
    """What must agree for a state to be continued; the number of iterations may grow."""
    decisive = {name: value for name, value in recipe.items() if name != "max_iter"}
    digest = hashlib.sha256(json.dumps(decisive, sort_keys=True, default=float).encode())
    for part in (np.array(X.shape), X, np.array(Y.shape), Y.indptr, Y.indices):
        digest.update(np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()
