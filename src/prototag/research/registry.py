"""Every annotator, ours and the rivals: one entry says all that tables, experiments and tests need.

To add a rival write its module, its test and one entry here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from importlib import import_module
from typing import Any

from prototag.errors import InputError

COMPONENTS = 200  # the paper's reduction
RIVALS = "prototag.research.baselines"


@dataclass(frozen=True)
class Contender:
    """An annotator: what builds it, how it is run in experiments, and how it is tested.

    Parameters
    ----------
    name : str
        In tables.
    home : str
        ``module:object`` of the class, or of a function that returns an estimator; imported when
        first used.
    family : str
    options : mapping
        Parameters in experiments, where they are not the defaults.
    components : int or None
        Principal components that it is given; None: it reduces the vectors itself.
    random : bool
        Whether it is run with several seeds.
    tuned : bool
        By :func:`prototag.tune`, over the paper's grids; a rival chooses its settings from left-out
        training images inside ``fit``.
    leaves_out : bool
        Whether its thresholds come from scores of training images that were left out.
    max_images : int or None
        Training images that it can take, where it cannot take all.
    small : mapping
        Parameters in tests: every choice made, a few rounds.
    """

    name: str
    home: str
    family: str
    options: Mapping[str, Any] = field(default_factory=dict)
    components: int | None = COMPONENTS
    random: bool = False
    tuned: bool = False
    leaves_out: bool = True
    max_images: int | None = None
    small: Mapping[str, Any] = field(default_factory=dict)

    @property
    def factory(self) -> Any:
        """The class, or what returns an estimator."""
        module, _, path = self.home.partition(":")
        return reduce(getattr, path.split("."), import_module(module))

    @property
    def kind(self) -> str:
        """Of its model files, where it is a rival."""
        return self.home.rpartition(":")[2].lower()

    def build(self, *, n_jobs: int | None = None, random_state: Any = 0, **more: Any) -> Any:
        """With its options and ``more``; threads and seed only where it has such parameters."""
        made = self.factory(**self.options)
        given = {"n_jobs": n_jobs, "random_state": random_state}
        known = made.get_params(deep=False)
        return made.set_params(**{name: given[name] for name in given if name in known}, **more)


def _rival(name: str, home: str, family: str, small: Mapping[str, Any], **more: Any) -> Contender:
    # Thresholds as ours are: one for each tag, shrunk for rare tags, from left-out images.
    options = {"threshold": "per_tag", **more.pop("options", {})}
    return Contender(name, f"{RIVALS}.{home}", family, options, small=small, **more)


_MCDL = "prototag.mcdl.estimator:MCDL"
_CHOSEN = {
    "lift": 0.5,
    "gamma": 1.0,
    "strength": 0.3,
    "share": 0.5,
    "linear": 0.2,
    "level": 0.0,
    "boost": 0.0,
}
_CCA = {"strength": 0.3, "power": 0.0, "n_neighbours": 4, "sharpness": 4.0}
# named in studies
PUBLISHED = "MCDL, published code"
OUT_OF_FOLD = "MCDL out of fold"

CONTENDERS: tuple[Contender, ...] = (
    Contender(
        "ProtoTag", "prototag.tagging.tagger:recommended", "MCDL", components=None, random=True,
        small={"pilot": 40, "relations": 0.0, **_CHOSEN},
    ),
    Contender(
        OUT_OF_FOLD, "prototag.mcdl.exemplar_mcdl:ExemplarMCDL", "MCDL", random=True,
        small={"rho": 1.0, "spread": 0.2},
    ),
    Contender(
        PUBLISHED, f"{_MCDL}.published", "MCDL", {"max_iter": 10}, random=True,
        leaves_out=False, small={"n_prototypes": 0.5, "max_iter": 1, "init_iter": 1},
    ),
    Contender(
        "MCDL, paper, tuned", f"{_MCDL}.paper", "MCDL", tuned=True,
        leaves_out=False, small={"n_prototypes": 0.5, "max_iter": 1, "init_iter": 1},
    ),
    _rival(
        "CDL", "coupled:CDL", "dictionary",
        {"init_iter": 1, "max_iter": 1, "eta": 0.5, "n_folds": 2},
    ),
    _rival("UDL", "coupled:UDL", "dictionary", {"init_iter": 1, "n_folds": 2}),
    _rival(
        "D-KSVD", "ksvd:DKSVD", "dictionary", {"weight": 0.03, "max_iter": 1, "n_folds": 2}
    ),
    _rival(
        "LC-KSVD", "ksvd:LCKSVD", "dictionary", {"consistency": 0.03, "max_iter": 1, "n_folds": 2}
    ),
    _rival("MLDL", "mldl:MLDL", "dictionary", {"weight": 0.1, "max_iter": 1, "n_folds": 2}),
    _rival("SLED", "sled:SLED", "dictionary", {"relevance": 0.3, "max_iter": 1, "n_folds": 2}),
    _rival("kNN", "knn_jec:KNN", "neighbours", {"n_neighbours": 10, "sharpness": 8.0}),
    _rival("JEC", "knn_jec:JEC", "neighbours", {"n_neighbours": 5}),
    _rival("2PKNN", "two_pass_knn:TwoPassKNN", "neighbours", {"n_per_tag": 2, "sharpness": 8.0}),
    _rival(
        "2PKNN + metric", "two_pass_knn:TwoPassKNN", "neighbours",
        {"n_per_tag": 2, "sharpness": 8.0, "n_steps": 3}, options={"metric": "columns"},
    ),
    _rival(
        "TagProp, rank", "tagprop:TagProp", "neighbours",
        {"n_neighbours": 5, "n_rounds": 1}, options={"weights": "rank"},
    ),
    _rival(
        "TagProp, distance", "tagprop:TagProp", "neighbours",
        {"n_neighbours": 20, "n_rounds": 1}, options={"weights": "distance"},
    ),
    _rival("CCA-KNN", "cca:CCAKNN", "correlation", _CCA),
    _rival("KCCA", "cca:KCCA", "correlation", {**_CCA, "n_landmarks": 50}),
    _rival(
        "FastTag", "fasttag:FastTag", "linear",
        {"strength": 1e-3, "corruption": 0.3, "reconstruction": 1.0, "balance": 0.0, "n_layers": 1,
         "n_landmarks": 50},
    ),
    _rival("ridge", "linear_models:Ridge", "linear", {"strength": 0.02}, components=800),
    _rival(
        "logistic",
        "linear_models:Logistic",
        "linear",
        {"strength": 0.1, "n_folds": 2},
        components=800,
    ),
    _rival(
        "SVM, tolerant", "linear_models:SVM", "linear",
        {"strength": 1.0, "tolerance": 0.5, "n_folds": 2},
    ),
    _rival(
        "kernel ridge", "kernel_ridge:KernelRidge", "kernel", {"gamma": 1.0, "strength": 0.3},
        components=400,
    ),
)  # fmt: skip
OURS = CONTENDERS[0].name


def named(names: Sequence[str] | None) -> list[Contender]:
    """The contenders of these names, all if none are given; an unknown name is an error."""
    known = {contender.name.lower(): contender for contender in CONTENDERS}
    if names is None:
        return list(CONTENDERS)
    unknown = [name for name in names if name.lower() not in known]
    if unknown:
        all_names = "; ".join(contender.name for contender in CONTENDERS)
        raise InputError(f"no annotator is called {'; '.join(unknown)}: there are {all_names}.")
    return [known[name.lower()] for name in names]


def rivals() -> dict[str, Contender]:
    """The entry of each class of the rivals' package; the first, where a class has several."""
    found: dict[str, Contender] = {}
    for contender in CONTENDERS:
        if contender.home.startswith(f"{RIVALS}."):
            found.setdefault(contender.home.rpartition(":")[2], contender)
    return found


def of_kind(kind: str) -> Any:
    """The class whose model files have this kind, None if there is none."""
    return next((entry.factory for entry in rivals().values() if entry.kind == kind), None)
