"""Checkpoints of a fit: an interrupted fit loses at most one iteration."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from numbers import Integral
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from prototag.arrays import Array, Arrays, Floats
from prototag.errors import CheckpointError, ModelFileError
from prototag.mcdl.algorithm1 import OBJECTIVE, MCDLState
from prototag.storage import modelfile

# Of numbers in a checkpoint; products of larger ones could overflow.
MAX_ABSOLUTE_VALUE = 1e12


class FitParameters(Protocol):
    """The interface that a checkpoint needs of the fitted estimator."""

    checkpoint: str | Path | None
    max_iter: int
    random_state: Any

    def result_parameters(self) -> dict[str, Any]: ...

    def count_prototypes(self, n: int) -> int: ...


class Checkpoint:
    """A file that is replaced atomically after each iteration; without a path, a no-op."""

    def __init__(self, path: str | Path | None, fingerprint: str) -> None:
        self.path = path
        self.fingerprint = fingerprint
        self.state: MCDLState | None = None
        self._seed: int | None = None

    @classmethod
    def open(cls, fit: FitParameters, X: Floats, Y: sparse.csr_array) -> Checkpoint:
        """Open the checkpoint of a fit, and read its state if the file exists.

        The file must come from a fit with the same data and parameters. Without an integer
        ``random_state``, the fit resumes with the seed of the file.
        """
        path = fit.checkpoint
        seed = fit.random_state
        if path is None:
            return cls(None, "")
        number = int(seed) if isinstance(seed, Integral) else None
        self = cls(path, _fingerprint({**fit.result_parameters(), "random_state": number}, X, Y))
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
        try:
            self._seed = _seed_of(header)
            self.state = _state_of(arrays, len(X), X.shape[1], Y.shape[1])
            if len(self.state.D) != fit.count_prototypes(len(X)):
                raise ModelFileError("it has another number of prototypes")
        except ModelFileError as error:
            raise CheckpointError(
                f"{path} is damaged ({error}): delete it, or give checkpoint= another path."
            ) from None
        done = len(self.state.objective) - 1
        if done > fit.max_iter:
            raise CheckpointError(
                f"{path} has {done} iterations and max_iter={fit.max_iter}: "
                "raise max_iter, or delete it."
            )
        return self

    def seed(self, fresh: int) -> int:
        """Return the seed of the interrupted fit, or else ``fresh``."""
        if self._seed is None:
            self._seed = fresh
        return self._seed

    def write(self, state: MCDLState) -> None:
        """Replace the file by this state; do nothing without a path."""
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


def _seed_of(header: Mapping[str, Any]) -> int:
    seed = header.get("seed")
    if type(seed) is not int or seed < 0:
        raise ModelFileError(f"the header has seed = {seed!r}, expected a whole number")
    return seed


def _state_of(arrays: Arrays, n: int, m: int, t: int) -> MCDLState:
    """Read and validate a state; kernels do not check it again."""

    def array(name: str, *shape: int | None, kind: str = "f4") -> Array:
        return modelfile.expect_array(arrays, name, shape, kind, largest=MAX_ABSOLUTE_VALUE)

    visual = array("visual", None, m)
    k = len(visual)
    objective = array("objective", None, len(OBJECTIVE.names or ()), kind="f8")
    if not k or not len(objective):
        raise ModelFileError("it has no prototypes or no iteration")
    array("codes/data", None)
    return MCDLState(
        visual,
        array("semantic", k, t),
        modelfile.unpack_csr(arrays, "codes", (n, k)),
        array("tag_objective", t, kind="f8"),
        [tuple(row) for row in objective.tolist()],
    )


def _fingerprint(parameters: dict[str, Any], X: Floats, Y: sparse.csr_array) -> str:
    """Hash the data and all parameters but ``max_iter``, which may grow between fits."""
    compared = {name: value for name, value in parameters.items() if name != "max_iter"}
    digest = hashlib.sha256(json.dumps(compared, sort_keys=True, default=float).encode())
    for part in (np.array(X.shape), X, np.array(Y.shape), Y.indptr, Y.indices):
        digest.update(np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()
