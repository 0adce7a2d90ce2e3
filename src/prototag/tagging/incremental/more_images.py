"""Adding labeled images to a fitted tagger, for ``Tagger.partial_fit``."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from prototag.arrays import Bools, Floats
from prototag.engine import Engine
from prototag.tagging.fit_result import FitResult
from prototag.tagging.incremental.fit_state import HAS, LACKS, FitState
from prototag.tagging.incremental.update import IncrementalTagger
from prototag.tagging.model import TagModel


class MoreImages:
    """A fit and the labeled images that came after it.

    Parameters
    ----------
    result : FitResult
        Of a fit in memory.
    examples : array of shape (e, m)
        Vectors of the examples of the fit.
    engine : Engine
    """

    def __init__(self, result: FitResult, examples: Floats, engine: Engine) -> None:
        # The examples are given, not the images that were grouped.
        result = replace(result, group_of=np.arange(len(examples)))
        self.model = result.model
        self.engine = engine
        self.state = FitState.from_fit(result, examples)
        self.tagger: IncrementalTagger | None = None

    def add(self, X: Floats, Y: Bools) -> TagModel:
        """Refit all tags to images (n x m) with their tags (n x t) in addition."""
        if self.tagger is None:
            self.tagger = IncrementalTagger(self.model, self.state, X, engine=self.engine)
        else:
            self.tagger.extend(X)
        labels = self.tagger.rows.labels
        labels[len(labels) - len(Y) :] = np.where(Y, HAS, LACKS)
        for column in range(self.tagger.n_tags):
            self.tagger.update_tag(column)
        return self.tagger.build_model()
