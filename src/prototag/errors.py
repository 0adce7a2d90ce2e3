"""Errors that a user can fix. Messages say what was given, what is allowed and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class Remedy(Enum):
    """The remedy of an error; the value describes it for Python callers.

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
    """Base class of errors that a user can fix.

    Parameters
    ----------
    message : str
        What was given and what is allowed: a sentence, or with a remedy a clause without a period.
    remedy : Remedy, optional
        What to do, if the wording depends on the interface.
    """

    def __init__(self, *args: object, remedy: Remedy | None = None) -> None:
        self.message = str(args[0]) if args else ""
        self.remedy = remedy
        if remedy is not None:
            args = (_joined(self.message, remedy.value),)
        super().__init__(*args)

    def worded(self, words: Mapping[Remedy, str]) -> str:
        """Return the message with the remedy in the wording of an interface."""
        if self.remedy is None:
            return str(self)
        return _joined(self.message, words[self.remedy])


def _joined(message: str, remedy: str) -> str:
    return f"{message}: {remedy}."


class InputError(PrototagError, ValueError):
    """An input or an option is invalid, such as an empty folder or a wrong number."""


class UnknownNameError(InputError):
    """A named picture, tag or model does not exist."""


class NotEnoughMemoryError(PrototagError, MemoryError):
    """A fit needs more memory than is free."""


class ModelFileError(PrototagError, ValueError):
    """A model file is truncated, altered, too large, too new, or not a model file at all."""


class CheckpointError(PrototagError, ValueError):
    """A checkpoint belongs to a fit with other data or parameters."""


class ImageError(PrototagError, ValueError):
    """A picture cannot be read: missing, forbidden, empty, truncated, too large or no picture."""


class BackboneError(PrototagError, ValueError):
    """A network cannot be loaded or does not compute vectors."""


class CacheError(PrototagError, OSError):
    """The vector cache cannot be opened or written."""


class TrainingError(PrototagError, ValueError):
    """No model can be trained: no tags, only rare tags, or too few pictures."""


class MetadataError(PrototagError, ValueError):
    """Tags cannot be read or written: a damaged sidecar, a malicious file, a read-only folder."""


class DatasetError(PrototagError, ValueError):
    """A data set is incomplete, damaged or not the expected one."""


class LibraryError(PrototagError, OSError):
    """A library cannot be opened, read or written: damaged, too new, in use, or no free space."""


class ConflictError(PrototagError, RuntimeError):
    """The library changed since the state on which the request is based."""


class OpenDatabaseError(PrototagError, OSError):
    """A named file belongs to a database that this process has open."""


class ClusterError(PrototagError, RuntimeError):
    """A cluster is unreachable, runs other versions, lost all workers, or its workers crash."""
