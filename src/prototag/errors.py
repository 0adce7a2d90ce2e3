"""What can go wrong, in words: what was given, what is allowed, what to do."""


class PrototagError(Exception):
    """Base of the errors that this package raises for a reason a user can mend."""


class InputError(PrototagError, ValueError):
    """What was asked for makes no sense, or nothing fits it: an unknown tag, an empty folder."""


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
