"""What can go wrong, in words: what was given, what is allowed, what to do."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class Remedy(Enum):
    """What a user can do about an error; the value names it in Python.

    The command line and the service replace the value by their own command or request
    (:meth:`PrototagError.worded`).
    """

    SCAN = "Library.scan() reads new pictures"
    LEARN = "Library.learn() trains a model"
    LEARN_FULL = "Library.learn(full=True) trains a new model"
    LEARN_OR_GO_BACK = (
        "Library.learn(full=True) trains a new model, and Library.models() lists the ones to go "
        "back to"
    )
    TAG_MORE = "tag more pictures, or lower min_pictures"
    RANK_FOR_TAG = (
        "Library.suggest(tag) ranks pictures for one tag: accept or reject what it returns"
    )
    LIST_MODELS = "Library.models() lists the models"
    LIST_BATCHES = "Library.history() lists the batches"
    LIST_MODEL_TAGS = "Annotator.tags lists the tags that the model knows"


class PrototagError(Exception):
    """Base of the errors that this package raises for a reason a user can fix.

    Parameters
    ----------
    message : str
        What was given and what is allowed. A sentence, or, with a remedy, a clause without its end.
    remedy : Remedy, optional
        What to do, where its words depend on how the user came here.
    """

    def __init__(self, *given: object, remedy: Remedy | None = None) -> None:
        self.message = str(given[0]) if given else ""
        self.remedy = remedy
        if remedy is not None:
            given = (_joined(self.message, remedy.value),)
        super().__init__(*given)

    def worded(self, words: Mapping[Remedy, str]) -> str:
        """The message with the words of one interface for the remedy."""
        if self.remedy is None:
            return str(self)
        return _joined(self.message, words[self.remedy])


def _joined(message: str, remedy: str) -> str:
    return f"{message}: {remedy}."


class InputError(PrototagError, ValueError):
    """What was asked for makes no sense, or nothing fits it: an empty folder, a wrong number."""


class UnknownNameError(InputError):
    """A picture, tag or model is named that does not exist."""


class NotEnoughMemoryError(PrototagError, MemoryError):
    """A fit would need more memory than is free."""


class ModelFileError(PrototagError, ValueError):
    """A model file is truncated, altered, too large, too new, or not a model file at all."""


class CheckpointError(PrototagError, ValueError):
    """A checkpoint belongs to other data or other parameters than the fit that found it."""


class ImageError(PrototagError, ValueError):
    """A picture cannot be read: missing, forbidden, empty, truncated, too large, or none at all."""


class BackboneError(PrototagError, ValueError):
    """A network cannot be loaded, or does not turn pictures into vectors."""


class CacheError(PrototagError, OSError):
    """The cache of vectors cannot be opened or written."""


class TrainingError(PrototagError, ValueError):
    """A collection cannot be learned: no tags, tags that are all too rare, too few pictures."""


class MetadataError(PrototagError, ValueError):
    """Tags cannot be read or written: a broken sidecar, a hostile file, a folder that refuses."""


class DatasetError(PrototagError, ValueError):
    """A data set is incomplete, damaged, or not the one that was asked for."""


class LibraryError(PrototagError, OSError):
    """A library cannot be opened, read or written: damaged, too new, in use, on a full disk."""


class ConflictError(PrototagError, RuntimeError):
    """What was asked for was right once, but somebody has changed the library since."""


class OpenDatabaseError(PrototagError, OSError):
    """A file that was named belongs to a database that this process has open."""


class ClusterError(PrototagError, RuntimeError):
    """A cluster cannot be reached, has other versions, lost all workers, or dies over the work."""
