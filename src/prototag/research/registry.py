"""Registry of the compared methods, ProtoTag's and the baselines, used by experiments and tests.

To add a baseline, write its module, its test and one entry here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from importlib import import_module
from typing import Any

from prototag.errors import InputError

COMPONENTS = 200  # principal components, as in the paper
BASELINES_PACKAGE = "prototag.research.baselines"


@dataclass(frozen=True)
class Method:
    """An annotation method: how to build it, run it in experiments and test it.

    Parameters
    ----------
    name : str
        The name in tables.
    import_path : str
        ``module:object`` of the class, or of a function that returns an estimator; imported when
        first used.
    family : str
    options : mapping
        Parameters in experiments that differ from the defaults.
    components : int or None
        The number of principal components in its input; None if it reduces the vectors itself.
    compare_raw : bool
        Whether the vectors without reduction are tried besides the components. Methods whose time
        grows with the number of columns have the components only.
    random : bool
        Whether results depend on the seed; experiments then use several seeds.
    tuned : bool
        Whether :func:`prototag.tune` selects its hyperparameters, from the paper's grids. Baselines
        select theirs inside ``fit``, on held-out scores of training images.
    held_out_thresholds : bool
        Whether its thresholds come from held-out scores of the training images.
    max_images : int or None
        The largest number of training images that it supports; None without a limit.
    test_options : mapping
        Parameters in tests: fixed hyperparameters and few iterations.
    """

    name: str
    import_path: str
    family: str
    options: Mapping[str, Any] = field(default_factory=dict)
    components: int | None = COMPONENTS
    compare_raw: bool = True
    random: bool = False
    tuned: bool = False
    held_out_thresholds: bool = True
    max_images: int | None = None
    test_options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def factory(self) -> Any:
        """The class, or the function that returns an estimator."""
        module, _, path = self.import_path.partition(":")
        return reduce(getattr, path.split("."), import_module(module))

    @property
    def kind(self) -> str:
        """The kind in the header of its model files, if it is a baseline."""
        return self.import_path.rpartition(":")[2].lower()

    def build(self, *, n_jobs: int | None = None, random_state: Any = 0, **more: Any) -> Any:
        """Build the estimator with its options and ``more``.

        ``n_jobs`` and ``random_state`` are set if the estimator has these parameters.
        """
        estimator = self.factory(**self.options)
        common = {"n_jobs": n_jobs, "random_state": random_state}
        names = estimator.get_params(deep=False)
        accepted = {name: value for name, value in common.items() if name in names}
        return estimator.set_params(**accepted, **more)


def _baseline(
    name: str, import_path: str, family: str, test_options: Mapping[str, Any], **more: Any
) -> Method:
    # Thresholds as in ProtoTag: one per tag, shrunk for rare tags, from held-out scores.
    options = {"threshold": "per_tag", **more.pop("options", {})}
    path = f"{BASELINES_PACKAGE}.{import_path}"
    return Method(name, path, family, options, test_options=test_options, **more)


_MCDL = "prototag.mcdl.estimator:MCDL"
_TEST_HYPERPARAMETERS = {
    "gamma": 1.0,
    "strength": 0.3,
    "kernel_share": 0.5,
    "level": 0.0,
    "boost": 0.0,
}
_CCA_TEST_OPTIONS = {"strength": 0.3, "power": 0.0, "n_neighbours": 4, "sharpness": 4.0}
# Entries that the studies refer to.
MCDL_PUBLISHED = "MCDL, published code"
MCDL_OUT_OF_FOLD = "MCDL out of fold"

METHODS: tuple[Method, ...] = (
    Method(
        "ProtoTag", "prototag.tagging.tagger:recommended", "MCDL", components=None, random=True,
        test_options={"pilot": 40, **_TEST_HYPERPARAMETERS},
    ),
    Method(
        MCDL_OUT_OF_FOLD, "prototag.mcdl.exemplar_mcdl:ExemplarMCDL", "MCDL", random=True,
        test_options={"rho": 1.0, "spread": 0.2},
    ),
    Method(
        MCDL_PUBLISHED, f"{_MCDL}.published", "MCDL", {"max_iter": 10}, random=True,
        held_out_thresholds=False,
        test_options={"n_prototypes": 0.5, "max_iter": 1, "init_iter": 1},
    ),
    Method(
        "MCDL, paper, tuned", f"{_MCDL}.paper", "MCDL", tuned=True,
        held_out_thresholds=False,
        test_options={"n_prototypes": 0.5, "max_iter": 1, "init_iter": 1},
    ),
    _baseline(
        "CDL", "coupled:CDL", "dictionary",
        {"init_iter": 1, "max_iter": 1, "eta": 0.5, "n_folds": 2},
    ),
    _baseline("UDL", "coupled:UDL", "dictionary", {"init_iter": 1, "n_folds": 2}),
    _baseline(
        "D-KSVD", "ksvd:DKSVD", "dictionary", {"weight": 0.03, "max_iter": 1, "n_folds": 2}
    ),
    _baseline(
        "LC-KSVD", "ksvd:LCKSVD", "dictionary", {"consistency": 0.03, "max_iter": 1, "n_folds": 2}
    ),
    _baseline("MLDL", "mldl:MLDL", "dictionary", {"weight": 1.0, "max_iter": 1, "n_folds": 2}),
    _baseline(
        "SLED", "sled:SLED", "dictionary",
        {"relevance": 0.3, "share": 0.7, "max_iter": 1, "n_folds": 2},
        compare_raw=False,
    ),
    _baseline(
        "CASDDL (LRSDL of exclusive tags)", "casddl:CASDDL", "dictionary",
        {"relevance": 0.3, "max_iter": 1, "n_folds": 2},
        compare_raw=False,
    ),
    _baseline(
        "CODLL (after its description)", "codll:CODLL", "dictionary",
        {"weight": 1.0, "max_iter": 1, "n_folds": 2},
        compare_raw=False,
    ),
    _baseline(
        "SDADL for several tags", "sdadl:SDADL", "dictionary",
        {"agreement": 0.5, "strength": 1.0, "max_iter": 1, "n_folds": 2},
        compare_raw=False,
    ),
    _baseline("kNN", "knn_jec:KNN", "neighbours", {"n_neighbours": 10, "sharpness": 8.0}),
    _baseline("JEC", "knn_jec:JEC", "neighbours", {"n_neighbours": 5}),
    _baseline("2PKNN", "two_pass_knn:TwoPassKNN", "neighbours", {"n_per_tag": 2, "sharpness": 8.0}),
    _baseline(
        "2PKNN + metric", "two_pass_knn:TwoPassKNN", "neighbours",
        {"n_per_tag": 2, "sharpness": 8.0, "n_steps": 3}, options={"metric": "columns"},
    ),
    _baseline(
        "TagProp, rank", "tagprop:TagProp", "neighbours",
        {"n_neighbours": 5, "n_rounds": 1}, options={"weights": "rank"},
    ),
    _baseline(
        "TagProp, distance", "tagprop:TagProp", "neighbours",
        {"n_neighbours": 20, "n_rounds": 1}, options={"weights": "distance"},
    ),
    _baseline(
        "Mvg-NMF on given columns", "mvg_nmf:MvgNMF", "neighbours",
        {"n_per_tag": 2, "sharpness": 8.0, "n_common": 30, "n_individual": 4, "max_iter": 30},
        components=None,
    ),
    _baseline("CCA-KNN", "cca:CCAKNN", "correlation", _CCA_TEST_OPTIONS),
    _baseline("KCCA", "cca:KCCA", "correlation", {**_CCA_TEST_OPTIONS, "n_landmarks": 50}),
    _baseline(
        "FastTag", "fasttag:FastTag", "linear",
        {"strength": 1e-3, "corruption": 0.3, "reconstruction": 1.0, "balance": 0.0, "n_layers": 1,
         "n_landmarks": 50},
    ),
    _baseline("ridge", "linear_models:Ridge", "linear", {"strength": 0.02}, components=800),
    _baseline(
        "logistic",
        "linear_models:Logistic",
        "linear",
        {"strength": 0.1, "n_folds": 2},
        components=800,
    ),
    _baseline(
        "MSFS (orthonormal tag basis)", "msfs:MSFS", "linear",
        {"sparsity": 0.001, "locality": 0.1, "n_latent": 8, "max_iter": 3, "n_folds": 2},
    ),
    _baseline(
        "KSVM-VT (weights)", "ksvm_vt:KSVMVT", "kernel",
        {"cost": 5.0, "tolerance": 0.5, "n_landmarks": 100, "n_folds": 2},
        compare_raw=False,
    ),
    _baseline(
        "kernel ridge", "kernel_ridge:KernelRidge", "kernel", {"gamma": 1.0, "strength": 0.3},
        components=400,
    ),
    _baseline(
        "SEM on given vectors", "sem:SEM", "neighbours",
        {"n_per_tag": 2, "sharpness": 8.0, "prior": 0.5, "refinement": 0.1},
    ),
    _baseline(
        "diverse 2PKNN (determinantal)", "diverse:DiverseTwoPassKNN", "neighbours",
        {"n_per_tag": 2, "sharpness": 8.0},
    ),
    _baseline(
        "positive means (VLAD's annotator)", "positive_mean:PositiveMean", "means",
        {"n_local": 1},
    ),
    _baseline(
        "positive means of sparse codes", "positive_mean:PositiveMean", "means",
        {"n_centres": 30}, options={"encoding": "sparse", "n_centres": 1024},
    ),
    _baseline(
        "positive means of VLAD on given vectors", "positive_mean:PositiveMean", "means",
        {"n_centres": 4}, options={"encoding": "vlad"},
    ),
    _baseline(
        "prototype selection + 2PKNN", "prototype_selection:PrototypeSelection", "selection",
        {"n_prototypes": 0.5, "n_per_tag": 2, "sharpness": 8.0},
    ),
    _baseline(
        "PQ-kNN", "quantization:QuantizedKNN", "neighbours",
        {"bits": 6, "block_columns": 4, "n_neighbours": 10, "sharpness": 8.0},
    ),
    _baseline(
        "DPQ-kNN (encoded distances)", "quantization:QuantizedKNN", "neighbours",
        {"bits": 6, "block_columns": 4, "n_neighbours": 10, "sharpness": 8.0},
        options={"distance_bits": 1},
    ),
    _baseline(
        "supervised hashing kNN", "hashing:HashingKNN", "neighbours",
        {"n_bits": 24, "sharpness": 8.0, "n_neighbours": 10, "n_landmarks": 50, "n_rounds": 2,
         "fit_weight": 1.0, "n_folds": 2},
    ),
    _baseline(
        "AHL (hyperedge weights)", "hypergraph:AHL", "propagation",
        {"sharpness": 8.0, "projection": 0.3, "n_neighbours": 10, "n_rounds": 2, "n_folds": 2},
    ),
    _baseline(
        "MVSAE on given vectors", "autoencoder:MVSAE", "network",
        {"balance": 0.5, "n_hidden": 32, "n_joint": 24, "rate": 0.01, "n_epochs": 60},
        random=True,
        compare_raw=False,
    ),
    _baseline(
        "RPLRF by cells", "local_ranking:RPLRF", "ranking",
        {"rank": 4, "n_local": 100, "n_cells": 5, "decay": 0.001, "n_rounds": 2},
        compare_raw=False,
    ),
)  # fmt: skip
OURS = METHODS[0].name


def select(names: Sequence[str] | None) -> list[Method]:
    """Return the methods with these names, in any case; all if ``names`` is None."""
    known = {method.name.lower(): method for method in METHODS}
    if names is None:
        return list(METHODS)
    unknown = [name for name in names if name.lower() not in known]
    if unknown:
        all_names = "; ".join(method.name for method in METHODS)
        raise InputError(f"unknown method {'; '.join(unknown)}: select from {all_names}.")
    return [known[name.lower()] for name in names]


def baselines() -> dict[str, Method]:
    """Return the first entry of each class in the package of baselines, by class name."""
    entries: dict[str, Method] = {}
    for method in METHODS:
        if method.import_path.startswith(f"{BASELINES_PACKAGE}."):
            entries.setdefault(method.import_path.rpartition(":")[2], method)
    return entries


def baseline_of_kind(kind: str) -> Any:
    """Return the baseline class whose model files have this kind, or None."""
    return next((entry.factory for entry in baselines().values() if entry.kind == kind), None)
