"""``prototag annotate``: tags of new pictures, shown, kept in a file or written to sidecars."""

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
from prototag.cli import terminal
from prototag.cli.cluster_option import Cluster
from prototag.cli.terminal import Cache, Jobs, Json, Model, Pictures, Quiet
from prototag.errors import InputError

if TYPE_CHECKING:
    from prototag.annotator.annotator import Annotator
    from prototag.annotator.operating_points import TagSelector
    from prototag.annotator.types import Annotation, Tag
    from prototag.cli.output import Format, Journal
    from prototag.metadata.write_policy import Outcome, Place, WritePolicy

RESULTS = (b'{"path": ', b"path,tag,probability,score,note\n")  # how files of them begin
ENDINGS = ("", ".csv", ".json", ".jsonl", ".ndjson")  # of files that results are written to


def annotate(
    paths: Pictures,
    model: Model = Path(terminal.MODEL),
    min_probability: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Give every tag that is at least this likely, 0 to 1."),
    ] = None,
    precision: Annotated[
        float | None,
        typer.Option(
            min=0.01,
            max=1,
            help="Share of all given tags that is to be right, 0 to 1; gives nothing rather than "
            "break it. 0.7 unless something else is asked for.",
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
            help="Give only these tags: a file with one per line, or a list separated by commas.",
        ),
    ] = None,
    research: Annotated[
        bool,
        typer.Option(
            "--research",
            help="Give every tag, learned or not, by the threshold of its best F1: the protocol of "
            "the literature, not for your files.",
        ),
    ] = False,
    json: Json = False,
    csv: Annotated[
        bool,
        typer.Option(
            "--csv",
            help="Print CSV instead of text, one row per tag. What a spreadsheet would compute, "
            "such as =1+1, begins with an apostrophe.",
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
            help="Write the tags into JPEG files themselves, where Lightroom reads them; their "
            "pixels stay, bit for bit. With --write-xmp, other pictures get sidecars.",
        ),
    ] = False,
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
            help="Show how many pictures would get each tag by --write-xmp or --embed, write "
            "nothing.",
        ),
    ] = False,
    diff: Annotated[
        bool, typer.Option("--diff", help="Show every change of tags in full, write nothing.")
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
    """Tag pictures with what a model has learned.

    Of all tags given, about 70 % or more are right, as pictures that were left out in training
    show. Less likely ones are shown as suggestions ("perhaps ...") and never written.
    Pictures that were seen before are not computed again, so an interrupted run soon catches up.
    """
    if (min_probability is not None) + (precision is not None) + research > 1:
        raise typer.BadParameter("give only one of --min-probability, --precision, --research.")
    if resume and output is None:
        raise typer.BadParameter("--resume continues an output file: give --output too.")
    if keep_originals and not embed:
        raise typer.BadParameter("--keep-originals is for --embed: give both.")
    form = _form_of(output, json=json, csv=csv)
    terminal.check_output(output, "a result of annotate", RESULTS)
    from prototag.cli import output as output_format

    annotator = terminal.load(model, jobs, cache, clusters.join(cluster) if cluster else None)
    names = None if tags is None else output_format.vocabulary(tags, annotator.tags)
    options: dict[str, Any] = {
        "min_probability": min_probability,
        "precision": precision,
        "top": top,
        "vocabulary": names,
        "research": research,
    }
    choice = annotator.selector(**options)  # refuses what is wrong before the first picture is read
    run = _Run(annotator, choice, why_no_tag(annotator, choice, precision))
    if choice.min_probability == float("inf") or not choice.allowed.any():
        terminal.say(f"No tag will be applied: {run.why_none}. Likely tags are only suggested.")
    if write_xmp or embed or dry_run or diff:
        run.writer = _Writer(
            _policy(write_xmp, embed, sidecar, keep_originals), dry_run or diff, diff
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
    """Annotate into a file; what is done stays there if the run is interrupted."""
    try:
        run.over(paths, journal.write, skip=journal.done, progress=not quiet)
    except KeyboardInterrupt:
        done = terminal.count(len(journal.done) + run.n_done, "picture")
        terminal.complain(
            f"{done} {'is' if done.startswith('1 ') else 'are'} kept in {journal.part}: the "
            "same command with --resume goes on behind them."
        )
        raise
    finally:
        journal.close()
    journal.finish()


def _onto_terminal(run: _Run, paths: list[Path], form: Format | None, quiet: bool) -> None:
    """Annotate and print the results, in a format of machines if one is given."""
    from prototag.cli import output as output_format

    only_changes = run.writer is not None and run.writer.dry_run
    show = terminal.is_terminal() and not only_changes
    shown: Format = "table" if terminal.is_terminal() else "plain"
    printer = output_format.Writer(sys.stdout, form or shown)
    silent = only_changes and form is None  # what would change is the result
    run.over(paths, _nothing if silent else printer.write, progress=not (show or quiet))


def _form_of(output: Path | None, *, json: bool, csv: bool) -> Format:
    """The format of the results; a name with another ending is refused."""
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


def why_no_tag(annotator: Annotator, chosen: TagSelector, precision: float | None) -> str:
    """Say in a clause why a picture has no tag by this choice of tags."""
    from prototag.annotator.operating_points import DEFAULT_PRECISION

    if chosen.score_thresholds is not None:
        return "no tag exceeds the threshold of its best F1"
    if not annotator.operating_points.learnable.any():
        return "the model learned no tag"
    if not chosen.allowed.any():
        return "the model did not learn the tags of --tags"
    if chosen.min_probability == float("inf"):
        wanted = terminal.percent(DEFAULT_PRECISION if precision is None else precision)
        return f"no probability keeps {wanted} of the applied tags right"
    return f"no tag reaches the probability {chosen.min_probability or 0:.2f}"


class Written(NamedTuple):
    """What became of the tags of one picture, for the terminal."""

    failed: bool = False
    said: tuple[str, ...] = ()  # complaints
    diff: str = ""  # where it is only shown


class _Run:
    """Annotates, passes on, and counts what failed."""

    def __init__(self, annotator: Annotator, choice: TagSelector, why_none: str) -> None:
        self.annotator = annotator
        self.choice = choice
        self.why_none = why_none
        self.writer: _Writer | None = None
        self.n_done = self.n_failed = self.n_unread = self.n_learned = 0
        self.n_unreadable = 0
        self.n_bare = 0  # pictures without an applied tag
        self.n_suggested = 0  # those of them with suggestions
        self.likeliest: Tag | None = None  # of the suggestions

    def over(
        self,
        paths: list[Path],
        write: Callable[[dict[str, Any]], None],
        *,
        skip: Iterable[str] = (),
        progress: bool = True,
    ) -> None:
        from prototag.cli.output import record
        from prototag.events import Meter

        skip, told = set(skip), set[str]()
        total = terminal.count_pictures(paths) if progress and sys.stderr.isatty() else None
        show = progress and sys.stderr.isatty()
        with terminal.progress(show=True) if show else nullcontext() as drawn:
            bar = Meter("Tagging", total, drawn)
            bar.advance(len(skip), instant=len(skip))
            taken = 0  # pictures, whose vectors are computed many at a time

            def new(batch: Iterator[str]) -> Iterator[str]:
                nonlocal taken
                for path in batch:
                    if path not in skip:
                        taken += 1
                        yield path

            found = (
                pair
                for batch in terminal.batches(paths, self._unread)
                for pair in self._written(new(batch))
            )
            for annotation, written in found:
                self.n_done += 1
                self.n_learned += annotation.in_training_set
                self._note_suggestions(annotation)
                self.n_unreadable += annotation.error is not None
                failed = annotation.error is not None or written.failed
                self.n_failed += failed
                if annotation.error is not None and annotation.error not in told:
                    terminal.complain(f"{annotation.source}: {annotation.error}")
                    if "pip install" in annotation.error:  # once is enough
                        told.add(annotation.error)
                for words in written.said:
                    terminal.complain(words)
                sys.stdout.write(terminal.printable(written.diff, keep="\n"))
                write(record(annotation, self.why_none))
                failures = f"{self.n_failed:,} failed" * bool(self.n_failed)
                done = taken if self.annotator.engine is None else self.n_done
                bar.advance(len(skip) + done - bar.done, message=failures)
        if not self.n_done and not self.n_unread and not skip:
            raise InputError(terminal.NO_PICTURES)

    def _note_suggestions(self, annotation: Annotation) -> None:
        if annotation.error is not None or annotation.tags:
            return
        self.n_bare += 1
        self.n_suggested += bool(annotation.suggestions)
        for tag in annotation.suggestions[:1]:  # the likeliest comes first
            if self.likeliest is None or tag.probability > self.likeliest.probability:
                self.likeliest = tag

    def _unread(self, problem: str) -> None:
        """Part of a folder cannot be searched: the rest is done all the same."""
        self.n_unread += 1
        terminal.complain(problem)

    def _written(self, paths: Iterator[str]) -> Iterator[tuple[Annotation, Written]]:
        """Annotations in their order, and what became of the sidecar of each."""
        found = self.annotator.annotate_with(self.choice, paths)
        if self.writer is None:
            return ((annotation, Written()) for annotation in found)
        from prototag.engine.threads import map_in_order
        from prototag.metadata.write_policy import WRITERS

        # Bringing a file to the disk is waiting: let the next pictures be scored meanwhile.
        return map_in_order(self.writer.take, found, workers=WRITERS, window=8 * WRITERS)

    def _say_none_applied(self) -> None:
        """Where no picture got a tag: why, and what would apply some."""
        pictures = "the picture" if self.n_bare == 1 else f"any of the {self.n_bare:,} pictures"
        terminal.say(f"No tag was applied to {pictures}: {self.why_none}.")
        if self.likeliest is not None:
            # Rounded down, so that it is reached.
            cut = math.floor(100 * self.likeliest.probability) / 100
            some = "It has" if self.n_bare == 1 else f"{self.n_suggested:,} of them have"
            terminal.say(
                f"{some} suggestions, the likeliest {terminal.shown(self.likeliest.name)!r} with "
                f"{cut:.2f}: `--min-probability {cut:.2f}` applies what is as likely."
            )
        elif not self.choice.allowed.any():
            terminal.say("`prototag inspect` shows how well each tag was learned.")
        elif self.choice.score_thresholds is None:
            terminal.say("`--top 1` applies the likeliest tag of each picture, right or wrong.")

    def report(self) -> None:
        if self.n_bare and self.n_bare == self.n_done - self.n_unreadable:
            self._say_none_applied()
        if self.n_learned:
            terminal.say(
                f"The model learned from {self.n_learned:,} of these pictures: it knows them too "
                "well to show how good it is. `prototag evaluate` judges them as left out."
            )
        if self.writer is not None:
            self.writer.show()
        if self.n_failed:
            terminal.complain(
                f"{self.n_failed:,} of {terminal.count(self.n_done, 'picture')} failed."
            )
        if self.n_failed or self.n_unread:
            raise typer.Exit(terminal.SOME_FAILED)


class _Writer:
    """Writes the tags of pictures by a policy, or shows what it would write; several at a time."""

    def __init__(self, policy: WritePolicy, dry_run: bool, diff: bool) -> None:
        self.policy = policy
        self.dry_run = dry_run
        self.diff = diff
        self.added: Counter[str] = Counter()
        self.removed: Counter[str] = Counter()
        self.outcomes: Counter[Outcome] = Counter()
        self.n_embedded = 0  # of the changed ones
        self._lock = Lock()

    def take(self, annotation: Annotation) -> tuple[Annotation, Written]:
        from prototag.metadata.write_policy import Outcome

        if annotation.error is not None:
            return annotation, Written()
        write = self.policy.plan(annotation.source, [tag.name for tag in annotation.tags])
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
            said = () if write.problem is None else (write.problem,)
            return annotation, Written(failed=write.outcome is Outcome.FAILED, said=said)
        return annotation, Written(said=tuple(write.change.notes), diff=diff)

    def show(self) -> None:
        from prototag.metadata.write_policy import Outcome

        if self.dry_run and not self.diff:
            terminal.changes(self.added, self.removed)
        verb = "would change" if self.dry_run else "written"
        place = self.policy.place
        words = []
        if place != "sidecar":
            words.append(f"{terminal.count(self.n_embedded, 'picture')} {verb}")
        if place != "file":
            n_sidecars = self.outcomes[Outcome.CHANGED] - self.n_embedded
            words.append(f"{terminal.count(n_sidecars, 'sidecar')} {verb}")
        words.append(f"{self.outcomes[Outcome.UNCHANGED]:,} unchanged")
        if n_bare := self.outcomes[Outcome.NO_TAGS]:
            words.append(f"none for {terminal.count(n_bare, 'picture')} without tags")
        terminal.say(f"{', '.join(words)}.")
        if n_other := self.outcomes[Outcome.NOT_JPEG]:
            terminal.say(
                f"{terminal.count(n_other, 'picture')} left alone, being no JPEG files: "
                "--write-xmp writes their tags to sidecars."
            )


def _nothing(_: object) -> None:
    pass


def _identity(annotator: Annotator, options: dict[str, Any]) -> dict[str, Any]:
    """What shapes the results: only a run with the same model and options is continued."""
    import hashlib
    import json

    tensors = json.dumps(annotator.header["tensors"], sort_keys=True).encode()
    return {"model": hashlib.sha256(tensors).hexdigest(), **options}
