"""Collections to learn from: vectors, tags, names and a split."""

from prototag.datasets.planted import Planted, planted

__all__ = ["Planted", "planted"]
