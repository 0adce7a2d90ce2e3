"""Incremental per-tag updates of a model, with the representation frozen.

A full fit selects reduction, codes, kernel and share for all tags together, and these change
rarely. The parameters of one tag are a column: of S, of the kernel regression and of the scores by
names, a threshold, and an offset of the calibration. :class:`IncrementalTagger` keeps the data that
columns are fitted to, for the examples of the fit and for all images of the candidate pool, and
refits single columns.

The kernel regression is a ridge over fixed features, and linear in its targets: a column is that of
the fit plus a regression of the residuals of later decisions. A pool image with a label of the tag
adds its residual; in the normal equations of that column it is one more row (a Woodbury update), so
that leave-one-out predictions stay in closed form. The regression of residuals is over landmarks
(Nystroem), that of the fit stays exact.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg, sparse

from prototag.arrays import Array, Bools, Doubles, Floats, SparseRows
from prototag.arrays import Rows as RowNumbers
from prototag.coding.rbf_kernel import rbf_kernel_with_constant
from prototag.engine import SINGLE_THREAD, Engine, map_rows, single_threaded_blas
from prototag.engine.task_names import batch_name
from prototag.evaluation import thresholds
from prototag.evaluation.leave_one_out import shrunk_loo_scores
from prototag.knowledge.concepts import NamePrior
from prototag.mcdl.exemplar_mcdl import ExemplarMCDL, SemanticLearner
from prototag.tagging.calibration import tag_offsets
from prototag.tagging.incremental.fit_state import HAS, LACKS, UNDECIDED, FitState
from prototag.tagging.incremental.ridge import Regression
from prototag.tagging.incremental.rows import Rows, widen
from prototag.tagging.loo_ridge import KERNEL_BATCH, KERNEL_JITTER
from prototag.tagging.model import TagModel
from prototag.tagging.name_knowledge import (
    WeightPrior,
    posterior_weight,
    standardized_prior,
)

MAX_LANDMARKS = 2_000
COMPLETENESS_GRID = np.linspace(0.4, 0.99, 60)  # shares of the correct tags that people gave
COMPLETENESS_MEAN = 0.95  # of the Gaussian prior, before any decision
COMPLETENESS_DEVIATION = 0.1
MAX_MISSING_PROBABILITY = 0.98  # no pair without a label is more probable than this
MIN_IMPUTED_PROBABILITY = 0.01  # below it an imputed target is 0
NEW_TAG_ROUNDS = 8  # after which imputed probabilities of a new tag change no more


class TagUpdate(NamedTuple):
    """The refitted parameters of one tag."""

    semantics: Floats  # k, column of S
    dual: Floats  # landmarks, coefficients of the correction to the fitted model


class IncrementalTagger:
    """A fitted model, the rows that its columns are fitted to, and the updates since the fit.

    Parameters
    ----------
    model : TagModel
    fit_state : FitState
        Both of one fit.
    pool : array of shape (p, m)
        Vectors of the candidate pool: images that the fit did not use.

    Attributes
    ----------
    n_fit : int
        Number of examples of the fit, the first of the rows; the pool follows.
    rows : Rows
        Labels, which callers change before :meth:`update_tag`, and scores.
    landmark_rows : array of l
        The rows that are landmarks of corrections; ``landmarks`` are their vectors of the kernel.
    updates : dict of int to TagUpdate
        The columns that differ from the fit.
    completeness : float
        Estimated share of the correct tags that people gave; see :meth:`estimate_completeness`.
    fit_probabilities : array of shape (n_fit, t)
        Held-out probabilities by the fit.
    n_applied : array of t
        Number of rows that the fit applies each tag to.
    name_coef, name_intercept : arrays of shape (m, t) and (t,)
        Weighted prior scores by names, for vectors as they are.
    new_names : dict of int to NamePrior
        Standardized priors of tags that were added since the fit.
    """

    def __init__(
        self,
        model: TagModel,
        fit_state: FitState,
        pool: Floats,
        *,
        landmarks: int = MAX_LANDMARKS,
        engine: Engine = SINGLE_THREAD,
    ) -> None:
        self.model = model
        self.fit_state = fit_state
        self.engine = engine
        self.n_fit = len(fit_state.X)
        vectors = self._fit_features(pool, landmarks)
        self.rows = Rows(
            labels=fit_state.labels,
            X=fit_state.X,
            vectors=vectors[: self.n_fit],
            codes=fit_state.codes,
            fit_kernel_scores=fit_state.kernel_scores,
            fit_raw=fit_state.raw,
            raw=fit_state.raw,
        )
        self.rows.append(self._pool_rows(pool, vectors[self.n_fit :]))
        self.fit_probabilities = model.calibration(fit_state.raw)
        self.tag_scale = model.tag_scale.copy()
        self.threshold = model.threshold.copy()
        self.offset = model.calibration.offset.copy()
        self.n_applied = self._count_applied(self.rows.raw)
        self.updates: dict[int, TagUpdate] = {}
        t = model.n_tags
        has_names = fit_state.name_coef.shape[1] > 0
        m = model.n_features
        self.name_coef = fit_state.name_coef.copy() if has_names else np.zeros((m, t), np.float32)
        self.name_intercept = (
            fit_state.name_intercept.copy() if has_names else np.zeros(t, np.float32)
        )
        self.new_names: dict[int, NamePrior] = {}
        self.estimate_completeness()

    def _fit_features(self, pool: Floats, landmarks: int) -> Floats:
        """Compute the features of the regression; return the reduced vectors of all rows."""
        model = self.model
        rng = np.random.default_rng(0)
        of_fit = rng.permutation(self.n_fit)[:landmarks]
        of_pool = self.n_fit + rng.permutation(len(pool))[: landmarks - len(of_fit)]
        X = np.concatenate([self.fit_state.X, pool])
        vectors = model.vectors(X)
        self.landmark_rows = np.sort(np.concatenate([of_fit, of_pool]))
        self.landmarks = vectors[self.landmark_rows]
        gamma = model.kernel.gamma
        K = self._kernel(vectors)
        inner = rbf_kernel_with_constant(self.landmarks, self.landmarks, gamma).astype(np.float64)
        inner[np.diag_indices_from(inner)] += KERNEL_JITTER
        with single_threaded_blas():
            factor = linalg.cholesky(inner, lower=True, check_finite=False)
            self.whitening = linalg.solve_triangular(
                factor, np.eye(len(factor)), lower=True, check_finite=False
            ).astype(np.float32)
        features = self._whitened(K)
        self.kernel_ridge = Regression(features, self.n_fit, model.kernel.strength)
        return vectors

    def _kernel(self, vectors: Floats) -> Floats:
        shared = [self.landmarks, self.model.kernel.gamma]
        return map_rows(self.engine, rbf_kernel_with_constant, [vectors], shared, size=KERNEL_BATCH)

    def _whitened(self, K: Floats) -> Floats:
        return map_rows(self.engine, _product, [K], [self.whitening.T], size=KERNEL_BATCH)

    def _count_applied(self, raw: Floats) -> Array:
        """Return the number of rows that the fit applies each of its tags to."""
        applied = raw * self.model.tag_scale > self.model.threshold
        return np.asarray(np.count_nonzero(applied, axis=0))

    def _pool_rows(self, pool: Floats, vectors: Floats) -> Rows:
        """Return unlabeled rows with the scores of the fitted model."""
        model = self.model
        t = model.n_tags
        raw = np.empty((0, t), np.float32)
        kernel_scores = raw
        codes = self.fit_state.codes[:0]
        if len(pool):
            raw = model.raw(pool, self.engine)
            kernel_scores = model.kernel_scores(vectors, self.engine)
            codes = model.coder.encode(vectors, engine=self.engine).codes
        return Rows(
            labels=np.full((len(pool), t), UNDECIDED, np.int8),
            X=pool,
            vectors=vectors,
            codes=codes,
            fit_kernel_scores=kernel_scores,
            fit_raw=raw,
            raw=raw,
        )

    def extend(self, pool: Floats) -> None:
        """Append images to the pool; they are coded over the existing prototypes."""
        vectors = self.model.vectors(pool)
        more = self._pool_rows(pool, vectors)
        self.n_applied = self.n_applied + self._count_applied(more.raw)
        for _ in range(self.n_tags - self.model.n_tags):
            more.add_column()
        K = self._kernel(vectors)
        more.raw = more.fit_raw.copy()
        for column, update in self.updates.items():
            more.raw[:, column] = self._mix(
                more.codes @ update.semantics,
                more.fit_kernel_scores[:, column] + K @ update.dual,
                self._name_scores(column, pool),
            )
        self.kernel_ridge.extend(self._whitened(K))
        self.rows.append(more)

    def _mix(self, code_scores: Floats, kernel_scores: Floats, name_scores: Floats) -> Floats:
        share = self.model.kernel_share
        mixed = np.float32(1 - share) * code_scores + np.float32(share) * kernel_scores
        return np.asarray(mixed + name_scores, np.float32)

    @property
    def n_tags(self) -> int:
        """Number of tags, those added since the fit included."""
        return self.rows.n_tags

    # -- labels ------------------------------------------------------------------------------------

    def add_tag(self, name_prior: NamePrior | None = None) -> int:
        """Add a tag without labels, with a prior by its name; return the number of its column."""
        t = self.n_tags
        self.name_coef = widen(self.name_coef, 1)
        self.name_intercept = np.append(self.name_intercept, np.float32(0))
        if name_prior is not None and self.fit_state.name_weight > 0:
            self.new_names[t] = standardized_prior(name_prior, self.fit_state.X)
        fit_state = self.fit_state
        self.rows.add_column()
        self.fit_probabilities = widen(self.fit_probabilities, 1, 1e-6)
        self.fit_state = fit_state._replace(
            labels=widen(fit_state.labels, 1, UNDECIDED), targets=widen(fit_state.targets, 1)
        )
        self.tag_scale = np.append(self.tag_scale, np.float32(self.tag_scale.mean()))
        self.threshold = np.append(self.threshold, np.inf)
        self.offset = np.append(self.offset, 0.0)
        return t

    def estimate_completeness(self) -> float:
        """Estimate the share of correct tags that people gave, from their later decisions.

        The model predicts the probability that an image has a tag *and* was given it. Accepting a
        pair that was not given is the more probable the more tags are missing.
        """
        t = self.model.n_tags
        at_fit = self.fit_state.labels[:, :t]
        now = self.rows.labels[: self.n_fit, :t]
        # Examples without any tag are background: nobody tagged them.
        tagged = (at_fit == HAS).any(axis=1)[:, None]
        rows, columns = np.nonzero(tagged & (at_fit == UNDECIDED) & (now != UNDECIDED))
        accepted = now[rows, columns] == HAS
        q = self.fit_probabilities[rows, columns]
        p = p_missing_label(q[:, None], COMPLETENESS_GRID)
        evidence = np.where(accepted[:, None], np.log(p), np.log(1 - p)).sum(axis=0)
        evidence -= (COMPLETENESS_GRID - COMPLETENESS_MEAN) ** 2 / (2 * COMPLETENESS_DEVIATION**2)
        weight = np.exp(evidence - evidence.max())
        self.completeness = float(np.average(COMPLETENESS_GRID, weights=weight))
        return self.completeness

    # -- updates -----------------------------------------------------------------------------------

    def update_tag(self, column: int) -> None:
        """Refit one column to all labels of its tag."""
        labels = self.rows.labels[:, column]
        extra_rows = self.n_fit + np.flatnonzero(labels[self.n_fit :] != UNDECIDED)
        at_fit = self.fit_state.labels[:, column]
        is_of_fit = column < self.model.n_tags and not len(extra_rows)
        if is_of_fit and (labels[: self.n_fit] == at_fit).all():
            self._restore(column)
            return
        extra_targets = (labels[extra_rows] == HAS).astype(np.float32)
        targets = self._targets(column, extra_rows, extra_targets)
        fit_scores = self.rows.fit_kernel_scores[:, column]
        if column >= self.model.n_tags:
            self._weigh_new_name(column, targets, extra_rows, extra_targets)
        by_name = self._name_scores(column, self.rows.X)
        # The kernel regression of the fit has the targets without the scores by names.
        fit_targets = self.fit_state.targets[:, column]
        if column >= self.model.n_tags:
            fit_targets = by_name[: self.n_fit]
        correction = self.kernel_ridge.fit_column(
            targets - fit_targets,
            extra_rows,
            extra_targets - fit_scores[extra_rows] - by_name[extra_rows],
        )
        code_scores, semantics = self._fit_semantics(targets > 0.5, extra_rows, extra_targets > 0.5)
        self.updates[column] = TagUpdate(semantics, self.whitening.T @ correction.weights)
        self.rows.raw[:, column] = self._mix(code_scores, fit_scores + correction.scores, by_name)
        self._calibrate(column, np.concatenate([targets, extra_targets]), extra_rows)

    def _name_scores(self, column: int, X: Floats) -> Floats:
        """Return the weighted scores of images (n x m) by the name of a tag."""
        coef = self.name_coef[:, column]
        if not coef.any():
            return np.zeros(len(X), np.float32)
        return np.asarray(X @ coef + self.name_intercept[column], np.float32)

    def _weigh_new_name(
        self, column: int, targets: Floats, extra_rows: RowNumbers, extra_targets: Floats
    ) -> None:
        """Weigh the name of a tag added since the fit: by its labels, and by the other tags."""
        prior = self.new_names.get(column)
        if prior is None:
            return
        self.name_coef[:, column] = prior.coef[:, 0]
        self.name_intercept[column] = prior.intercept[0]
        scores = self._name_scores(column, self.rows.X)
        kernel_share = np.float32(self.model.kernel_share)
        rows = np.concatenate([np.arange(self.n_fit), extra_rows])
        of_labels = self.kernel_ridge.fit_column(targets, extra_rows, extra_targets)
        of_name = self.kernel_ridge.fit_column(scores[: self.n_fit], extra_rows, scores[extra_rows])
        weight = posterior_weight(
            np.concatenate([targets, extra_targets]),
            kernel_share * of_labels.scores[rows],
            scores[rows] - kernel_share * of_name.scores[rows],
            WeightPrior(self.fit_state.name_weight, self.fit_state.name_weight_variance),
            self.rows.labels[rows, column] != UNDECIDED,
        )
        self.name_coef[:, column] *= weight
        self.name_intercept[column] *= weight

    def _restore(self, column: int) -> None:
        """Return to the column of the fit, because all later decisions were undone."""
        if self.updates.pop(column, None) is not None:
            self.rows.raw[:, column] = self.rows.fit_raw[:, column]
            self.threshold[column] = self.model.threshold[column]
            self.offset[column] = self.model.calibration.offset[column]

    def _targets(self, column: int, extra_rows: RowNumbers, extra_targets: Floats) -> Floats:
        """Return the targets of the examples: labels, and probabilities of unlabeled pairs."""
        labels = self.rows.labels[: self.n_fit, column]

        def with_labels(imputed: Array) -> Floats:
            targets = np.where(labels == HAS, 1, np.where(labels == LACKS, 0, imputed))
            return targets.astype(np.float32)

        if column < self.model.n_tags:
            imputed = p_missing_label(self.fit_probabilities[:, column], self.completeness)
            imputed = np.where(imputed < MIN_IMPUTED_PROBABILITY, 0, imputed)
            return with_labels(np.maximum(imputed, self.fit_state.targets[:, column]))
        imputed = np.zeros(self.n_fit, np.float32)
        for _ in range(NEW_TAG_ROUNDS):
            fitted = self.kernel_ridge.fit_column(with_labels(imputed), extra_rows, extra_targets)
            imputed = np.clip(fitted.scores[: self.n_fit], 0, 1)
        return with_labels(imputed)

    def _fit_semantics(
        self, positive: Bools, extra_rows: RowNumbers, extra_positive: Bools
    ) -> tuple[Floats, Array]:
        """Return scores of all rows by codes, held-out where labeled, and the column of S."""
        fit_state = self.fit_state
        codes = self.rows.codes
        fit_codes = codes[: self.n_fit]
        start = None if fit_state.clustered else positive.astype(np.float32)[:, None]
        if start is not None and fit_state.spread > 0:
            spread = np.float32(fit_state.spread)
            S = np.asarray((1 - spread) * start + spread * (fit_codes @ start), np.float32)
            scores = (codes @ S)[:, 0]
            # Labels that propagation returns to the same example.
            returned = np.asarray(fit_codes.multiply(fit_codes.T).sum(axis=1), np.float32)
            scores[: self.n_fit] -= spread * returned * start[:, 0]
            return scores, S[:, 0]
        rows = np.concatenate([np.arange(self.n_fit), extra_rows])
        labels = np.concatenate([positive, extra_positive])[:, None]
        core = ExemplarMCDL()
        semantics = SemanticLearner(
            codes[rows], sparse.csr_array(labels.astype(np.float32)), 0, core.settings(), start
        )
        S = semantics.learn(fit_state.rho)
        scores = (codes @ S)[:, 0]
        folds = np.concatenate([fit_state.folds, np.arange(len(extra_rows)) % core.n_folds])
        scores[rows] = semantics.out_of_fold(folds, (fit_state.rho,))[0][:, 0]
        return scores, S[:, 0]

    def _calibrate(self, column: int, targets: Floats, extra_rows: RowNumbers) -> None:
        """Update the threshold and the calibration offset of one tag."""
        rows = np.concatenate([np.arange(self.n_fit), extra_rows])
        true = self.rows.labels[rows, column] == HAS
        raw = self.rows.raw[rows, column]
        count = np.count_nonzero(true)
        common = np.interp(raw, self.model.calibration.knots, self.model.calibration.rates)
        # As in the fit, probabilities are of labels that people give.
        positives = true if column < self.model.n_tags else targets
        self.offset[column] = tag_offsets(common @ positives, common @ common, count)
        if column < self.model.n_tags and len(extra_rows):
            self.threshold[column] = self._prevalence_threshold(column) * self.tag_scale[column]
        elif count:
            shrunk = shrunk_loo_scores(true[:, None], raw[:, None])
            calibration = self.model.calibration._replace(offset=self.offset[[column]])
            limit = thresholds.expected_f1_thresholds(true[:, None], shrunk, calibration(shrunk))
            self.threshold[column] = limit[0] * self.tag_scale[column]

    def _prevalence_threshold(self, column: int) -> float:
        """Return the threshold that keeps the predicted prevalence of the tag constant.

        Reviewed images are not a random sample, so the best threshold among them would be too low;
        but decisions do not change how many images have a tag.
        """
        count = int(self.n_applied[column])
        descending = np.sort(self.rows.raw[:, column])[::-1]
        if not 0 < count < len(descending):
            return float(self.model.threshold[column] / self.tag_scale[column])
        return float(descending[count - 1] + descending[count]) / 2

    # -- results -----------------------------------------------------------------------------------

    def probabilities(self, columns: Any = slice(None), rows: Any = slice(None)) -> Doubles:
        """Return the held-out probabilities that people give these tags to the images of rows."""
        calibration = self.model.calibration._replace(offset=self.offset[columns])
        return calibration(self.rows.raw[rows][:, columns])

    def build_model(self) -> TagModel:
        """Return the model with all updates."""
        if not self.updates:
            return self.model
        model = self.model
        projection = model.projection
        n_new = self.n_tags - model.n_tags
        semantics = widen(model.semantics.csr().toarray(), n_new)
        dual = widen(model.kernel.dual, n_new)
        correction = np.zeros((len(self.landmarks), self.n_tags), np.float32)
        for column, update in self.updates.items():
            semantics[:, column] = update.semantics
            correction[:, column] = update.dual
        width = projection.width
        n_scaled = 0 if projection.scale is None else len(projection.scale)
        if self.name_coef.any() or len(projection.constant) > width:
            linear_map = projection.map[:, : width - n_scaled]
            projection = projection._replace(
                map=np.hstack([linear_map, self.name_coef]),
                constant=np.append(projection.constant[:width], self.name_intercept).astype(
                    np.float32
                ),
            )
        kernel = model.kernel
        return replace(
            model,
            projection=projection,
            semantics=SparseRows.from_matrix(semantics),
            kernel=kernel._replace(
                landmarks=np.concatenate([kernel.landmarks, self.landmarks]),
                dual=np.concatenate([dual, correction]),
            ),
            tag_scale=self.tag_scale.copy(),
            threshold=self.threshold.copy(),
            calibration=model.calibration._replace(offset=self.offset.copy()),
        )


def p_missing_label(q: Array, completeness: Array | float) -> Doubles:
    """Return the probability that an image without the label has the tag.

    ``q`` is the probability that it has the tag and was given it.
    """
    p = q * (1 - completeness) / (completeness * (1 - q))
    return np.clip(p, 1e-6, MAX_MISSING_PROBABILITY)


@batch_name("Multiply")
def _product(rows: Floats, matrix: Floats) -> Floats:
    return np.asarray(rows @ matrix)
