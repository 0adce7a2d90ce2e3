"""Learning on: what a yes, a no or a new tag changes, while the representation stays.

A full fit decides on reduction, lifting, codes, kernel and shares for all tags together, and that
changes rarely. What it learned for one tag is a column: of S, of the kernel regression, of the
linear part, a threshold, an offset of the calibration. :class:`Onward` keeps what columns are
learned from, for the examples of the fit and for all other pictures at hand, and learns single
columns anew.

Both regressions are ridges over fixed features, and linear in their targets: a column is what the
fit gave and a regression of what was said since. A picture that joins for one tag adds what it has
beyond what was predicted for it; to the normal equations of that column it is one row (Woodbury's
formula), so that predictions for left-out pictures stay in closed form. The kernel regression of
what was said since is over landmarks, that of the fit stays exact.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg, sparse

from prototag.arrays import Array, Bools, Doubles, Floats, Rows, SparseRows
from prototag.coding.rbf_kernel import rbf_kernel_with_constant
from prototag.engine import SINGLE_THREAD, Engine, map_rows, single_threaded_blas
from prototag.engine.task_names import batch_name
from prototag.evaluation import thresholds
from prototag.evaluation.leave_one_out import shrunk_loo_scores
from prototag.mcdl.exemplar_mcdl import ExemplarMCDL, SemanticLearner
from prototag.tagging.calibration import LUCK, STEADY
from prototag.tagging.incremental.fit_state import HAS, LACKS, UNDECIDED, Kept
from prototag.tagging.incremental.ridge import Regression
from prototag.tagging.model import Calibration, Linear, TagModel

LANDMARKS = 2_000
ROWS = 512  # of a kernel matrix in one block
COMPLETE = np.linspace(0.4, 0.99, 60)  # shares of the tags that somebody gave, of those that fit
USUALLY = 0.95, 0.1  # that share before any decision was seen, and how far it may be from that
SURE = 0.98  # no pair is likelier than this to be right though nobody said so
SETTLED = 8  # rounds until pairs of a new tag, of which nobody was asked, have settled


class Column(NamedTuple):
    """What learning one tag gives."""

    semantics: Floats  # k
    dual: Floats  # of the landmarks, beyond what the fit gave
    linear: Floats  # m, of standard vectors
    constant: float  # of the linear part


class Onward:
    """A model, the pictures at hand, what was said of them, and the columns learned on since.

    Parameters
    ----------
    model : TagModel
    kept : Kept
        Both of one fit.
    others : array of shape (p, m)
        Vectors of pictures that the fit was not taught by.

    Attributes
    ----------
    taught : int
        The first rows are the examples of the fit, the others follow.
    said : array of shape (rows, tags)
        HAS, LACKS or UNDECIDED.
    raw : array of shape (rows, tags)
        Scores, of what taught a tag as if it had been left out.
    short : array of shape (rows, width)
        What the network says of them, of unit length; ``chosen`` are the rows of the landmarks.
    completeness : float
        The share of the tags that fit that people gave; see :meth:`estimate`.
    """

    def __init__(
        self,
        model: TagModel,
        kept: Kept,
        others: Floats,
        *,
        landmarks: int = LANDMARKS,
        engine: Engine = SINGLE_THREAD,
    ) -> None:
        self.model = model
        self.kept = kept
        self.engine = engine
        self.taught = len(kept.X)
        self._prepare(others, landmarks)
        Y = kept.said == HAS
        fair = shrunk_loo_scores(Y, kept.raw)
        self.general = thresholds.best_global_threshold(Y, fair)[0]
        self.before = model.calibration(kept.raw)
        t = model.n_tags
        unknown = np.full((len(others), t), UNDECIDED, np.int8)
        self.said = np.concatenate([kept.said, unknown])
        mixed = np.empty((0, t), np.float32)
        fitted = mixed
        if len(others):
            mixed = model.mixed(others, engine)
            fitted = model.smooth(model.short(others), engine)
        self.fitted = np.concatenate([kept.smooth, fitted])
        self.others = mixed
        self.mixed = np.concatenate([kept.mixed, mixed])
        self.raw = np.concatenate([kept.raw, model.related(mixed)])
        # Left out, a picture did not tell its own answer to the regression behind relations either.
        self.owed = kept.raw - model.related(kept.mixed)
        self.relations = model.relations
        self.tag_scale = model.tag_scale.copy()
        self.threshold = model.threshold.copy()
        self.offset = model.calibration.offset.copy()
        self.given = np.count_nonzero(self.raw * model.tag_scale > model.threshold, axis=0)
        self.columns: dict[int, Column] = {}
        self.estimate()

    def _prepare(self, others: Floats, landmarks: int) -> None:
        """Features of both regressions, and codes, of all rows."""
        model = self.model
        kept = self.kept
        rng = np.random.default_rng(0)
        taught = rng.permutation(self.taught)[:landmarks]
        more = self.taught + rng.permutation(len(others))[: landmarks - len(taught)]
        rows = np.concatenate([kept.X, others])
        short = model.short(rows)
        self.chosen = np.sort(np.concatenate([taught, more]))
        self.short = short
        self.landmarks = short[self.chosen]
        gamma = model.kernel.gamma
        strength = model.kernel.strength
        K = map_rows(
            self.engine, rbf_kernel_with_constant, [short], [self.landmarks, gamma], size=ROWS
        )
        inner = rbf_kernel_with_constant(self.landmarks, self.landmarks, gamma).astype(np.float64)
        inner[np.diag_indices_from(inner)] += 1e-4  # float32 leaves noise of about this size
        with single_threaded_blas():
            factor = linalg.cholesky(inner, lower=True, check_finite=False)
            self.turn = linalg.solve_triangular(
                factor, np.eye(len(factor)), lower=True, check_finite=False
            ).astype(np.float32)
        features = map_rows(self.engine, _product, [K], [self.turn.T], size=ROWS)
        self.smooth = Regression(features, self.taught, strength)
        standard = ((rows - kept.mean) / kept.scale).astype(np.float32)
        self.middle = standard[: self.taught].mean(axis=0)
        penalty = kept.strength * self.taught
        self.straight = Regression(standard - self.middle, self.taught, penalty, centred=True)
        codes = [kept.codes]
        if len(others):
            codes.append(model.coder.encode(model.lifted(others), engine=self.engine).codes)
        self.codes = sparse.csr_array(sparse.vstack(codes, format="csr"))

    def extend(self, others: Floats) -> None:
        """More pictures, which taught nothing: coded over the prototypes that there are."""
        model = self.model
        t = self.n_tags
        short = model.short(others)
        codes = model.coder.encode(model.lifted(others), engine=self.engine).codes
        near = [self.landmarks, model.kernel.gamma]
        K = map_rows(self.engine, rbf_kernel_with_constant, [short], near, size=ROWS)
        standard = ((others - self.kept.mean) / self.kept.scale).astype(np.float32)
        first = model.mixed(others, self.engine)
        fitted = model.smooth(short, self.engine)
        mixed, fitted = _widened(first, t), _widened(fitted, t)
        for column, found in self.columns.items():
            score = np.float32(model.coded_share) * (codes @ found.semantics)
            score += np.float32(model.smooth_share) * (fitted[:, column] + K @ found.dual)
            straight = standard @ found.linear + np.float32(found.constant)
            mixed[:, column] = score + np.float32(model.linear_share) * straight
        raw = self.relations(mixed)
        likely = model.related(first) * model.tag_scale > model.threshold
        self.given = self.given + np.count_nonzero(likely, axis=0)
        self.smooth.extend(map_rows(self.engine, _product, [K], [self.turn.T], size=ROWS))
        self.straight.extend(standard - self.middle)
        self.codes = sparse.csr_array(sparse.vstack([self.codes, codes], format="csr"))
        self.short = np.concatenate([self.short, short])
        self.fitted = np.concatenate([self.fitted, fitted])
        self.others = np.concatenate([self.others, first])
        self.mixed = np.concatenate([self.mixed, mixed])
        self.raw = np.concatenate([self.raw, raw.astype(np.float32)])
        unknown = np.full((len(others), t), UNDECIDED, np.int8)
        self.said = np.concatenate([self.said, unknown])

    @property
    def n_tags(self) -> int:
        return int(self.said.shape[1])

    # -- what is said ------------------------------------------------------------------------------

    def add(self) -> int:
        """A new tag, of which nothing was said yet: the number of its column."""
        t = self.n_tags
        kept = self.kept
        self.said = _widened(self.said, t + 1, UNDECIDED)
        self.raw, self.mixed, self.fitted, self.owed = (
            _widened(array, t + 1) for array in (self.raw, self.mixed, self.fitted, self.owed)
        )
        self.before = _widened(self.before, t + 1, 1e-6)
        self.kept = kept._replace(
            said=_widened(kept.said, t + 1, UNDECIDED), targets=_widened(kept.targets, t + 1)
        )
        self.relations = self.relations.widened()
        self.tag_scale = np.append(self.tag_scale, np.float32(self.tag_scale.mean()))
        self.threshold = np.append(self.threshold, np.inf)
        self.offset = np.append(self.offset, 0.0)
        return t

    def estimate(self) -> float:
        """Estimate how complete people's tags are, by what they answered when they were asked.

        The model says how likely a picture has a tag *and* was given it. Of a pair that was not
        given, a yes is the likelier the more was forgotten.
        """
        t = self.model.n_tags
        then = self.kept.said[:, :t]
        now = self.said[: self.taught, :t]
        people = (then == HAS).any(axis=1)[:, None]  # others are background, which nobody tagged
        rows, columns = np.nonzero(people & (then == UNDECIDED) & (now != UNDECIDED))
        yes = now[rows, columns] == HAS
        q = self.before[rows, columns]
        middle, width = USUALLY
        p = unsaid(q[:, None], COMPLETE)
        evidence = np.where(yes[:, None], np.log(p), np.log(1 - p)).sum(axis=0)
        evidence -= (COMPLETE - middle) ** 2 / (2 * width**2)
        weight = np.exp(evidence - evidence.max())
        self.completeness = float(np.average(COMPLETE, weights=weight))
        return self.completeness

    # -- learning ----------------------------------------------------------------------------------

    def relearn(self, column: int) -> None:
        """Learn one column from all that was said."""
        said = self.said[:, column]
        joined = self.taught + np.flatnonzero(said[self.taught :] != UNDECIDED)
        known = column < self.model.n_tags
        if known and not len(joined) and (said[: self.taught] == self.kept.said[:, column]).all():
            self._restore(column)
            return
        values = (said[joined] == HAS).astype(np.float32)
        targets = self._targets(column, joined, values)
        model = self.model
        fitted = self.fitted[:, column]
        smooth = self.smooth.column(
            targets - self.kept.targets[:, column], joined, values - fitted[joined]
        )
        frequency = np.float32(max(float(targets.mean()), 1 / self.taught))
        straight = self.straight.column(targets - frequency, joined, values - frequency)
        coded, semantics = self._coded(targets > 0.5, joined, values > 0.5)
        mixed = np.float32(model.coded_share) * coded
        mixed += np.float32(model.smooth_share) * (fitted + smooth.scores)
        mixed += np.float32(model.linear_share) * (straight.scores + frequency)
        self.columns[column] = Column(
            semantics,
            self.turn.T @ smooth.weights,
            straight.weights,
            float(frequency - self.middle @ straight.weights),
        )
        self._relate(column, mixed)
        self._finish(column, np.concatenate([targets, values]), joined)

    def _relate(self, column: int, mixed: Floats) -> None:
        self.mixed[:, column] = mixed
        coef = self.relations.columns([column])[:, 0]
        offset = self.relations.offset
        self.raw[:, column] = self.mixed @ coef + offset[column]
        self.raw[: self.taught, column] += self.owed[:, column]

    def _restore(self, column: int) -> None:
        """What was said since the fit was taken back: the column is the fit's again."""
        if self.columns.pop(column, None) is not None:
            fitted = np.concatenate([self.kept.mixed[:, column], self.others[:, column]])
            self._relate(column, fitted)
            self.threshold[column] = self.model.threshold[column]
            self.offset[column] = self.model.calibration.offset[column]

    def _targets(self, column: int, joined: Rows, values: Floats) -> Floats:
        """What examples of the fit are taught as: what was said, or how likely a tag fits."""
        base = self.said[: self.taught, column]

        def taught(silent: Array) -> Floats:
            likely = np.where(base == HAS, 1, np.where(base == LACKS, 0, silent))
            return likely.astype(np.float32)

        if column < self.model.n_tags:
            silent = unsaid(self.before[:, column], self.completeness)
            silent = np.where(silent < 0.01, 0, silent)
            return taught(np.maximum(silent, self.kept.targets[:, column]))
        silent = np.zeros(self.taught, np.float32)
        for _ in range(SETTLED):  # of a new tag nobody was asked
            found = self.smooth.column(taught(silent), joined, values)
            silent = np.clip(found.scores[: self.taught], 0, 1)
        return taught(silent)

    def _coded(self, base: Bools, joined: Rows, values: Bools) -> tuple[Floats, Array]:
        """Scores of all rows by codes, of those that teach out of fold, and the column of S."""
        kept = self.kept
        known = self.codes[: self.taught]
        start = None if kept.clustered else base.astype(np.float32)[:, None]
        if start is not None and kept.spread > 0:
            share = np.float32(kept.spread)
            S = np.asarray((1 - share) * start + share * (known @ start), np.float32)
            scores = (self.codes @ S)[:, 0]
            back = np.asarray(known.multiply(known.T).sum(axis=1), np.float32)
            scores[: self.taught] -= share * back * start[:, 0]
            return scores, S[:, 0]
        rows = np.concatenate([np.arange(self.taught), joined])
        Y = sparse.csr_array(np.concatenate([base, values])[:, None].astype(np.float32))
        core = ExemplarMCDL()
        semantics = SemanticLearner(self.codes[rows], Y, 0, core.settings(), start)
        S = semantics.learn(kept.rho)
        scores = (self.codes @ S)[:, 0]
        folds = np.concatenate([kept.folds, np.arange(len(joined)) % core.n_folds])
        scores[rows] = semantics.out_of_fold(folds, (kept.rho,))[0][:, 0]
        return scores, S[:, 0]

    def _finish(self, column: int, likely: Floats, joined: Rows) -> None:
        """Threshold and probability of one tag, beside those of all others."""
        judges = np.concatenate([np.arange(self.taught), joined])
        true = self.said[judges, column] == HAS
        raw = self.raw[judges, column]
        count = np.count_nonzero(true)
        if column < self.model.n_tags and len(joined):
            self.threshold[column] = self._as_many(column) * self.tag_scale[column]
        elif count:
            fair = shrunk_loo_scores(true[:, None], raw[:, None])
            own = float(thresholds.best_tag_thresholds(true[:, None], fair)[0])
            weight = thresholds.THRESHOLD_SHRINKAGE / (thresholds.THRESHOLD_SHRINKAGE + count)
            limit = weight * self.general + (1 - weight) * own
            self.threshold[column] = limit * self.tag_scale[column]
        knots, rates, _ = self.model.calibration
        common = np.interp(raw, knots, rates)
        if column < self.model.n_tags:
            likely = true  # probabilities are of what people give, as those of the fit
        right = float(common @ likely)
        expected = float(common @ common)
        luck = max(float(count) - LUCK, 0.25) / max(float(count), 1.0)
        self.offset[column] = np.log((right + STEADY) / (expected + STEADY)) + np.log(luck)

    def _as_many(self, column: int) -> float:
        """The score above which as many rows lie as the fit gave the tag to.

        Pictures that were asked about are not like all others: cuts that are best among them would
        be too low. But decisions do not change how many pictures have a tag.
        """
        given = int(self.given[column])
        ordered = np.sort(self.raw[:, column])[::-1]
        if not 0 < given < len(ordered):
            return float(self.model.threshold[column] / self.tag_scale[column])
        return float(ordered[given - 1] + ordered[given]) / 2

    # -- asking ------------------------------------------------------------------------------------

    def probabilities(self, columns: Any = slice(None), rows: Any = slice(None)) -> Doubles:
        """How likely people give tags to pictures, which are new to the model or were left out."""
        knots, rates, _ = self.model.calibration
        return Calibration(knots, rates, self.offset[columns])(self.raw[rows][:, columns])

    def assembled(self) -> TagModel:
        """The model, with all columns that were learned on."""
        if not self.columns:
            return self.model
        model = self.model
        t = self.n_tags
        known = self.model.n_tags
        projection = self.model.projection
        semantics = _widened(model.semantics.csr().toarray(), t)
        dual = _widened(model.kernel.dual, t)
        more = np.zeros((len(self.landmarks), t), np.float32)
        scaled = 0 if projection.scale is None else len(projection.scale)
        columns = slice(projection.linear.start - scaled, projection.linear.stop - scaled)
        straight = _widened(projection.map[:, columns], t)
        constant = np.append(projection.constant[projection.linear], np.zeros(t - known))
        scale, offset = (np.append(part, np.zeros(t - known)) for part in model.linear)
        for column, found in self.columns.items():
            semantics[:, column] = found.semantics
            more[:, column] = found.dual
            straight[:, column] = found.linear / self.kept.scale
            constant[column] = found.constant - self.kept.mean / self.kept.scale @ found.linear
            scale[column] = model.linear_share
            offset[column] = 0
        width = len(projection.constant)
        kernel = model.kernel
        calibration = model.calibration
        return replace(
            model,
            projection=projection._replace(
                map=np.hstack([projection.map, straight]),
                constant=np.append(projection.constant, constant).astype(np.float32),
                linear=slice(width, width + t),
            ),
            semantics=SparseRows.from_matrix(semantics),
            kernel=kernel._replace(
                landmarks=np.concatenate([kernel.landmarks, self.landmarks]),
                dual=np.concatenate([dual, more]),
            ),
            linear=Linear(scale.astype(np.float32), offset.astype(np.float32)),
            relations=self.relations,
            tag_scale=self.tag_scale.copy(),
            threshold=self.threshold.copy(),
            calibration=calibration._replace(offset=self.offset.copy()),
        )


def unsaid(q: Array, complete: Array | float) -> Doubles:
    """How likely a tag fits that nobody gave, if people give it with a probability of q."""
    return np.clip(q * (1 - complete) / (complete * (1 - q)), 1e-6, SURE)


def _widened(array: Array, columns: int, value: float = 0.0) -> Array:
    return np.hstack([array, np.full((len(array), columns - array.shape[1]), value, array.dtype)])


@batch_name("Multiply")
def _product(rows: Floats, matrix: Floats) -> Floats:
    return np.asarray(rows @ matrix)
