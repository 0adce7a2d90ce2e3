"""Pictures -> network vectors, as a scikit-learn transformer."""

from __future__ import annotations

from typing import Any, ClassVar

from sklearn.base import BaseEstimator, TransformerMixin

from prototag.events import SharedByClones
from prototag.features.extractor import Extractor, Features, Skipped

__all__ = ["FeatureExtractor", "Features", "Skipped"]


class FeatureExtractor(SharedByClones, TransformerMixin, Extractor, BaseEstimator):  # type: ignore[misc]
    """Turns pictures into the vectors of a network's layer before the last.

    Parameters
    ----------
    backbone : "embedded", "quick", "best", path of an ONNX file, "timm:NAME", or a backbone
        See :func:`prototag.features.backbones.load`.
    crops : {"large", "fast", "paper", "five", "ten"}
        What the network is shown of each picture: see docs/method/features.md.
    selected_groups : sequence of str, optional
        Names of the feature groups to compute, in this order; by default those of ``crops``.
        ``feature_groups`` lists names and widths.
    n_jobs : int or None
        Threads of the network, and as many that decode: None is one, -1 all cores.
    engine : Engine, optional
        What computes the vectors instead of threads, such as a cluster
        (:class:`prototag.engine.dask.Dask`), whose machines must see the files.
    batch_size : int
        Pictures that go through the network, and into the cache, at a time.
    cache : "user", path, VectorCache or None
        Where vectors are kept; "user" is the user's cache folder, None nowhere.
    max_pixels : int
        Larger pictures are skipped.
    progress : callable, optional
        Called with an :class:`prototag.events.Event` after each batch.

    Examples
    --------
    >>> from prototag.features import FeatureExtractor
    >>> import numpy as np
    >>> picture = np.zeros((60, 80, 3), np.uint8)
    >>> FeatureExtractor(cache=None).transform([picture]).shape
    (1, 2272)
    """

    # A loaded network and an open cache cannot be copied, and need not be.
    _shared_by_clones: ClassVar[tuple[str, ...]] = ("progress", "cache", "backbone")

    def fit(self, X: object = None, y: object = None) -> FeatureExtractor:  # noqa: ARG002
        """Nothing is learned; here for pipelines."""
        self._backbone()
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        return tags
