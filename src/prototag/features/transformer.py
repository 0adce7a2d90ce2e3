"""Feature extraction as a scikit-learn transformer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

from prototag.arrays import Array, Floats
from prototag.events import SharedByClones
from prototag.features.extractor import Extractor, Features, Skipped

if TYPE_CHECKING:
    from prototag.images.decode import Source

__all__ = ["FeatureExtractor", "Features", "Skipped"]


class FeatureExtractor(SharedByClones, TransformerMixin, Extractor, BaseEstimator):  # type: ignore[misc]
    """Transformer of pictures to feature vectors of a pretrained backbone.

    Parameters
    ----------
    backbone : "embedded", "quick", "best", path of an ONNX file, "timm:NAME", or a backbone
        See :func:`prototag.features.backbones.load`.
    crops : {"large", "fast", "paper", "five", "ten"}
        Crops of a picture that are passed to the backbone: see docs/method/features.md.
    selected_groups : sequence of str, optional
        Names of the feature groups to compute, in this order; by default those of ``crops``.
        ``feature_groups`` lists names and widths.
    n_jobs : int or None
        Threads for inference, and as many for decoding: None is one, -1 all cores.
    engine : Engine, optional
        Engine that computes the vectors instead of threads, such as a cluster
        (:class:`prototag.engine.dask.Dask`), whose machines must be able to read the files.
    batch_size : int
        Pictures per inference and per transaction of the cache.
    cache : "user", path, VectorCache or None
        File of the vector cache; "user" is in the user's cache folder, None disables it.
    max_pixels : int
        Larger pictures are skipped.
    progress : "rich", "tqdm" or callable, optional
        Draws a progress bar, or is called with an :class:`prototag.events.Event` after each batch.

    Examples
    --------
    >>> from prototag.features import FeatureExtractor
    >>> import numpy as np
    >>> picture = np.zeros((60, 80, 3), np.uint8)
    >>> FeatureExtractor(cache=None).transform([picture]).shape
    (1, 2272)
    """

    # A loaded backbone and an open cache cannot be copied.
    _shared_by_clones: ClassVar[tuple[str, ...]] = ("progress", "cache", "backbone")

    def fit(self, X: object = None, y: object = None) -> FeatureExtractor:  # noqa: ARG002
        """Load the backbone; nothing is learned."""
        self._backbone()
        return self

    def transform(self, X: Sequence[Source]) -> Floats:
        """Compute the vectors of all pictures; an error lists those that cannot be read.

        After ``set_output(transform="pandas")`` the result is a data frame.
        """
        return super().transform(X)

    def get_feature_names_out(self, input_features: object = None) -> Array:  # noqa: ARG002
        """Name the columns by feature group and number, such as ``last_0``."""
        names = [
            f"{group.name}_{column}"
            for group in self.feature_groups
            for column in range(group.width)
        ]
        return np.array(names, dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        return tags
