"""Who competes: every annotator by name, built with what its paper leaves to validation open.

A rival chooses its settings from left-out training images inside ``fit``; the recipes of MCDL that
do not are tuned on held-out training images (:func:`prototag.tune`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from prototag.errors import InputError
from prototag.mcdl.estimator import MCDL
from prototag.research import rivals
from prototag.tagging import tagger

Build = Callable[[dict[str, Any]], Any]
COMPONENTS = 200  # the paper's reduction


class Contender(NamedTuple):
    """An annotator of the tables."""

    name: str
    family: str
    build: Build  # of n_jobs and random_state
    # Principal components before it; None: it reduces the vectors itself.
    components: int | None = COMPONENTS
    random: bool = False  # whether it is run with several seeds
    tuned: bool = False  # by prototag.tune, over the paper's grids
    most: int | None = None  # training images that it can take, where it cannot take all


def _rival(name: str, **options: Any) -> Build:
    def build(given: dict[str, Any]) -> Any:
        made = getattr(rivals, name)
        # Thresholds as ours are: one for each tag, shrunk for rare tags, from left-out images.
        given = {"threshold": "per_tag", **given}
        known = {key: value for key, value in given.items() if key in made().get_params()}
        return made(**{**known, **options})

    return build


def _paper(given: dict[str, Any]) -> Any:
    return MCDL.paper(**given)


def _published(given: dict[str, Any]) -> Any:
    return MCDL.published(max_iter=10, **given)


CONTENDERS: tuple[Contender, ...] = (
    Contender("ProtoTag", "MCDL", lambda g: tagger.recommended(**g), None, True),
    Contender("MCDL out of fold", "MCDL", lambda g: MCDL(**g), random=True),
    Contender("MCDL, published code", "MCDL", _published, random=True),
    Contender("MCDL, paper, tuned", "MCDL", _paper, tuned=True),
    Contender("CDL", "dictionary", _rival("CDL")),
    Contender("UDL", "dictionary", _rival("UDL")),
    Contender("D-KSVD", "dictionary", _rival("DKSVD")),
    Contender("LC-KSVD", "dictionary", _rival("LCKSVD")),
    Contender("MLDL", "dictionary", _rival("MLDL")),
    Contender("SLED", "dictionary", _rival("SLED")),
    Contender("kNN", "neighbours", _rival("KNN")),
    Contender("JEC", "neighbours", _rival("JEC")),
    Contender("2PKNN", "neighbours", _rival("TwoPassKNN")),
    Contender("2PKNN + metric", "neighbours", _rival("TwoPassKNN", metric="columns")),
    Contender("TagProp, rank", "neighbours", _rival("TagProp", weights="rank")),
    Contender("TagProp, distance", "neighbours", _rival("TagProp", weights="distance")),
    Contender("CCA-KNN", "correlation", _rival("CCAKNN")),
    Contender("KCCA", "correlation", _rival("KCCA")),
    Contender("FastTag", "linear", _rival("FastTag")),
    Contender("ridge", "linear", _rival("Ridge"), 800),
    Contender("logistic", "linear", _rival("Logistic"), 800),
    Contender("SVM, tolerant", "linear", _rival("SVM")),
    Contender("kernel ridge", "kernel", _rival("KernelRidge"), 400),
)


def named(names: list[str] | None) -> list[Contender]:
    """The contenders of these names, all if none are given; an unknown name is an error."""
    known = {contender.name.lower(): contender for contender in CONTENDERS}
    if names is None:
        return list(CONTENDERS)
    unknown = [name for name in names if name.lower() not in known]
    if unknown:
        raise InputError(f"no contender is called {unknown}: there are {[*known]}.")
    return [known[name.lower()] for name in names]
