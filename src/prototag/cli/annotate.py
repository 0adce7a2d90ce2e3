"""``prototag annotate``: tag new pictures; print the tags, or write them to files."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

from prototag.cli import cluster_option as clusters
from prototag.cli import general_option, terminal
from prototag.cli.cluster_option import Cluster
from prototag.cli.general_option import General, GeneralOptions, Language, Network, Vocabulary
from prototag.cli.terminal import Cache, Jobs, Json, Model, Pictures, Quiet
from prototag.errors import InputError

if TYPE_CHECKING:
    from prototag.annotator.annotator import Annotator
    from prototag.annotator.operating_points import TagSelector
    from prototag.annotator.types import Annotation, Tag
    from prototag.cli.output import Format, Journal
    from prototag.metadata.write_policy import Outcome, Place, WritePolicy

RESULT_HEADS = (  # first bytes of result files
    b'{"path": ',
    b"path,tag,status,probability,score,note\n",
    b'{"info": {"description": "Tags of prototag"',
    b'{"classes": [',
    b'{"file_name": ',
)
ENDINGS = ("", ".csv", ".json", ".jsonl", ".ndjson")  # of result files


def annotate(
    context: typer.Context,
    paths: Pictures,
    model: Model = Path(terminal.MODEL),
    general: General = False,
    language: Language = None,
    vocabulary: Vocabulary = None,
    network: Network = None,  # noqa: ARG001 - its callback refuses it
    min_probability: Annotated[
        float | None,
        typer.Option(
            parser=terminal.share,
            metavar="SHARE",
            help="Apply every tag with at least this probability: 0.5, 50 or 50%.",
        ),
    ] = None,
    precision: Annotated[
        float | None,
        typer.Option(
            parser=terminal.share,
            metavar="SHARE",
            help="Precision to aim for: the share of applied tags that are correct, as 0.9, 90 or "
            "90%. If it cannot be reached, no tag is applied. 70% if not given.",
        ),
    ] = None,
    top: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of tags per picture; a maximum when combined with --min-probability or "
            "--precision.",
        ),
    ] = None,
    tags: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|LIST",
            help="Apply only these tags: a file with one per line, or a list separated by commas.",
        ),
    ] = None,
    research: Annotated[
        bool,
        typer.Option(
            "--research",
            help="Apply every tag, reliable or not, by the threshold of its best F1: the protocol "
            "of the literature, not for your files.",
        ),
    ] = False,
    json: Json = False,
    csv: Annotated[
        bool,
        typer.Option(
            "--csv",
            help="Print CSV instead of text, one row per tag. Text that a spreadsheet would "
            "compute, such as =1+1, gets an apostrophe in front.",
        ),
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Write the results to this file: as CSV if its name ends in .csv, as JSON lines "
            "if it ends in .jsonl or .json, or has no ending.",
        ),
    ] = None,
    dataset: Annotated[
        Literal["coco", "fiftyone", "imagefolder"] | None,
        typer.Option(
            "--format",
            help="Write --output as a data set: COCO, FiftyOne's classification labels, or the "
            "metadata.jsonl or metadata.csv of Hugging Face's imagefolder.",
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue an interrupted run with the same --output.")
    ] = False,
    write_xmp: Annotated[
        bool,
        typer.Option("--write-xmp", help="Write the tags to XMP sidecars of the pictures."),
    ] = False,
    embed: Annotated[
        bool,
        typer.Option(
            "--embed",
            help="Write the tags into JPEG files, where Lightroom reads them; the pixels stay "
            "bit-identical. With --write-xmp, other pictures get sidecars.",
        ),
    ] = False,
    write: Annotated[
        Literal["applied", "estimates"],
        typer.Option(
            help="What --write-xmp and --embed write: applied tags, or estimates, too, which are "
            "more likely right than wrong."
        ),
    ] = "applied",
    keep_originals: Annotated[
        bool,
        typer.Option(
            "--keep-originals", help="With --embed: keep the old file as photo.jpg_original."
        ),
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Show how many pictures would get each tag by --write-xmp or --embed, without "
            "writing.",
        ),
    ] = False,
    diff: Annotated[
        bool, typer.Option("--diff", help="Show every change of tags in full, without writing.")
    ] = False,
    sidecar: Annotated[
        Literal["auto", "full", "stem"],
        typer.Option(
            help="Name new sidecars photo.jpg.xmp (full), photo.xmp (stem), or the second for raw "
            "files and the first for others (auto)."
        ),
    ] = "auto",
    quiet: Quiet = False,
    jobs: Jobs = -1,
    cluster: Cluster = None,
    cache: Cache = None,
) -> None:
    """Tag pictures with a model, or without one from a general vocabulary in sixteen languages.

    About 70% or more of the applied tags are correct, as cross-validation estimates. Others are
    shown only: as estimates ("probably ..."), which are more likely right than wrong, and as
    suggestions ("perhaps ..."). --write estimates writes estimates, too; suggestions are never
    written. The vector cache keeps computed vectors, so that a repeated run is fast.
    """
    if (min_probability is not None) + (precision is not None) + research > 1:
        raise typer.BadParameter("give only one of --min-probability, --precision, --research.")
    if resume and output is None:
        raise typer.BadParameter("--resume continues an output file: give --output too.")
    if keep_originals and not embed:
        raise typer.BadParameter("--keep-originals is for --embed: give both.")
    form = _form_of(output, json=json, csv=csv)
    if dataset is not None:
        form = _check_dataset(dataset, output, paths, other_form=json or csv)
    terminal.check_output(output, "a result of annotate", RESULT_HEADS)
    from prototag.cli import output as output_format

    engine = clusters.join(cluster) if cluster else None
    without_model = GeneralOptions(general, language, vocabulary)
    annotator = general_option.load(context, model, without_model, jobs, cache, engine)
    names = None if tags is None else output_format.vocabulary(tags, annotator.tags)
    options: dict[str, Any] = {
        "min_probability": min_probability,
        "precision": precision,
        "top": top,
        "vocabulary": names,
        "research": research,
    }
    selector = annotator.selector(**options)  # refuses invalid options before any picture is read
    run = _Run(annotator, selector, why_no_tag(annotator, selector, precision))
    if selector.min_probability == float("inf") or not selector.allowed.any():
        terminal.print_info(
            f"No tag will be applied: {run.why_none}. Probable tags are only suggested."
        )
    if write_xmp or embed or dry_run or diff:
        run.writer = _Writer(
            _policy(write_xmp, embed, sidecar, keep_originals),
            dry_run or diff,
            diff,
            write == "estimates",
        )
    if output is not None:
        journal = output_format.Journal(output, form, _identity(annotator, options), resume)
        _into_journal(run, paths, journal, quiet)
    else:
        _onto_terminal(run, paths, form if json or csv else None, quiet)
    run.report()


def _policy(
    write_xmp: bool, embed: bool, naming: Literal["auto", "full", "stem"], keep_originals: bool
) -> WritePolicy:
    from prototag.metadata.write_policy import WritePolicy

    place: Place = "sidecar"
    if embed:
        place = "file or sidecar" if write_xmp else "file"
    return WritePolicy(place, naming, keep_originals)


def _into_journal(run: _Run, paths: list[Path], journal: Journal, quiet: bool) -> None:
    """Annotate into a file; an interrupted run keeps its results for --resume."""
    try:
        run.process(paths, journal.write, skip=journal.done, progress=not quiet)
    except KeyboardInterrupt:
        done = terminal.count(len(journal.done) + run.n_done, "picture")
        terminal.print_error(
            f"{done} {'is' if done.startswith('1 ') else 'are'} kept in {journal.part}: the "
            "same command with --resume continues after them."
        )
        raise
    finally:
        journal.close()
    journal.finish()


def _onto_terminal(run: _Run, paths: list[Path], form: Format | None, quiet: bool) -> None:
    """Annotate and print the results, as JSON or CSV if given."""
    from prototag.cli import output as output_format

    only_changes = run.writer is not None and run.writer.dry_run
    show = terminal.is_terminal() and not only_changes
    shown: Format = "table" if terminal.is_terminal() else "plain"
    printer = output_format.Writer(sys.stdout, form or shown)
    print_nothing = only_changes and form is None  # the changes are the result
    run.process(paths, _nothing if print_nothing else printer.write, progress=not (show or quiet))


def _form_of(output: Path | None, *, json: bool, csv: bool) -> Format:
    """Return the format of the results; refuse a contradicting file name."""
    if json and csv:
        raise typer.BadParameter("give --json or --csv, not both.")
    if output is None:
        return "csv" if csv else "json"
    terminal.check_ending(output, "results", ENDINGS, "CSV (.csv) or JSON lines (.jsonl, .json)")
    ending = output.suffix.lower()
    form: Format = "csv" if ending == ".csv" else "json"
    if ending and ((csv and form == "json") or (json and form == "csv")):
        raise typer.BadParameter(
            f"--output {output.name}: its ending and {'--csv' if csv else '--json'} contradict "
            "each other. Give one of them."
        )
    return "csv" if csv else form


def _check_dataset(
    form: Literal["coco", "fiftyone", "imagefolder"],
    output: Path | None,
    paths: list[Path],
    *,
    other_form: bool,
) -> Format:
    """Refuse an output file that is not of the format, or cannot name the pictures."""
    from prototag.metadata.dataset_json import check_folder

    if output is None or other_form:
        raise typer.BadParameter(
            "--format is of a data set: give --output, and neither --json nor --csv."
        )
    endings = (".jsonl", ".csv") if form == "imagefolder" else (".json",)
    terminal.check_ending(output, f"data sets of {form}", endings, " or ".join(endings))
    check_folder(output, [path for path in paths if str(path) != "-"], form)
    return form


def why_no_tag(annotator: Annotator, selector: TagSelector, precision: float | None) -> str:
    """Return a clause that explains why a picture gets no tag by this selection."""
    from prototag.annotator.operating_points import DEFAULT_PRECISION

    if selector.score_thresholds is not None:
        return "no tag exceeds the threshold of its best F1"
    if not annotator.operating_points.learnable.any():
        return "the model learned no tag"
    if not selector.allowed.any():
        return "the model did not learn the tags of --tags"
    if selector.min_probability == float("inf"):
        target = terminal.percent(DEFAULT_PRECISION if precision is None else precision)
        return f"no threshold reaches an expected precision of {target}"
    return f"no tag reaches the probability {selector.min_probability or 0:.2f}"


class Written(NamedTuple):
    """Messages about writing the tags of one picture."""

    failed: bool = False
    messages: tuple[str, ...] = ()
    diff: str = ""  # empty unless --diff
    changes: dict[str, list[str]] | None = None  # added and removed tags, for programs


class _Run:
    """One run over pictures, with its counts."""

    def __init__(self, annotator: Annotator, selector: TagSelector, why_none: str) -> None:
        self.annotator = annotator
        self.selector = selector
        self.why_none = why_none
        self.writer: _Writer | None = None
        self.n_done = 0
        self.n_failed = 0
        self.n_unread = 0  # parts of folders that cannot be searched
        self.n_in_training_set = 0
        self.n_unreadable = 0
        self.n_untagged = 0  # pictures without an applied tag
        self.n_suggested = 0  # untagged pictures with suggestions
        self.likeliest: Tag | None = None  # of the suggestions

    def process(
        self,
        paths: list[Path],
        write: Callable[[dict[str, Any]], None],
        *,
        skip: Iterable[str] = (),
        progress: bool = True,
    ) -> None:
        """Annotate pictures, write the results and count failures."""
        from prototag.cli.output import record
        from prototag.events import Meter

        skip = set(skip)
        install_hints = set[str]()  # printed once
        total = terminal.count_pictures(paths) if progress and sys.stderr.isatty() else None
        show = progress and sys.stderr.isatty()
        with terminal.progress(show=True) if show else nullcontext() as drawn:
            bar = Meter("Tagging", total, drawn)
            bar.advance(len(skip), instant=len(skip))
            n_started = 0  # ahead of n_done, because vectors are computed in batches

            def without_skipped(batch: Iterator[str]) -> Iterator[str]:
                nonlocal n_started
                for path in batch:
                    if path not in skip:
                        n_started += 1
                        yield path

            results = (
                result
                for batch in terminal.batches(paths, self._note_unread)
                for result in self._annotate_and_write(without_skipped(batch))
            )
            for annotation, written in results:
                self.n_done += 1
                self.n_in_training_set += annotation.in_training_set
                self._note_suggestions(annotation)
                self.n_unreadable += annotation.error is not None
                failed = annotation.error is not None or written.failed
                self.n_failed += failed
                if annotation.error is not None and annotation.error not in install_hints:
                    terminal.print_error(f"{annotation.source}: {annotation.error}")
                    if "pip install" in annotation.error:
                        install_hints.add(annotation.error)
                for message in written.messages:
                    terminal.print_error(message)
                sys.stdout.write(terminal.printable(written.diff, keep="\n"))
                write(record(annotation, self.why_none) | (written.changes or {}))
                failures = f"{self.n_failed:,} failed" * bool(self.n_failed)
                done = n_started if self.annotator.engine is None else self.n_done
                bar.advance(len(skip) + done - bar.done, message=failures)
        if not self.n_done and not self.n_unread and not skip:
            raise InputError(terminal.NO_PICTURES)

    def _note_suggestions(self, annotation: Annotation) -> None:
        if annotation.error is not None or annotation.tags:
            return
        self.n_untagged += 1
        suggestions = [*annotation.estimates, *annotation.suggestions]
        self.n_suggested += bool(suggestions)
        for tag in suggestions[:1]:  # the most probable comes first
            if self.likeliest is None or tag.probability > self.likeliest.probability:
                self.likeliest = tag

    def _note_unread(self, problem: str) -> None:
        """Report a part of a folder that cannot be searched."""
        self.n_unread += 1
        terminal.print_error(problem)

    def _annotate_and_write(self, paths: Iterator[str]) -> Iterator[tuple[Annotation, Written]]:
        """Yield annotations in order, with messages about writing them."""
        annotations = self.annotator.annotate_with(self.selector, paths)
        if self.writer is None:
            return ((annotation, Written()) for annotation in annotations)
        from prototag.engine.threads import map_in_order
        from prototag.metadata.write_policy import WRITERS

        # Writing waits for the disk, so that threads write while the next pictures are scored.
        return map_in_order(self.writer.take, annotations, workers=WRITERS, window=8 * WRITERS)

    def _print_none_applied(self) -> None:
        """Explain why no picture got a tag, and how to apply some."""
        pictures = "the picture"
        if self.n_untagged > 1:
            pictures = f"any of the {self.n_untagged:,} pictures"
        terminal.print_info(f"No tag was applied to {pictures}: {self.why_none}.")
        if self.likeliest is not None:
            # Rounded down, so that the tag reaches it.
            threshold = math.floor(100 * self.likeliest.probability) / 100
            some = "It has" if self.n_untagged == 1 else f"{self.n_suggested:,} of them have"
            name = terminal.shown(self.likeliest.name)
            terminal.print_info(
                f"{some} suggestions; the most probable is {name!r} with {threshold:.2f}. "
                f"`--min-probability {threshold:.2f}` applies tags from this probability on."
            )
        elif not self.selector.allowed.any():
            terminal.print_info("`prototag inspect` shows how well each tag was learned.")
        elif self.selector.score_thresholds is None:
            terminal.print_info(
                "`--top 1` applies the most probable tag of each picture, correct or not."
            )

    def report(self) -> None:
        """Print the counts; exit with an error code if pictures failed."""
        if self.n_untagged and self.n_untagged == self.n_done - self.n_unreadable:
            self._print_none_applied()
        if n := self.n_in_training_set:
            were = "was" if n == 1 else "were"
            terminal.print_info(
                f"{n:,} of these pictures {were} used for training, so their tags say nothing "
                "about accuracy. Use `prototag evaluate` instead."
            )
        if self.writer is not None:
            self.writer.show()
        if self.n_failed:
            terminal.print_error(
                f"{self.n_failed:,} of {terminal.count(self.n_done, 'picture')} failed."
            )
        if self.n_failed or self.n_unread:
            raise typer.Exit(terminal.SOME_FAILED)


class _Writer:
    """Thread-safe writer of tags by a policy, with counts; or a dry run of it."""

    def __init__(self, policy: WritePolicy, dry_run: bool, diff: bool, estimates: bool) -> None:
        self.policy = policy
        self.estimates = estimates  # whether estimates are written, too
        self.dry_run = dry_run
        self.diff = diff
        self.added: Counter[str] = Counter()
        self.removed: Counter[str] = Counter()
        self.outcomes: Counter[Outcome] = Counter()
        self.n_embedded = 0  # of the changed ones
        self._lock = Lock()

    def take(self, annotation: Annotation) -> tuple[Annotation, Written]:
        """Write the tags of one picture."""
        from prototag.metadata.write_policy import Outcome

        if annotation.error is not None:
            return annotation, Written()
        tags = [*annotation.tags, *(annotation.estimates if self.estimates else ())]
        write = self.policy.plan(annotation.source, [tag.name for tag in tags])
        diff = write.change.diff() if self.diff and write.change is not None else ""
        if not self.dry_run:
            write = self.policy.apply(write)
        with self._lock:
            self.outcomes[write.outcome] += 1
            self.n_embedded += write.embedded and write.outcome is Outcome.CHANGED
            if write.change is not None:
                self.added.update(write.change.added)
                self.removed.update(write.change.removed)
        if write.change is None:
            messages = () if write.problem is None else (write.problem,)
            return annotation, Written(failed=write.outcome is Outcome.FAILED, messages=messages)
        change = write.change
        changes = {"added": [*change.added], "removed": [*change.removed]}
        return annotation, Written(messages=tuple(change.notes), diff=diff, changes=changes)

    def show(self) -> None:
        """Print the counts."""
        from prototag.metadata.write_policy import Outcome

        if self.dry_run and not self.diff:
            terminal.changes(self.added, self.removed)
        verb = "would change" if self.dry_run else "written"
        place = self.policy.place
        parts = []
        if place != "sidecar":
            parts.append(f"{terminal.count(self.n_embedded, 'picture')} {verb}")
        if place != "file":
            n_sidecars = self.outcomes[Outcome.CHANGED] - self.n_embedded
            parts.append(f"{terminal.count(n_sidecars, 'sidecar')} {verb}")
        parts.append(f"{self.outcomes[Outcome.UNCHANGED]:,} unchanged")
        if n_untagged := self.outcomes[Outcome.NO_TAGS]:
            parts.append(f"none for {terminal.count(n_untagged, 'picture')} without tags")
        terminal.print_info(f"{', '.join(parts)}.")
        if n_other := self.outcomes[Outcome.NOT_JPEG]:
            terminal.print_info(
                f"{terminal.count(n_other, 'picture')} skipped (not JPEG): --write-xmp writes "
                "their tags to sidecars."
            )


def _nothing(_: object) -> None:
    pass


def _identity(annotator: Annotator, options: dict[str, Any]) -> dict[str, Any]:
    """Return model and options; --resume continues a run only if they are equal."""
    import hashlib
    import json

    if annotator.word_vectors is None:
        identity = json.dumps(annotator.header["tensors"], sort_keys=True).encode()
    else:
        identity = json.dumps(annotator.tags).encode() + annotator.model.projection.map.tobytes()
    return {"model": hashlib.sha256(identity).hexdigest(), **options}
