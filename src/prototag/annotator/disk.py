"""An annotator in its model file: model, operating points, and the gallery when it is asked for."""

from __future__ import annotations

import os
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

from prototag.annotator.gallery import Gallery
from prototag.annotator.operating_points import OperatingPoints
from prototag.annotator.results import Learned
from prototag.arrays import Array, below, prefixed
from prototag.errors import ModelFileError
from prototag.features.extractor import Extractor
from prototag.storage import modelfile
from prototag.tagging.model import TagModel

if TYPE_CHECKING:
    from prototag.annotator.annotator import Annotator

KIND = "annotator"


def write(annotator: Annotator, path: str | os.PathLike[str]) -> None:
    """Write an annotator to one file, atomically."""
    from prototag.storage.modelfile import provenance

    config, arrays = annotator.model.to_arrays()
    header = {
        "kind": KIND,
        "tags": annotator.tags,
        "model": config,
        "choices": annotator.choices,
        "features": annotator.extractor.to_state()[0],
        "learned": annotator.learned._asdict(),
        "provenance": provenance(),
    }
    every: dict[str, Array] = prefixed("model", arrays)
    every |= prefixed("operating_points", annotator.operating_points.to_arrays())
    every |= prefixed("gallery", annotator.gallery.to_arrays())
    modelfile.write(path, header, every)


def read(annotator: Annotator, path: Path) -> None:
    """Read what :func:`write` wrote into an annotator that has learned nothing."""
    header = modelfile.read_header(path)
    if header["kind"] != KIND:
        raise ModelFileError(
            f"{path} holds a {header['kind']!r}, which knows vectors but no pictures: give a "
            "model that `prototag train` or Annotator.save wrote."
        )
    annotator.path = path
    empty = annotator.extractor
    settings = {"n_jobs": empty.n_jobs, "cache": empty.cache, "progress": empty.progress}
    try:
        annotator.extractor = Extractor.from_state(header["features"], {}, **settings)
        # Network and model take as long to load, and mostly outside of the interpreter.
        network = Thread(target=annotator.extractor.prepare)
        network.start()
        try:
            _read_model(annotator)
        finally:
            network.join()
    except (AttributeError, KeyError, TypeError) as error:
        raise ModelFileError(f"{path} does not describe an annotator: {error}.") from error


def _read_model(annotator: Annotator) -> None:
    header, arrays = modelfile.read(annotator.path, wanted=lambda name: not _in_gallery(name))
    model = TagModel.from_arrays(header["model"], below(arrays, "model"))
    annotator.tags = _names(header["tags"], model.n_tags)
    annotator.choices = {str(name): float(value) for name, value in header["choices"].items()}
    points = below(arrays, "operating_points")
    annotator.operating_points = OperatingPoints.of(points, model.n_tags)
    annotator.learned, annotator.skipped = Learned.of(header["learned"]), []
    annotator.model, annotator.header = model, header


def read_gallery(annotator: Annotator) -> Gallery:
    """The training pictures of an annotator that was read from a file."""
    header, arrays = modelfile.read(annotator.path, wanted=_in_gallery)
    if header != annotator.header:
        raise ModelFileError(f"{annotator.path} was replaced since it was loaded: load it again.")
    return Gallery.of(below(arrays, "gallery"), annotator.model)


def _in_gallery(name: str) -> bool:
    return name.startswith("gallery/")


def _names(names: Any, t: int) -> list[str]:
    """The vocabulary of a file, checked."""
    text = isinstance(names, list) and all(isinstance(name, str) for name in names)
    if not text or not 0 < len(set(names)) == len(names) == t:
        raise ModelFileError(f"The vocabulary does not name {t} different tags.")
    return list(names)
