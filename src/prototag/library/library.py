"""The public object of a library, for commands, pages and programs; threads may share it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack

from prototag.events import Progress
from prototag.features.extractor import Extractor
from prototag.features.vector_cache import VectorCache, default_path
from prototag.library import (
    decisions,
    exporter,
    ingest,
    learning_curves,
    preferences,
    queries,
    saved_searches,
    tag_table,
    write_places,
)
from prototag.library import sidecar_sync as syncing
from prototag.library import writes as file_writes
from prototag.library.database import Store
from prototag.library.facets import Facets
from prototag.library.facets import facets as count_facets
from prototag.library.filters import PictureFilter, PictureQuery
from prototag.library.large_thumbnails import FOLDER, LARGE_QUALITY, LargeThumbnails
from prototag.library.preferences import Preferences
from prototag.library.queries import PictureRef
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
    GeneralWord,
    ModelView,
    PictureView,
    Reason,
    ReviewBatch,
    ScanReport,
    SearchResult,
    Status,
    Suggestion,
    SyncPlan,
    SyncReport,
    TagView,
    TrainingReport,
)
from prototag.library.write_places import WritePlaces
from prototag.library.writes import UndoneWrite, WriteView

if TYPE_CHECKING:
    from prototag.annotator.annotator import Annotator
    from prototag.library.cold_start import ColdStartEstimate
    from prototag.library.trainer import Trainer

PathLike = str | os.PathLike[str]


class Library:
    """A collection in one file: its pictures, their labels, the decisions and the models.

    Parameters
    ----------
    path : path-like
        The file, created by :meth:`create`.
    n_jobs : int, optional
        Threads that decode pictures and compute vectors: None is one, -1 all cores.
    cache : str, path-like, VectorCache or None
        The vector cache, used besides the library, as for :class:`prototag.FeatureExtractor`.
    progress : callable, optional
        Called with the progress of long operations.

    Raises
    ------
    LibraryError
        The file does not exist or cannot be opened; the message says what to do.
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
            self.store.setting("backbone", "embedded"),
            crops=self.store.setting("crops", "large"),
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
        """Create a library for a folder or a list of pictures; :meth:`scan` then fills it.

        Parameters
        ----------
        root : path-like
            The folder, which is searched with its subfolders, or the list.
        path : path-like, optional
            The new file; ``prototag.library`` in the folder, or beside the list, if not given.
        kind, column, hierarchy
            Sources of tags, as for :func:`prototag.metadata.collect`.
        backbone, crops
            Network and crops, as for :class:`prototag.FeatureExtractor`.
        """
        settings = {"backbone": os.fspath(backbone), "crops": crops}
        file = ingest.create(Path(root), path, kind, column, hierarchy, settings)
        return cls(file, n_jobs=n_jobs, cache=cache, progress=progress)

    def close(self) -> None:
        """Close the file; the object cannot be used afterwards."""
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Settings of programs

    def setting(self, name: str, default: str) -> str:
        """Return what :meth:`set_setting` stored, else the default."""
        return self.store.setting(name, default)

    def set_setting(self, name: str, value: str) -> None:
        """Store a text of another program in the library's file."""
        self.store.set_setting(name, value)

    # Preferences

    def preferences(self) -> Preferences:
        """Return the preferences of the people who use the library."""
        return preferences.read(self.store)

    def set_file_types(self, names: Iterable[str]) -> None:
        """Set the kinds of files that scans look for, such as ``["JPEG", "camera raw"]``.

        Pictures of other kinds count as missing at the next scan; their labels and decisions stay.
        """
        preferences.set_file_types(self.store, names)

    def set_sources(self, kinds: Iterable[str]) -> None:
        """Set the kinds of files that tags are read from; none is what the next scan finds."""
        preferences.set_sources(self.store, kinds)

    def set_precision(self, precision: float | None) -> None:
        """Set the precision that is wanted of preselected pictures; None is the default."""
        preferences.set_precision(self.store, precision)

    # Pictures

    def scan(
        self, *, progress: Progress | None = None, stop: Callable[[], bool] | None = None
    ) -> ScanReport:
        """Find new, moved, changed and vanished pictures of the folders, and their tags.

        Every batch of pictures is committed: an interrupted scan resumes where it was. ``stop`` is
        called between batches and ends the scan early by returning True.
        """
        return ingest.scan(
            self.store, self.extractor, progress=progress or self.progress, stop=stop
        )

    def status(self) -> Status:
        """Return counts and state of the library."""
        return queries.status(self.store)

    def prune(self) -> int:
        """Remove the pictures whose files are gone, with their decisions; return their number."""
        return ingest.prune(self.store)

    def check(self) -> list[str]:
        """Check the whole file and return descriptions of any damage."""
        return self.store.check()

    def picture(self, which: PictureRef) -> PictureView:
        """Return one picture, by its number, a path, or its digest in hexadecimal."""
        return queries.picture(self.store, which)

    def numbers(self, paths: Iterable[PictureRef]) -> list[int]:
        """Return the numbers of pictures, each once."""
        return queries.numbers(self.store, paths)

    def pictures(
        self, *, limit: int = 100, after: int = 0, **choice: Unpack[PictureQuery]
    ) -> list[int]:
        """Return the numbers of pictures that match all conditions, a page at a time.

        Parameters
        ----------
        limit : int
            Pictures of one page.
        after : int
            The last number of the previous page.
        tags : sequence of str
            Pictures that have all of these.
        without : sequence of str
            Pictures that have none of these.
        state : {"tagged", "untagged", "suggested", "missing", "complete", "decided"}, optional
        folder : path-like, optional
            Pictures in this folder or its subfolders.
        camera, lens : str, optional
            Pictures that were taken with it, by their EXIF.
        date : str, optional
            Pictures that were taken then: "2023", "2023-05", "2023-05-17", "2022..2023-05".
        area : (south, west, north, east), optional
            Pictures that were taken between these degrees.
        query : str, optional
            A query as for :meth:`search`, whose words are in tags, paths or EXIF.
        """
        return queries.pictures(self.store, limit, after, choice)

    def has_tag(self, name: str) -> bool:
        """Return whether a name means a tag of the library, as for :meth:`pictures`."""
        return tag_table.is_tag(self.store, name)

    def search(
        self,
        query: str = "",
        *,
        order: str | None = None,
        like: PictureRef | None = None,
        limit: int = 100,
        ranked: int = 1_000,
        **choice: Unpack[PictureFilter],
    ) -> SearchResult:
        """Search pictures by words in any of sixteen languages, by conditions, or by likeness.

        Pictures whose tags, paths or EXIF have all words come first. Then others within the
        conditions follow, ranked by how much they look like what the words name, if the library
        has vectors of the default network.

        Parameters
        ----------
        query : str
            Words, such as "boats at sunset"; "boat or ship", "boat without people", "boat -people",
            a phrase in quotes, which must be in a tag or a path, and the fields ``tag:``,
            ``name:``, ``folder:``, ``camera:``, ``lens:``, ``date:`` and ``is:``.
        order : {"best", "added", "newest", "oldest", "name", "probability", "likeness"}, optional
            By default "likeness" if ``like`` is given, else "best" if there are words, else
            "added". "probability" is that of the most probable suggestion of a picture.
        like : int or path-like, optional
            A picture of the library that the others are compared with.
        limit : int
            Number of pictures.
        ranked : int
            Of these, largest number that only look like the words.
        **choice
            Conditions as for :meth:`pictures`.
        """
        from prototag.library import search

        number = None if like is None else self._number(like)
        wanted = search.Search(query, order, number, limit, ranked)
        return search.search(self.trainer.general, wanted, choice)

    def saved_searches(self) -> dict[str, str]:
        """Return the addresses of saved searches by their names."""
        return saved_searches.searches(self.store)

    def save_search(self, name: str, address: str) -> None:
        """Save a search of the page, or replace that of the same name."""
        saved_searches.save(self.store, name, address)

    def delete_search(self, name: str) -> None:
        """Delete a saved search."""
        saved_searches.delete(self.store, name)

    def pictures_named(self, file_name: str) -> list[int]:
        """Return the numbers of pictures with a file of this name, whatever its folder."""
        return queries.named(self.store, file_name)

    def count(self, **choice: Unpack[PictureQuery]) -> int:
        """Return how many pictures :meth:`pictures` returns on all pages."""
        return queries.count(self.store, choice)

    def facets(self, **choice: Unpack[PictureQuery]) -> Facets:
        """Count the pictures within a filter by tag, folder, state, camera, lens, month, place."""
        return count_facets(self.store, choice)

    def thumbnail(self, number: int) -> bytes | None:
        """Return a WebP of a picture, at most 256 pixels wide and high; None before its scan."""
        return queries.thumbnail(self.store, number)

    @cached_property
    def _large_thumbnails(self) -> LargeThumbnails | None:
        """Large thumbnails beside the vector cache; None without a cache."""
        cache = self.extractor.cache
        if cache is None:
            return None
        if isinstance(cache, VectorCache):
            path = cache.path
        else:
            path = default_path() if cache == "user" else Path(cache)
        return LargeThumbnails(path.parent / FOLDER)

    def kept_thumbnail(self, number: int, side: int) -> bytes | None:
        """Return a large thumbnail that was made before, else None; ``side`` is 512 or 1024."""
        kept = self._large_thumbnails
        return None if kept is None else kept.get(queries.digest(self.store, number), side)

    def make_thumbnail(self, number: int, side: int) -> bytes | None:
        """Make a large thumbnail of a picture and keep it; None if its file is gone."""
        from prototag.images.crops import fit_within, thumbnail
        from prototag.images.decode import open_image

        file = self.existing_file(number)
        if file is None:
            return None
        image = open_image(file, at_least=lambda size: fit_within(size, side))
        small = thumbnail(image, side, LARGE_QUALITY)
        if self._large_thumbnails is not None:
            self._large_thumbnails.put(queries.digest(self.store, number), side, small)
        return small

    def existing_file(self, number: int) -> Path | None:
        """Return a file of a picture that exists; None if all are gone."""
        return next((path for path in self.picture(number).files if path.is_file()), None)

    # Decisions

    def decide(
        self,
        pairs: Iterable[tuple[PictureRef, str | None, str]],
        *,
        by: str = "person",
        new: bool = False,
    ) -> Batch:
        """Make decisions in one transaction and one batch.

        Parameters
        ----------
        pairs : iterable of (picture, tag, verdict)
            The verdict is "accepted", "rejected" or "cleared"; with None for the tag, "complete"
            or "incomplete". An accepted tag may be new.
        by : str
            Name of the person or program that decides.
        new : bool
            Whether a rejected tag may be new, too.

        Returns
        -------
        Batch
            Its number, for :meth:`undo`, and how many decisions changed something.
        """
        numbered = [(self._number(which), tag, verdict) for which, tag, verdict in pairs]
        return decisions.decide(self.store, numbered, by, new)

    def accept(
        self, pictures: Iterable[PictureRef], tags: Iterable[str], *, by: str = "person"
    ) -> Batch:
        """Accept these tags for these pictures."""
        return self._decide_all(pictures, tags, ACCEPTED, by)

    def reject(
        self, pictures: Iterable[PictureRef], tags: Iterable[str], *, by: str = "person"
    ) -> Batch:
        """Reject these tags for these pictures."""
        return self._decide_all(pictures, tags, REJECTED, by)

    def clear(
        self, pictures: Iterable[PictureRef], tags: Iterable[str], *, by: str = "person"
    ) -> Batch:
        """Clear the decisions on these pictures and tags."""
        return self._decide_all(pictures, tags, CLEARED, by)

    def mark_complete(
        self, pictures: Iterable[PictureRef], complete: bool = True, *, by: str = "person"
    ) -> Batch:
        """Mark pictures as lacking all tags that they do not have, or remove that mark."""
        verdict = COMPLETE if complete else INCOMPLETE
        return self.decide([(which, None, verdict) for which in pictures], by=by)

    def _decide_all(
        self, pictures: Iterable[PictureRef], tags: Iterable[str], verdict: str, by: str
    ) -> Batch:
        names = [tags] if isinstance(tags, str) else list(tags)
        return self.decide([(one, tag, verdict) for one in pictures for tag in names], by=by)

    def _number(self, which: PictureRef) -> int:
        return which if isinstance(which, int) else queries.numbers(self.store, [which])[0]

    def undo(self, batch: int) -> BatchChange:
        """Undo a batch of decisions, except those that a later decision overrides.

        Parameters
        ----------
        batch : int
            The number that :meth:`decide` returned, or :meth:`history` lists.

        Raises
        ------
        InputError
            There is no such batch.
        ConflictError
            All its decisions are undone already or overridden: nothing was changed.
        """
        return decisions.undo(self.store, batch)

    def redo(self, batch: int) -> BatchChange:
        """Redo the undone decisions of a batch, except those that a later decision overrides.

        Raises
        ------
        InputError
            There is no such batch.
        ConflictError
            No decision is undone, or later ones override all of them: nothing was changed.
        """
        return decisions.redo(self.store, batch)

    def history(self, limit: int = 50, before: int | None = None) -> list[Decision]:
        """Return decisions, the last first, with ``before`` those of lower numbers only."""
        return decisions.history(self.store, limit, before)

    def last_decision(self) -> int:
        """Return the number of the last decision; 0 if there is none."""
        return self.store.last_decision()

    def decided_by(self, which: PictureRef, by: str) -> list[str]:
        """Return the tags of a picture whose last decision is by ``by`` and not cleared."""
        return decisions.tags_decided_by(self.store, self._number(which), by)

    # Tags

    def tags(self, *, text: str | None = None) -> list[TagView]:
        """Return all tags by name, or those that contain a text."""
        return tag_table.tags(self.store, text)

    def known_tags(self, names: Iterable[str]) -> list[str]:
        """Return those of the names that are tags of this library, in their order."""
        return tag_table.existing_tags(self.store, names)

    def learning_curves(self, tag: str | None = None) -> dict[str, list[CurvePoint]]:
        """Return the learning curves of all tags, or of one."""
        return learning_curves.curves(self.store, tag)

    def rename(self, old: str, new: str) -> None:
        """Rename a tag; if the new name is a tag already, merge the two."""
        tag_table.rename(self.store, old, new)

    def hide(self, tag: str, hidden: bool = True, *, new: bool = False) -> None:
        """Never suggest a tag, or suggest it again; with ``new`` the tag may be new.

        Hiding a new tag keeps a word of the general vocabulary from being suggested.
        """
        tag_table.hide(self.store, tag, hidden, new)

    # Files

    def plan_sync(self, pictures: Iterable[PictureRef] | None = None) -> SyncPlan:
        """Return what :meth:`sync` would change, without changing anything.

        With ``pictures``, tags are written to the files of these pictures only.
        """
        chosen = None if pictures is None else set(queries.numbers(self.store, pictures))
        return syncing.plan_sync(self.store, self.progress, chosen)

    def sync(
        self,
        plan: SyncPlan | None = None,
        *,
        progress: Progress | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> SyncReport:
        """Read changed tags from files, and write accepted tags to sidecars.

        A second sync changes nothing. Tags are written to sidecars, or into JPEG files if
        :meth:`set_write_places` was told so. ``plan`` is a result of :meth:`plan_sync`, by default
        of now. ``stop`` is called before each file and ends the sync early by returning True; the
        next sync resumes. ``write`` of the result is the number for :meth:`undo_write`.
        """
        return syncing.sync(self.store, plan, progress or self.progress, stop)

    def writes(self) -> list[WriteView]:
        """Return the last writes of :meth:`sync`, the latest first."""
        return file_writes.writes(self.store)

    def undo_write(
        self,
        number: int,
        *,
        progress: Progress | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> UndoneWrite:
        """Restore all files of a write exactly as they were before.

        Files that changed since are left as they are, and reported. Decisions stay: the next sync
        would write their tags again.

        Raises
        ------
        InputError
            There is no such write.
        ConflictError
            All its files are restored already.
        """
        return syncing.undo_write(self.store, number, progress or self.progress, stop)

    @property
    def write_places(self) -> WritePlaces:
        """Where :meth:`sync` writes tags, by kind of file."""
        return write_places.write_places(self.store)

    def set_write_places(
        self,
        *,
        jpeg: str | None = None,
        raw: str | None = None,
        other: str | None = None,
        iptc: bool | None = None,
    ) -> WritePlaces:
        """Choose where :meth:`sync` writes tags, by kind of file.

        Parameters
        ----------
        jpeg : {"sidecar", "file", "nowhere"}, optional
            Lightroom and Bridge read the tags of JPEG files only inside the file.
        raw, other : {"sidecar", "nowhere"}, optional
            Raw files, and pictures of other formats.
        iptc : bool, optional
            Write IPTC keywords also into JPEG files that have none; existing ones are always kept
            in step with XMP.
        """
        return write_places.set_write_places(self.store, jpeg=jpeg, raw=raw, other=other, iptc=iptc)

    # Exchange

    def export(self, file: PathLike) -> int:
        """Write labels, decisions and files as JSON lines; return the number of pictures."""
        return exporter.export(self.store, file)

    def picture_list(self, pictures: Iterable[PictureRef]) -> list[dict[str, Any]]:
        """Return ``{"file_name": path, "tags": [...]}`` of pictures, a list that training reads.

        The list lacks pictures whose files are gone.
        """
        return exporter.picture_list(self.store, queries.numbers(self.store, pictures))

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
        """Create the library ``path`` from an export; :meth:`scan` then finds its pictures.

        ``root`` is the folder of the pictures, if they have moved.
        """
        exporter.restore(file, path, root)
        return cls(path, n_jobs=n_jobs, cache=cache, progress=progress)

    # Training and suggestions

    @cached_property
    def trainer(self) -> Trainer:
        """The trainer, for this package; imported when it is first needed."""
        from prototag.library.trainer import Trainer

        return Trainer(self.store, self.extractor)

    def learn(
        self, *, full: bool | None = None, progress: Progress | None = None
    ) -> TrainingReport:
        """Apply the decisions since the last training, or fully retrain.

        Parameters
        ----------
        full : bool, optional
            Fully retrain; by default if enough has changed (:meth:`is_retrain_due`). The active
            model answers meanwhile, also in other threads.
        progress : callable, optional
        """
        return self.trainer.learn(full, progress or self.progress)

    def update_model(self) -> None:
        """Apply the pending label changes to the active model, without a full retrain."""
        self.trainer.update()

    def version(self) -> tuple[int | None, int]:
        """Return the number of the active model, and a count that grows with label changes.

        As long as both are the same, :meth:`annotator` returns the same.
        """
        return queries.version(self.store)

    def is_retrain_due(self) -> bool:
        """Return whether enough has changed for a full retrain."""
        return self.trainer.is_retrain_due()

    def suggest(
        self,
        tag: str | None = None,
        *,
        uncertain: bool = False,
        limit: int = 40,
        skip: Iterable[int] = (),
    ) -> list[Suggestion]:
        """Select pairs of picture and tag to review next, with all decisions applied.

        Parameters
        ----------
        tag : str, optional
            Suggest pictures for this tag; by default pairs of all tags. If no picture has it yet,
            its name ranks them.
        uncertain : bool
            Select the most informative pairs instead of the most probable ones.
        limit : int
            Number of pairs; of each near-duplicate group (``group``) one is returned.
        skip : iterable of int
            Pictures to exclude.
        """
        return self.trainer.suggest(tag, uncertain=uncertain, limit=limit, skip=skip)

    def review_batch(
        self,
        tag: str | None = None,
        queue: str | None = None,
        *,
        uncertain: bool = False,
        limit: int = 40,
        skip: Iterable[int] = (),
        language: str | None = None,
    ) -> ReviewBatch:
        """Select a page of pairs for review, with the threshold from which on to preselect them.

        For a tag this does not wait for an update that is running: the order may lack the last
        decisions, but decided pairs are never returned.

        Parameters
        ----------
        tag : str, optional
            Review pictures for this tag. If no picture has it, its name ranks them.
        queue : {"most_informative", "likely_missing", "likely_wrong", "general_words"}, optional
            Review pairs of all tags. Give either a tag or a queue.
        uncertain : bool
            Of a tag, select the most informative pictures instead of the most probable ones.
        limit : int
            Number of pairs.
        skip : iterable of int
            Pictures to exclude.
        language : str, optional
            Preferred language of general words, if the library has no setting.
        """
        from prototag.library import review

        return review.review_batch(
            self.trainer,
            tag,
            queue,
            uncertain=uncertain,
            limit=limit,
            skip=skip,
            language=language,
        )

    # Without labels

    @property
    def knows_words(self) -> bool:
        """Whether words can rank pictures: vectors of the default network were computed."""
        return self.trainer.general.is_available

    def release_words(self) -> None:
        """Free the memory of general suggestions and search until they are used again."""
        self.trainer.general.release()

    def set_language(self, language: str | None) -> None:
        """Set the language of general words, such as "de"; None is that of browser or system."""
        preferences.set_language(self.store, language)

    def general_words(self, language: str | None = None) -> list[GeneralWord]:
        """Return the words of the general vocabulary that are suggested, without any label.

        Parameters
        ----------
        language : str, optional
            Preferred language, such as "de"; the library's setting ``language`` goes first.
        """
        return self.trainer.general.words(language)

    def general_suggestions(
        self,
        which: PictureRef | None = None,
        *,
        limit: int = 40,
        skip: Iterable[int] = (),
        language: str | None = None,
    ) -> list[Suggestion]:
        """Suggest words of the general vocabulary, for a picture or for all.

        Their probabilities were calibrated on public collections. They are suggestions only:
        :meth:`accept` makes a word a tag. For all pictures, pairs of different words come first.
        """
        if which is None:
            return self.trainer.general.pairs(limit, skip, language)
        return self.trainer.general.of_picture(self._number(which), language)[:limit]

    def is_cold_start(self, tag: str) -> bool:
        """Return whether a tag has too few labels for a full fit, so that no model is needed."""
        return self.trainer.is_cold_start(tag)

    def cold_start_estimate(self, tag: str) -> ColdStartEstimate | None:
        """Return positive-unlabeled estimates of a tag in its cold start, else None."""
        return self.trainer.cold_start_estimate(tag)

    def near_duplicates(self, number: int) -> list[int]:
        """Return the near-duplicate group of a picture, including itself."""
        return queries.near_duplicates(self.store, number)

    def similar(self, which: PictureRef, limit: int = 20) -> list[tuple[int, float]]:
        """Return the pictures most similar to one, with their cosine similarities."""
        return self.trainer.similar(self._number(which), limit)

    def explain(self, which: PictureRef, tag: str) -> list[Reason]:
        """Return the pictures that contribute most to the score of a tag, with their shares."""
        return self.trainer.explain(self._number(which), tag)

    def annotator(self) -> Annotator:
        """Return an annotator for any picture, with all decisions applied."""
        return self.trainer.export_annotator()

    def models(self) -> list[ModelView]:
        """Return the models that can become active again, the newest first."""
        return self.trainer.models()

    def rollback(self, number: int) -> None:
        """Make an earlier model active; all decisions stay and are applied to it."""
        self.trainer.rollback(number)
