"""The state of a fit after each iteration, so that a killed fit loses one iteration at most."""

from __future__ import annotations

import hashlib
import json
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from prototag.errors import CheckpointError
from prototag.storage import modelfile

State = tuple[Any, Any, sparse.csr_array, list[tuple[float, ...]]]


class Checkpoint:
    """One file, replaced atomically after each iteration; without a path it does nothing."""

    def __init__(self, path: str | Path | None, fingerprint: str) -> None:
        self.path = path
        self.fingerprint = fingerprint
        self.state: State | None = None
        self._seed: int | None = None

    @classmethod
    def open(
        cls,
        path: str | Path | None,
        recipe: dict[str, Any],
        X: npt.NDArray[np.float32],
        Y: sparse.csr_array,
        *,
        seed: Any,
        max_iter: int,
    ) -> Checkpoint:
        """The checkpoint at ``path``, with its state if there is one of the same fit.

        A ``seed`` that is a number must be the same; without one, that of the fit begun is kept.
        """
        if path is None:
            return cls(None, "")
        recipe = {**recipe, "random_state": int(seed) if isinstance(seed, Integral) else None}
        self = cls(path, _fingerprint(recipe, X, Y))
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
        if done > max_iter:
            raise CheckpointError(
                f"{path} has {done} iterations and max_iter={max_iter}: "
                "raise max_iter, or delete it."
            )
        k, n = len(arrays["visual"]), len(X)
        self._seed = int(header["seed"])
        self.state = (
            arrays["visual"],
            arrays["semantic"],
            modelfile.unpack_csr(arrays, "codes", (n, k)),
            [tuple(row) for row in arrays["objective"].tolist()],
        )
        return self

    def seed(self, fresh: int) -> int:
        """The seed of the fit that was begun, or ``fresh``."""
        if self._seed is None:
            self._seed = fresh
        return self._seed

    def keep(
        self,
        D: npt.NDArray[np.float32],
        S: npt.NDArray[np.float32],
        A: sparse.csr_array,
        objective: list[tuple[float, ...]],
    ) -> None:
        if self.path is None:
            return
        header = {"kind": "checkpoint", "fingerprint": self.fingerprint, "seed": self._seed}
        arrays = {"visual": D, "semantic": S, "objective": np.array(objective)}
        modelfile.write(self.path, header, arrays | modelfile.pack_csr("codes", A))


def _fingerprint(recipe: dict[str, Any], X: npt.NDArray[np.float32], Y: sparse.csr_array) -> str:
    """What must agree for a state to be continued; the number of iterations may grow."""
    decisive = {name: value for name, value in recipe.items() if name != "max_iter"}
    digest = hashlib.sha256(json.dumps(decisive, sort_keys=True, default=float).encode())
    for part in (np.array(X.shape), X, np.array(Y.shape), Y.indptr, Y.indices):
        digest.update(np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()
