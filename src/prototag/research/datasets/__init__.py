"""Data sets: images or vectors with tags, names and a split into training and test."""

from prototag.research.datasets.clipart import clipart
from prototag.research.datasets.clipart import unpack as unpack_clipart
from prototag.research.datasets.collection import Collection
from prototag.research.datasets.iaprtc12_espgame_corel5k import corel5k, espgame, iaprtc12
from prototag.research.datasets.image_folder import folder
from prototag.research.datasets.mirflickr import flickr60k, flickr125k, mirflickr
from prototag.research.datasets.npz_bundles import bundle, save_bundle
from prototag.research.datasets.synthetic import Planted, hide_tags, planted

__all__ = [
    "Collection",
    "Planted",
    "bundle",
    "clipart",
    "corel5k",
    "espgame",
    "flickr60k",
    "flickr125k",
    "folder",
    "hide_tags",
    "iaprtc12",
    "mirflickr",
    "planted",
    "save_bundle",
    "unpack_clipart",
]
