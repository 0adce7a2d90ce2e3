"""Options of the general vocabulary: tags without a model, from public knowledge of words."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from prototag.cli import terminal
from prototag.errors import InputError
from prototag.knowledge.words import LANGUAGES
from prototag.storage.sqlite_lock_guard import read_text

if TYPE_CHECKING:
    from prototag.annotator.annotator import Annotator
    from prototag.engine import Engine

LOCALE_VARIABLES = ("LC_ALL", "LC_MESSAGES", "LANG")  # the first that is set counts
LANGUAGE_NAMES = {
    "ar": "Arabic",
    "de": "German",
    "en": "English",
    "es": "Spanish",
    "fr": "French",
    "it": "Italian",
    "ja": "Japanese",
    "ko": "Korean",
    "nl": "Dutch",
    "pl": "Polish",
    "pt": "Portuguese",
    "ru": "Russian",
    "th": "Thai",
    "tr": "Turkish",
    "zh": "Chinese",
    "zh-TW": "traditional Chinese",
}


def _known_language(language: str | None) -> str | None:
    if language is not None and language not in LANGUAGES:
        raise typer.BadParameter(f"{language!r} is unknown: give one of {', '.join(LANGUAGES)}.")
    return language


General = Annotated[
    bool,
    typer.Option(
        "--general",
        help="Use the general vocabulary, which needs no training, even if there is a model.",
    ),
]
Language = Annotated[
    str | None,
    typer.Option(
        metavar="CODE",
        callback=_known_language,
        help=f"Language of the general vocabulary: {', '.join(LANGUAGES)}; by default that of the "
        "system. Implies --general.",
    ),
]
Vocabulary = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Use the words of this file, one per line, instead of the general vocabulary: no "
        "training is needed. Implies --general.",
    ),
]


def _refuse_network(network: str | None) -> None:
    if network is not None and network != "embedded":
        raise typer.BadParameter(
            f"--network {network}: knowledge of words is off with other networks than the embedded "
            "one, and a model has its own network. Leave the option out, or train a model with "
            "`prototag train FOLDER --network`."
        )


# Hidden, because it has nothing to choose; people give it as they do to `train`.
Network = Annotated[str | None, typer.Option(hidden=True, callback=_refuse_network)]


class GeneralOptions(NamedTuple):
    """The options of a command that may run without a model."""

    general: bool = False
    language: str | None = None
    vocabulary: Path | None = None

    @property
    def given(self) -> bool:
        """Whether an option asks for the general vocabulary."""
        return self.general or self.language is not None or self.vocabulary is not None


def load(
    context: typer.Context,
    model: Path,
    options: GeneralOptions,
    jobs: int,
    cache: Path | None,
    engine: Engine | None = None,
) -> Annotator:
    """Load the model, or the general vocabulary if it is asked for or if there is no model."""
    source = context.get_parameter_source("model")
    origin = "" if source is None else source.name
    if options.given and origin == "COMMANDLINE":
        raise typer.BadParameter(
            "--model names a model, and --general, --language and --vocabulary replace it: give "
            "one of them."
        )
    is_absent = origin == "DEFAULT" and not os.path.lexists(model)
    if not options.given and not is_absent:
        return terminal.load(model, jobs, cache, engine)

    from prototag.annotator.annotator import Annotator

    words = None if options.vocabulary is None else _own_words(options.vocabulary)
    language = options.language or language_of_system()
    annotator = Annotator.general(
        language, vocabulary=words, n_jobs=jobs, engine=engine, cache=terminal.opened(cache)
    )
    origin_of_tags = (
        f"the general vocabulary ({len(annotator.tags):,} words, {LANGUAGE_NAMES[language]})"
        if words is None
        else f"the {terminal.count(len(words), 'word')} of {options.vocabulary}"
    )
    why = "" if options.given else f"There is no {model} here: "
    first = "tags" if why else "Tags"
    terminal.print_info(
        f"{why}{first} come from {origin_of_tags}, without training. `prototag train FOLDER` "
        "learns your own tags from pictures that have some."
    )
    return annotator


def _own_words(path: Path) -> list[str]:
    try:
        lines = read_text(path, "utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise InputError(f"{path} is not text: give a file with one word per line.") from None
    words = list(dict.fromkeys(line.strip() for line in lines if line.strip()))
    if not words:
        raise InputError(f"{path} has no words: give a file with one word per line.")
    return words


def language_of_system() -> str:
    """Return the language of the system's locale; English if the vocabulary lacks it."""
    from prototag.knowledge.general import system_language

    values = (os.environ.get(name) for name in LOCALE_VARIABLES)
    return system_language(next((value for value in values if value), None))
