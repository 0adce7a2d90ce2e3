"""The library: one object for commands, pages and programs, which several threads may use."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self, Unpack

from prototag.events import Progress
from prototag.features.extractor import Extractor
from prototag.features.vector_cache import VectorCache
from prototag.library import decisions, exporter, ingest, learning_curves, queries, tag_table
from prototag.library import sidecar_sync as syncing
from prototag.library.database import Store
from prototag.library.queries import Choice, Facets, Which
from prototag.library.types import (
    ACCEPTED,
    CLEARED,
    COMPLETE,
    INCOMPLETE,
    REJECTED,
    Batch,
    BatchChange,
    CurvePoint,
    Decision,
    Learned,
    ModelView,
    PictureView,
    Reason,
    Scanned,
    Status,
    Suggestion,
    Synced,
    SyncPlan,
    TagView,
)

if TYPE_CHECKING:
    from prototag.annotator.annotator import Annotator
    from prototag.library.starting import Started
    from prototag.library.trainer import Learner

PathLike = str | os.PathLike[str]


class Library:
    """A collection in one file: its pictures, their tags, and what was decided of them.

    Parameters
    ----------
    path : path-like
        The file, made by :meth:`create`.
    n_jobs : int, optional
        Threads that look at pictures: None is one, -1 all cores.
    cache : str, path-like, VectorCache or None
        Where vectors of pictures are kept beside the library, as for
        :class:`prototag.FeatureExtractor`.
    progress : callable, optional
        Told how far long work is.

    Raises
    ------
    LibraryError
        There is no such library, or it cannot be opened; the message says what to do.
    """

    def __init__(
        self,
        path: PathLike,
        *,
        n_jobs: int | None = None,
        cache: str | PathLike | VectorCache | None = "user",
        progress: Progress | None = None,
    ) -> None:
        self.store = Store(path)
        self.path = self.store.path
        self.progress = progress
        self.extractor = Extractor(
            self.store.meta("backbone", "embedded"),
            crops=self.store.meta("crops", "large"),
            n_jobs=n_jobs,
            cache=cache,
            progress=progress,
        )

    @classmethod
    def create(
        cls,
        root: PathLike,
        path: PathLike | None = None,
        *,
        kind: str | Iterable[str] = "auto",
        column: str | None = None,
        hierarchy: str = "path",
        backbone: PathLike = "embedded",
        crops: str = "large",
        n_jobs: int | None = None,
        cache: str | PathLike | VectorCache | None = "user",
        progress: Progress | None = None,
    ) -> Self:
        """Make a library of a folder, or of a list of pictures; :meth:`scan` then fills it.

        Parameters
        ----------
        root : path-like
            The folder, searched with all below it, or the list.
        path : path-like, optional
            The new file; ``prototag.library`` in the folder, or beside the list, if not given.
        kind, column, hierarchy
            Where tags are looked for, as for :func:`prototag.metadata.collect`.
        backbone, crops
            What looks at pictures, as for :class:`prototag.FeatureExtractor`.
        """
        settings = {"backbone": os.fspath(backbone), "crops": crops}
        file = ingest.begin(Path(root), path, kind, column, hierarchy, settings)
        return cls(file, n_jobs=n_jobs, cache=cache, progress=progress)

    def close(self) -> None:
        """Close the file; the object cannot be used any more."""
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Settings of programs

    def setting(self, name: str, default: str) -> str:
        """Return what :meth:`set_setting` stored, else the default."""
        return self.store.meta(name, default)

    def set_setting(self, name: str, value: str) -> None:
        """Store a text of another program in the library's file."""
        self.store.set_meta(name, value)

    # Pictures

    def scan(
        self, *, progress: Progress | None = None, stop: Callable[[], bool] | None = None
    ) -> Scanned:
        """Look at the folders: new, moved, changed and vanished pictures, and their tags.

        Every batch of pictures is kept at once: what is interrupted goes on where it was. ``stop``
        is asked between batches; True ends the scan early.
        """
        return ingest.scan(
            self.store, self.extractor, progress=progress or self.progress, stop=stop
        )

    def status(self) -> Status:
        """How the library stands."""
        return queries.status(self.store)

    def prune(self) -> int:
        """Forget the pictures whose files are gone, with their decisions; how many these were."""
        return ingest.prune(self.store)

    def check(self) -> list[str]:
        """What is damaged, after a look at all of the file; nothing, as a rule."""
        return self.store.check()

    def picture(self, which: Which) -> PictureView:
        """One picture, named by its number, a path, or its digest in hexadecimal."""
        return queries.picture(self.store, which)

    def numbers(self, paths: Iterable[Which]) -> list[int]:
        """The numbers of pictures."""
        return queries.numbers(self.store, paths)

    def pictures(self, *, limit: int = 100, after: int = 0, **choice: Unpack[Choice]) -> list[int]:
        """Numbers of pictures that fit all that is asked for, a page at a time.

        Parameters
        ----------
        limit : int
            At most so many.
        after : int
            The last number of the page before.
        tags : sequence of str
            Pictures that have all of these.
        without : sequence of str
            Pictures that have none of these.
        state : {"tagged", "untagged", "waiting", "missing", "complete", "decided"}, optional
        folder : path-like, optional
            In it or below it.
        text : str, optional
            Part of a path or of a tag.
        """
        return queries.pictures(self.store, limit, after, choice)

    def pictures_named(self, file_name: str) -> list[int]:
        """Return the numbers of pictures with a file of this name, whatever its folder."""
        return queries.named(self.store, file_name)

    def count(self, **choice: Unpack[Choice]) -> int:
        """How many pictures :meth:`ingest` would give on all its pages."""
        return queries.count(self.store, choice)

    def facets(self) -> Facets:
        """Tags, folders and states with how many pictures each has."""
        return queries.facets(self.store)

    def thumbnail(self, number: int) -> bytes | None:
        """A small WebP of a picture, at most 256 pixels wide and high."""
        return queries.thumbnail(self.store, number)

    def place(self, number: int) -> Path | None:
        """A file of a picture that is there."""
        found = [path for path in self.picture(number).places if path.is_file()]
        return found[0] if found else None

    # Decisions

    def decide(
        self,
        pairs: Iterable[tuple[Which, str | None, str]],
        *,
        by: str = "person",
        new: bool = False,
    ) -> Batch:
        """Take decisions, (picture, tag, verdict), all together or none of them.

        Parameters
        ----------
        pairs : iterable of (picture, tag, verdict)
            The verdict is "accepted", "rejected" or "cleared"; with None for the tag, "complete"
            or "incomplete". A tag that is accepted may be new.
        by : str
            Who or what decides.
        new : bool
            Whether a tag that is rejected may be new, too.

        Returns
        -------
        Batch
            Its number, which :meth:`undo` takes, and how many decisions changed something.
        """
        numbered = [(self._number(which), tag, verdict) for which, tag, verdict in pairs]
        return decisions.decide(self.store, numbered, by, new)

    def accept(
        self, pictures: Iterable[Which], tags: Iterable[str], *, by: str = "person"
    ) -> Batch:
        """These pictures have these tags."""
        return self._decide_all(pictures, tags, ACCEPTED, by)

    def reject(
        self, pictures: Iterable[Which], tags: Iterable[str], *, by: str = "person"
    ) -> Batch:
        """These pictures lack these tags."""
        return self._decide_all(pictures, tags, REJECTED, by)

    def clear(self, pictures: Iterable[Which], tags: Iterable[str], *, by: str = "person") -> Batch:
        """Nothing is decided of these pictures and tags any more."""
        return self._decide_all(pictures, tags, CLEARED, by)

    def mark_complete(
        self, pictures: Iterable[Which], complete: bool = True, *, by: str = "person"
    ) -> Batch:
        """All that is not among the tags of these pictures is wrong; or nothing of the kind is."""
        verdict = COMPLETE if complete else INCOMPLETE
        return self.decide([(which, None, verdict) for which in pictures], by=by)

    def _decide_all(
        self, pictures: Iterable[Which], tags: Iterable[str], verdict: str, by: str
    ) -> Batch:
        names = [tags] if isinstance(tags, str) else list(tags)
        return self.decide([(one, tag, verdict) for one in pictures for tag in names], by=by)

    def _number(self, which: Which) -> int:
        return which if isinstance(which, int) else queries.numbers(self.store, [which])[0]

    def undo(self, batch: int) -> BatchChange:
        """Undo a batch of decisions, except those that a later decision overrides.

        Parameters
        ----------
        batch : int
            What deciding returned, or the history shows.

        Raises
        ------
        InputError
            There is no such batch.
        ConflictError
            It was undone already, or overridden as a whole: nothing was changed.
        """
        return decisions.undo(self.store, batch)

    def redo(self, batch: int) -> BatchChange:
        """Decide again what was undone of a batch, except where somebody has decided since.

        Raises
        ------
        InputError
            There is no such batch.
        ConflictError
            Nothing of it is undone, or all of it was decided since: nothing was changed.
        """
        return decisions.redo(self.store, batch)

    def history(self, limit: int = 50, before: int | None = None) -> list[Decision]:
        """Decisions, the last first; those with numbers below ``before`` if it is given."""
        return decisions.history(self.store, limit, before)

    def last_decision(self) -> int:
        """Return the number of the last decision; 0 where there is none."""
        return self.store.last_decision()

    def decided_by(self, which: Which, by: str) -> list[str]:
        """Return the tags of a picture whose last decision is by ``by`` and not cleared."""
        return decisions.standing(self.store, self._number(which), by)

    # Tags

    def tags(self, *, text: str | None = None) -> list[TagView]:
        """All tags by name, or those that hold a text."""
        return tag_table.tags(self.store, text)

    def known_tags(self, names: Iterable[str]) -> list[str]:
        """Return those of the names that are tags of this library, in their order."""
        return tag_table.existing(self.store, names)

    def curves(self, tag: str | None = None) -> dict[str, list[CurvePoint]]:
        """How well each tag, or one, was learned at rising numbers of its pictures."""
        return learning_curves.curves(self.store, tag)

    def rename(self, old: str, new: str) -> None:
        """Give a tag another name; if that is a tag already, the two become one."""
        tag_table.rename(self.store, old, new)

    def hide(self, tag: str, hidden: bool = True) -> None:
        """Never suggest a tag, or do so again."""
        tag_table.hide(self.store, tag, hidden)

    # Files

    def plan_sync(self) -> SyncPlan:
        """What :meth:`sync` would change; changes nothing."""
        return syncing.plan_sync(self.store, self.progress)

    def sync(
        self,
        plan: SyncPlan | None = None,
        *,
        progress: Progress | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> Synced:
        """Bring library and files together: changed tags in, accepted ones into sidecars.

        The second time nothing changes. No picture is ever written to. ``plan`` is what
        :meth:`plan_sync` gave; planned now if not given. ``stop`` is asked before each sidecar;
        True ends it early, and the next sync goes on.
        """
        return syncing.sync(self.store, plan, progress or self.progress, stop)

    # Exchange

    def export(self, file: PathLike) -> int:
        """Write all that cannot be made again as JSON lines; how many pictures is returned."""
        return exporter.export(self.store, file)

    @classmethod
    def restore(
        cls,
        file: PathLike,
        path: PathLike,
        *,
        root: PathLike | None = None,
        n_jobs: int | None = None,
        cache: str | PathLike | VectorCache | None = "user",
        progress: Progress | None = None,
    ) -> Self:
        """Make a library, ``path``, of what :meth:`export` wrote; :meth:`scan` finds its pictures.

        ``root`` is where the pictures lie now, if they were moved.
        """
        exporter.restore(file, path, root)
        return cls(path, n_jobs=n_jobs, cache=cache, progress=progress)

    # Learning

    @cached_property
    def learner(self) -> Learner:
        """What learns, and asks; loaded when it is first needed."""
        from prototag.library.trainer import Learner

        return Learner(self.store, self.extractor)

    def learn(self, *, full: bool | None = None, progress: Progress | None = None) -> Learned:
        """Learn from what was said since, in a moment, or everything anew.

        Parameters
        ----------
        full : bool, optional
            Learn everything anew; if not given, when enough has changed (:meth:`due`). The model
            in use answers meanwhile, in other threads too.
        progress : callable, optional
        """
        return self.learner.learn(full, progress or self.progress)

    def update_model(self) -> None:
        """Apply the pending decisions to the model in use, without a full retrain."""
        self.learner.refresh()

    def version(self) -> tuple[int | None, int]:
        """Return the number of the model in use, and a count that grows with changes of tags.

        As long as both are the same, :meth:`annotator` returns the same.
        """
        return queries.version(self.store)

    def due(self) -> bool:
        """Whether so much has changed that all should be learned anew."""
        return self.learner.due()

    def suggest(
        self,
        tag: str | None = None,
        *,
        uncertain: bool = False,
        limit: int = 40,
        skip: Iterable[int] = (),
    ) -> list[Suggestion]:
        """What to ask a person next. It knows all decisions made until now.

        Parameters
        ----------
        tag : str, optional
            Pictures for this tag, which may be new; else pairs of picture and tag.
        uncertain : bool
            Those whose decision teaches most, not those that are most likely right.
        limit : int
            At most so many; of look-alikes (the same ``group``) one.
        skip : iterable of int
            Pictures to leave out.
        """
        return self.learner.suggest(tag, uncertain=uncertain, limit=limit, skip=skip)

    def is_starting(self, tag: str) -> bool:
        """Return whether a tag has too few labels for a full fit, so that no model is needed."""
        return self.learner.is_starting(tag)

    def started(self, tag: str) -> Started | None:
        """Positive-unlabeled estimates of a tag that files give too few labels of, else None."""
        return self.learner.started(tag)

    def alike(self, number: int) -> list[int]:
        """The look-alikes of a picture (a burst), itself among them."""
        return queries.alike(self.store, number)

    def similar(self, which: Which, limit: int = 20) -> list[tuple[int, float]]:
        """The pictures most like one, with how alike they are (1 is the same)."""
        return self.learner.similar(self._number(which), limit)

    def explain(self, which: Which, tag: str) -> list[Reason]:
        """The pictures that speak most for a tag of one picture, and what each adds."""
        return self.learner.explain(self._number(which), tag)

    def annotator(self) -> Annotator:
        """What was learned until now, for any picture."""
        return self.learner.annotator()

    def models(self) -> list[ModelView]:
        """The models that can come back, the newest first."""
        return self.learner.models()

    def go_back(self, number: int) -> None:
        """Use an earlier model again. All decisions stay, and are learned on to it."""
        self.learner.go_back(number)
