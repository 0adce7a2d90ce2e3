"""Why an image was given a tag: its score taken apart into what each prototype gave."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

Floats = npt.NDArray[np.float32]


class Part(NamedTuple):
    """One tag of one image, and the prototypes behind its score, largest share first."""

    tag: Any
    score: float
    prototypes: npt.NDArray[np.intp]
    shares: Floats


def parts(
    codes: sparse.csr_array,
    S: Floats,
    scores: Floats,
    chosen: list[npt.NDArray[np.intp]],
    names: npt.NDArray[Any],
) -> list[list[Part]]:
    """For each image its chosen tags, the highest score first; shares add up to the score."""
    answer = []
    for image, columns in enumerate(chosen):
        used = slice(codes.indptr[image], codes.indptr[image + 1])
        prototype, amount = codes.indices[used], codes.data[used]
        found = []
        for column in columns[np.argsort(-scores[image, columns], kind="stable")]:
            share = amount * S[prototype, column]
            order = np.argsort(-share, kind="stable")[: np.count_nonzero(share)]
            found.append(
                Part(
                    names[column],
                    float(share.sum()),
                    prototype[order].astype(np.intp),
                    share[order],
                )
            )
        answer.append(found)
    return answer
