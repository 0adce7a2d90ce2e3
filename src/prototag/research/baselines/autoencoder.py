"""MVSAE on given vectors: a stacked denoising auto-encoder of feature groups and tags."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from numbers import Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.special import expit
from sklearn.utils._param_validation import Interval

from prototag.arrays import Array, Floats, Rows, rowwise_matmul
from prototag.engine import Threads, map_rows, single_threaded_blas
from prototag.research.baselines import knn_search
from prototag.research.baselines.base import AUTO, COUNT, NOT_NEGATIVE, POSITIVE
from prototag.research.baselines.cross_validated import CrossValidatedBaseline, Setting

BATCH = 256  # images of a step, and of scoring
HELD_OUT = 0.1  # share of the images on which training stops early
PATIENCE = 3  # epochs without progress
MOMENTUM = 0.9  # Adam's, of gradients
SECOND_MOMENTUM = 0.999  # Adam's, of their squares
BALANCES = (0.3, 0.6)
ENCODER = ("encoder", "encoder_offset", "decoder_offset")
JOINT = ("joint", "joint_offset", "hidden_offset", "coef", "intercept")
KEPT = ("encoder", "encoder_offset", "joint", "joint_offset", "coef", "intercept")

Parameters = dict[str, Array]
Gradient = Callable[[Parameters, Rows], tuple[float, Parameters]]


@dataclass(eq=False, repr=False)
class MVSAE(CrossValidatedBaseline):
    """Multi-view stacked auto-encoder on given vectors (after Yang, Zhang and Xie 2015).

    Each feature group v has an encoder ``h_v = relu(x_v W_v + b_v)``; the groups are joined in
    ``z = relu([h_1 .. h_V] U + c)``, and tags are scored by ``z R + d``. The encoders are first
    trained as denoising auto-encoders with tied weights, then the joint layer reconstructs all h
    and the tags (the view that is absent at test time). Fine-tuning minimises

        1/n sum_ic [u_c y_ic softplus(-s_ic) + (1 - y_ic) softplus(s_ic)]
            + decay (||W||^2 + ||U||^2 + ||R||^2)
            + reconstruction / n sum_i ||x_i - decode(z_i)||^2,
        u_c = ((n - n_c) / n_c) ** balance

    by Adam on batches of 256 images, with early stopping on a tenth of the training images.
    Columns are standardised. Decoding uses the tied weights.

    Later papers describe one auto-encoder per view, a joint layer, a sigmoid predictor, and weights
    for rare tags. Sizes, losses, the form of the weights and the optimiser are our choices; the
    paper weights tags again after rounds of training. With one feature group it is a pretrained
    multilayer perceptron.

    Parameters
    ----------
    n_hidden : int, default=512
        Units of all encoders together; each group has a share by its number of columns.
    n_joint : int, default=256
    balance : float or "auto", default="auto"
        "auto" selects one of two values on out-of-fold scores.
    corruption : float, default=0.2
        The share of inputs that are set to zero in training.
    reconstruction : float, default=0.1
    decay : float, default=1e-5
    rate : float, default=1e-3
        The step size of Adam.
    n_pretraining : int, default=3
        Epochs of each layer.
    n_epochs : int, default=20
        Epochs of fine-tuning, at most.
    groups : array-like of shape (m,) or None, default=None
        The feature group (view) of each column.
    threshold, n_folds, n_jobs
        As in :class:`Logistic`.
    random_state : int, RandomState or None, default=0
        Draws the folds, initial weights, batches and corruption.

    Attributes
    ----------
    mean_, scale_ : ndarray of shape (m,)
    encoder_ : ndarray of shape (m, h)
        Weights of all groups; zero between columns and units of different groups.
    encoder_offset_ : ndarray of shape (h,)
    joint_ : ndarray of shape (h, z)
    joint_offset_ : ndarray of shape (z,)
    coef_ : ndarray of shape (z, t)
    intercept_ : ndarray of shape (t,)
    setting_ : dict
        The selected balance.
    out_of_fold_scores_, threshold_, classes_
        As in :class:`Logistic`.

    References
    ----------
    Y. Yang, W. Zhang and Y. Xie, "Image automatic annotation via multi-view deep representation",
    Journal of Visual Communication and Image Representation 33, 2015.
    """

    n_hidden: int = 512
    _: KW_ONLY
    n_joint: int = 256
    balance: float | str = "auto"
    corruption: float = 0.2
    reconstruction: float = 0.1
    decay: float = 1e-5
    rate: float = 1e-3
    n_pretraining: int = 3
    n_epochs: int = 20
    groups: npt.ArrayLike | None = None
    mean_: Floats = field(init=False)
    scale_: Floats = field(init=False)
    encoder_: Floats = field(init=False)
    encoder_offset_: Floats = field(init=False)
    joint_: Floats = field(init=False)
    joint_offset_: Floats = field(init=False)
    coef_: Floats = field(init=False)
    intercept_: Floats = field(init=False)

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **CrossValidatedBaseline._parameter_constraints,
        "n_hidden": [COUNT],
        "n_joint": [COUNT],
        "balance": [NOT_NEGATIVE, AUTO],
        "corruption": [Interval(Real, 0, 1, closed="left")],
        "reconstruction": [NOT_NEGATIVE],
        "decay": [NOT_NEGATIVE],
        "rate": [POSITIVE],
        "n_pretraining": [COUNT],
        "n_epochs": [COUNT],
        "groups": ["array-like", None],
    }
    _grids: ClassVar[dict[str, tuple[float, ...]]] = {"balance": BALANCES}

    def _fit_models(
        self, X: Floats, Y: sparse.csr_array, settings: Sequence[Setting], seed: int
    ) -> list[Network]:
        mean = X.mean(axis=0, dtype=np.float64).astype(np.float32)
        deviation = X.std(axis=0, dtype=np.float64)
        scale = (1 / np.where(deviation > 1e-6, deviation, 1)).astype(np.float32)
        x = (X - mean) * scale
        y = Y.toarray()
        group = knn_search.group_numbers(self.groups, X.shape[1])
        rng = np.random.default_rng(seed)
        order = rng.permutation(len(x))
        held_out = order[: round(HELD_OUT * len(x))]
        training = order[len(held_out) :]
        with single_threaded_blas():
            mask = group_mask(group, self.n_hidden)
            start = initial_parameters(mask, self.n_joint, y.shape[1], rng)
            start = self._pretrain(x, y, training, mask, start, rng)
            return [
                Network(
                    mean,
                    scale,
                    self._fine_tune(x, y, training, held_out, mask, start, setting, seed),
                )
                for setting in settings
            ]

    def _pretrain(
        self,
        x: Floats,
        y: Floats,
        training: Rows,
        mask: Floats,
        start: Parameters,
        rng: np.random.Generator,
    ) -> Parameters:
        """Train the encoders, then the joint layer, each to reconstruct its input."""

        def encoders(p: Parameters, rows: Rows) -> tuple[float, Parameters]:
            noisy = corrupt(x[rows], self.corruption, rng)
            return encoder_loss(p, x[rows], noisy, mask, self.decay)

        first = {name: start[name] for name in ENCODER}
        part = adam(first, encoders, training, rng, self.rate)
        parameters = {**start, **last(part, self.n_pretraining)}
        hidden = relu(x @ parameters["encoder"] + parameters["encoder_offset"])

        def joint(p: Parameters, rows: Rows) -> tuple[float, Parameters]:
            noisy = corrupt(hidden[rows], self.corruption, rng)
            return joint_loss(p, hidden[rows], y[rows], noisy, self.decay)

        second = {name: parameters[name] for name in JOINT}
        part = adam(second, joint, training, rng, self.rate)
        return {**parameters, **last(part, self.n_pretraining)}

    def _fine_tune(
        self,
        x: Floats,
        y: Floats,
        training: Rows,
        held_out: Rows,
        mask: Floats,
        start: Parameters,
        setting: Setting,
        seed: int,
    ) -> Parameters:
        """Train all layers; return the parameters of the lowest loss of the held-out images."""
        rng = np.random.default_rng([seed, 1])
        weights = tag_weights(y[training], setting["balance"])
        penalties = Penalties(self.decay, self.reconstruction)

        def loss(p: Parameters, rows: Rows) -> tuple[float, Parameters]:
            noisy = corrupt(x[rows], self.corruption, rng)
            return network_loss(p, x[rows], y[rows], noisy, mask, weights, penalties)

        best = start
        best_loss = np.inf
        waited = 0
        epochs = adam(start, loss, training, rng, self.rate)
        for _, parameters in zip(range(self.n_epochs), epochs, strict=False):
            if len(held_out) == 0:
                best = parameters
                continue
            current = tag_loss(logits(parameters, x[held_out]), y[held_out], weights)
            waited += 1
            if current < best_loss:
                best = parameters
                best_loss = current
                waited = 0
            if waited == PATIENCE:
                break
        return best

    def _model_scores(self, model: Network, X: Floats) -> Floats:
        shared = [model.mean, model.scale, *(model.parameters[name] for name in KEPT)]
        return map_rows(Threads(self.n_jobs), score_batch, [X], shared, size=BATCH)

    def _set_fitted(self, model: Network) -> None:
        self.mean_ = model.mean
        self.scale_ = model.scale
        for name in KEPT:
            setattr(self, f"{name}_", model.parameters[name])

    def _get_fitted(self) -> Network:
        names = ("encoder", "encoder_offset", "joint", "joint_offset", "coef", "intercept")
        return Network(self.mean_, self.scale_, {name: getattr(self, f"{name}_") for name in names})

    def _arrays(self) -> dict[str, str]:
        return {
            "mean_": "f4 m",
            "scale_": "f4 m",
            "encoder_": "f4 m h",
            "encoder_offset_": "f4 h",
            "joint_": "f4 h z",
            "joint_offset_": "f4 z",
            "coef_": "f4 z t",
            "intercept_": "f4 t",
        }


class Network(NamedTuple):
    mean: Floats  # m
    scale: Floats  # m
    parameters: Parameters


class Penalties(NamedTuple):
    decay: float
    reconstruction: float


def score_batch(
    x: Floats,
    mean: Floats,
    scale: Floats,
    encoder: Floats,
    encoder_offset: Floats,
    joint: Floats,
    joint_offset: Floats,
    coef: Floats,
    intercept: Floats,
) -> Floats:
    """Return the log-odds of all tags for a batch of images."""
    hidden = relu(rowwise_matmul((x - mean) * scale, encoder) + encoder_offset)
    joined = relu(rowwise_matmul(hidden, joint) + joint_offset)
    return np.asarray(rowwise_matmul(joined, coef) + intercept)


def group_mask(group: Rows, n_hidden: int) -> Floats:
    """Return which units of the hidden layer see which columns, m x h, as 0 and 1."""
    columns = np.bincount(group)
    units = np.maximum(1, np.round(n_hidden * columns / len(group))).astype(int)
    owner = np.repeat(np.arange(len(units)), units)
    return np.asarray(group[:, None] == owner, np.float32)


def initial_parameters(mask: Floats, n_joint: int, t: int, rng: np.random.Generator) -> Parameters:
    """Draw weights with the variance that keeps the scale of a layer's input (He et al. 2015)."""
    m, h = mask.shape
    seen = mask.sum(axis=0)

    def draw(rows: int, columns: int, inputs: Any) -> Floats:
        values = rng.standard_normal((rows, columns)) * np.sqrt(2 / inputs)
        return np.asarray(values, np.float32)

    return {
        "encoder": draw(m, h, seen) * mask,
        "encoder_offset": np.zeros(h, np.float32),
        "decoder_offset": np.zeros(m, np.float32),
        "joint": draw(h, n_joint, h),
        "joint_offset": np.zeros(n_joint, np.float32),
        "hidden_offset": np.zeros(h, np.float32),
        "coef": draw(n_joint, t, n_joint) * np.float32(0.1),
        "intercept": np.zeros(t, np.float32),
    }


def tag_weights(y: Floats, balance: float) -> Floats:
    """Return the weight of the positives of each tag, at least one."""
    number = np.maximum(y.sum(axis=0), 1)
    return np.asarray(np.maximum((len(y) - number) / number, 1) ** balance, y.dtype)


def relu(values: Array) -> Array:
    return np.asarray(np.maximum(values, 0))


def corrupt(x: Array, share: float, rng: np.random.Generator) -> Array:
    """Set a share of the values to zero."""
    if share == 0:
        return x
    return np.where(rng.random(x.shape, np.float32) < share, x.dtype.type(0), x)


def logits(p: Parameters, x: Array) -> Array:
    hidden = relu(x @ p["encoder"] + p["encoder_offset"])
    joined = relu(hidden @ p["joint"] + p["joint_offset"])
    return np.asarray(joined @ p["coef"] + p["intercept"])


def tag_loss(s: Array, y: Array, weights: Array) -> float:
    """Return the weighted cross-entropy, summed over tags and averaged over images."""
    softplus = np.logaddexp(0, s)
    return float((weights * y * (softplus - s) + (1 - y) * softplus).sum() / len(s))


def encoder_loss(
    p: Parameters, x: Array, noisy: Array, mask: Array, decay: float
) -> tuple[float, Parameters]:
    """Return the loss of the denoising auto-encoders of all groups, and its gradient."""
    n = len(x)
    W = p["encoder"]
    hidden = relu(noisy @ W + p["encoder_offset"])
    error = hidden @ W.T + p["decoder_offset"] - x
    loss = float(np.square(error).sum() / n + decay * np.square(W).sum())
    error = error * (2 / n)
    back = (error @ W) * (hidden > 0)
    gradient = noisy.T @ back + error.T @ hidden + 2 * decay * W
    return loss, {
        "encoder": gradient * mask,
        "encoder_offset": back.sum(axis=0),
        "decoder_offset": error.sum(axis=0),
    }


def joint_loss(
    p: Parameters, hidden: Array, y: Array, noisy: Array, decay: float
) -> tuple[float, Parameters]:
    """Return the loss of the joint layer, which reconstructs the hidden units and the tags."""
    n = len(hidden)
    U = p["joint"]
    joined = relu(noisy @ U + p["joint_offset"])
    error = joined @ U.T + p["hidden_offset"] - hidden
    s = joined @ p["coef"] + p["intercept"]
    loss = float(np.square(error).sum() / n) + tag_loss(s, y, np.ones(1, s.dtype))
    loss += float(decay * (np.square(U).sum() + np.square(p["coef"]).sum()))
    error = error * (2 / n)
    tags = (expit(s) - y) / n
    back = (error @ U + tags @ p["coef"].T) * (joined > 0)
    return loss, {
        "joint": noisy.T @ back + error.T @ joined + 2 * decay * U,
        "joint_offset": back.sum(axis=0),
        "hidden_offset": error.sum(axis=0),
        "coef": joined.T @ tags + 2 * decay * p["coef"],
        "intercept": tags.sum(axis=0),
    }


def network_loss(
    p: Parameters,
    x: Array,
    y: Array,
    noisy: Array,
    mask: Array,
    weights: Array,
    penalties: Penalties,
) -> tuple[float, Parameters]:
    """Return the loss of fine-tuning and its gradient."""
    n = len(x)
    W = p["encoder"]
    U = p["joint"]
    R = p["coef"]
    hidden = relu(noisy @ W + p["encoder_offset"])
    joined = relu(hidden @ U + p["joint_offset"])
    s = joined @ R + p["intercept"]
    rebuilt = relu(joined @ U.T + p["hidden_offset"])
    error = rebuilt @ W.T + p["decoder_offset"] - x
    loss = tag_loss(s, y, weights) + penalties.reconstruction * float(np.square(error).sum() / n)
    loss += penalties.decay * float(sum(np.square(part).sum() for part in (W, U, R)))

    probability = expit(s)
    tags = ((1 - y) * probability - weights * y * (1 - probability)) / n
    error = error * (2 * penalties.reconstruction / n)
    back_rebuilt = (error @ W) * (rebuilt > 0)
    back_joined = (tags @ R.T + back_rebuilt @ U) * (joined > 0)
    back_hidden = (back_joined @ U.T) * (hidden > 0)
    decay = 2 * penalties.decay
    encoder = noisy.T @ back_hidden + error.T @ rebuilt
    return loss, {
        "encoder": encoder * mask + decay * W,
        "encoder_offset": back_hidden.sum(axis=0),
        "decoder_offset": error.sum(axis=0),
        "joint": hidden.T @ back_joined + back_rebuilt.T @ joined + decay * U,
        "joint_offset": back_joined.sum(axis=0),
        "hidden_offset": back_rebuilt.sum(axis=0),
        "coef": joined.T @ tags + decay * R,
        "intercept": tags.sum(axis=0),
    }


def adam(
    start: Parameters, gradient: Gradient, rows: Rows, rng: np.random.Generator, rate: float
) -> Iterator[Parameters]:
    """Yield the parameters after each epoch of Adam (Kingma and Ba 2015)."""
    parameters = {name: value.copy() for name, value in start.items()}
    first = {name: np.zeros_like(value) for name, value in start.items()}
    second = {name: np.zeros_like(value) for name, value in start.items()}
    step = 0
    while True:
        order = rng.permutation(rows)
        for begin in range(0, len(order), BATCH):
            step += 1
            _, slopes = gradient(parameters, order[begin : begin + BATCH])
            correction = np.sqrt(1 - SECOND_MOMENTUM**step) / (1 - MOMENTUM**step)
            for name, slope in slopes.items():
                first[name] += (1 - MOMENTUM) * (slope - first[name])
                second[name] += (1 - SECOND_MOMENTUM) * (np.square(slope) - second[name])
                change = first[name] / (np.sqrt(second[name]) + 1e-8)
                parameters[name] -= (rate * correction * change).astype(parameters[name].dtype)
        yield {name: value.copy() for name, value in parameters.items()}


def last(epochs: Iterator[Parameters], count: int) -> Parameters:
    """Return the parameters after ``count`` epochs."""
    for _ in range(count - 1):
        next(epochs)
    return next(epochs)
