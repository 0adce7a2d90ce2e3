"""Slow twins of the kernels, written from the mathematics of the method alone, in float64.

Nothing here is shared with the package: dense arrays, loops over images, tags and prototypes. A
twin says what a kernel must compute; how fast is the kernel's business.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

TINY = 1e-12


# -- coding ----------------------------------------------------------------------------------------


class Path(NamedTuple):
    """One point of the non-negative lasso path: where it ended and why."""

    code: np.ndarray  # k
    lam: float  # correlation that the active prototypes share
    capped: bool  # the cap ended the path: one more prototype wanted to join


def stack(x, D, target=None, S=None, weight=0.0):
    """``[x | sqrt(w) target]`` over ``[D | sqrt(w) S]``: coupled coding as plain coding."""
    if S is None:
        return np.asarray(x, float), np.asarray(D, float)
    root = np.sqrt(weight)
    return (
        np.concatenate([x, root * np.asarray(target)]).astype(float),
        np.hstack([D, root * np.asarray(S)]).astype(float),
    )


def lars(x, D, *, budget=1.0, cap=20, omega=None):
    """Follow min ||x - a D||^2 s.t. a >= 0, sum(omega a) <= budget, from a = 0 on.

    With b = omega a and rows d / omega the weights vanish. At every point the active prototypes
    share the largest correlation lam with the residual; lam falls until the budget is spent, no
    correlation is left, or the (cap + 1)-th prototype would join. One that leaves makes room.
    """
    x, D = np.asarray(x, float), np.asarray(D, float)
    k = len(D)
    omega = np.ones(k) if omega is None else np.asarray(omega, float)
    Z = D / omega[:, None]
    b = np.zeros(k)
    c = Z @ x
    lam = first = max(c.max(initial=0.0), 0.0)
    if first <= 0:
        return Path(b, 0.0, False)
    active: list[int] = []
    barred: set[int] = set()
    entering, left = int(np.argmax(c)), None
    for _ in range(100 * (k + 1)):
        if entering is not None:
            if independent(Z, active, entering):
                if len(active) == cap:
                    return Path(b / omega, lam, True)
                active.append(entering)
            else:
                barred.add(entering)  # a twin of what is active: it changes nothing
        G = Z[active] @ Z[active].T
        u = np.linalg.solve(G, np.ones(len(active)))
        c = Z @ (x - b @ Z)
        fall = 1.0 - Z @ (u @ Z[active])
        steps = {("end", -1): lam, ("budget", -1): (budget - b.sum()) / u.sum()}
        for p, j in enumerate(active):
            if u[p] < 0:
                steps["leave", j] = -b[j] / u[p]
        for j in range(k):
            if j not in active and j not in barred and j != left and fall[j] > TINY:
                steps["enter", j] = max(lam - c[j], 0.0) / fall[j]
        step = max(min(steps.values()), 0.0)
        # Of equals: whatever ends the path comes last, of prototypes the first.
        (event, who) = min(
            (key for key, value in steps.items() if value <= step),
            key=lambda key: ({"leave": 0, "enter": 1, "budget": 2, "end": 3}[key[0]], key[1]),
        )
        b[active] += step * u
        lam -= step
        entering = left = None
        if event == "enter":
            entering = who
        elif event == "leave":
            b[who] = 0.0
            active.remove(who)
            left = who
            barred.clear()
            if not active:
                break
        else:
            break
    return Path(np.maximum(b, 0.0) / omega, max(lam, 0.0), False)


def independent(Z, active, j):
    if not Z[j].any():
        return False
    if not active:
        return True
    distance = Z[j] - np.linalg.lstsq(Z[active].T, Z[j], rcond=None)[0] @ Z[active]
    return float(distance @ distance) > 1e-6 * float(Z[j] @ Z[j])


def gap(x, D, code, *, budget=1.0, omega=None):
    """What a code can lose to the optimum: ``g.a - budget min(0, min g)``, g the gradient."""
    x, D, code = (np.asarray(v, float) for v in (x, D, code))
    gradient = -2 * D @ (x - code @ D)
    scaled = gradient if omega is None else gradient / omega
    return float(gradient @ code - budget * min(0.0, scaled.min()))


def distance(x, D, code):
    residual = np.asarray(x, float) - np.asarray(code, float) @ np.asarray(D, float)
    return float(residual @ residual)


# -- the loss --------------------------------------------------------------------------------------


class Loss(NamedTuple):
    """``max(0, C - (2y - 1)(s - tau))^2``, or ``(s - y)^2`` when tau is None."""

    C: float
    tau: float | None

    def __call__(self, y, s):
        if self.tau is None:
            return (s - y) ** 2
        return max(0.0, self.C - (2 * y - 1) * (s - self.tau)) ** 2

    def goal(self, y):
        return float(y) if self.tau is None else self.tau + (2 * y - 1) * self.C

    def target(self, y, s):
        """The score itself where the margin holds, the goal where it is violated."""
        if self.tau is not None and self.C - (2 * y - 1) * (s - self.tau) <= 0:
            return s
        return self.goal(y)

    def total(self, Y, scores):
        return sum(self(y, s) for y, s in zip(np.ravel(Y), np.ravel(scores), strict=True))


def objective(X, Y, D, S, A, *, loss, lam, p, beta1):
    """The problem of the method, term by term: visual, loss, sparsity."""
    X, Y, D, S, A = (np.asarray(v, float) for v in (X, Y, D, S, A))
    visual = sum(p[i] / lam * distance(X[i], D, A[i]) for i in range(len(X)))
    return visual, loss.total(Y, A @ S), beta1 * np.abs(S).sum()


def image_cost(x, y, D, S, code, *, loss, weight):
    """What MCSC lowers for one image: ``||x - a D||^2 + (lam / p) loss``."""
    return distance(x, D, code) + weight * loss.total(y, np.asarray(code, float) @ S)


def mcsc(
    x, y, D, S, code, *, loss, weight, passes, all_violated=False, budget=1.0, cap=20, drop=0.0
):
    """Marginalised coupled sparse coding of one image: a code is taken if it lowers the cost."""
    best = before = image_cost(x, y, D, S, code, loss=loss, weight=weight)
    for number in range(passes):
        scores = code @ S
        if all_violated and number == 0:
            target = np.array([loss.goal(v) for v in y])
        else:
            target = np.array([loss.target(v, s) for v, s in zip(y, scores, strict=True)])
        new = lars(*stack(x, D, target, S, weight), budget=budget, cap=cap).code
        cost = image_cost(x, y, D, S, new, loss=loss, weight=weight)
        if cost < best:
            code, best = new, cost
    trimmed = np.where(code > drop, code, 0.0)
    if image_cost(x, y, D, S, trimmed, loss=loss, weight=weight) <= before:
        return trimmed
    return code


# -- prototypes ------------------------------------------------------------------------------------


def visual_sweep(D, X, A, p, order, *, sphere):
    """Each prototype in turn: its weighted least-squares optimum, then the norm constraint."""
    D, X, A, p = (np.array(v, float) for v in (D, X, A, p))
    for j in order:
        others = X - A @ D + np.outer(A[:, j], D[j])
        weight = p @ A[:, j] ** 2
        best = (p * A[:, j]) @ others
        length = np.linalg.norm(best)
        if weight == 0 or (sphere and length == 0):
            continue
        D[j] = best / length if sphere else best / max(weight, length)
    return D


def one_dimension(a, score, y, *, loss, start, beta1, rho, anchor, most):
    """The minimiser over 0 <= d <= most of one coordinate, by brute force over the pieces.

    ``sum loss(y, score + a (d - start)) + beta1 d + rho (d - anchor)^2`` is quadratic between the
    kinks where a margin begins to hold; on every piece its vertex, and every end, is a candidate.
    """
    a, score = np.asarray(a, float), np.asarray(score, float)

    def value(d):
        paid = sum(loss(v, s + w * (d - start)) for v, s, w in zip(y, score, a, strict=True))
        return paid + beta1 * d + rho * (d - anchor) ** 2

    kinks = [0.0, most]
    for v, s, w in zip(y, score, a, strict=True):
        if w > 0:
            kink = start + (loss.goal(v) - s) / w
            if 0 < kink < most:
                kinks.append(kink)
    kinks = sorted(kinks)
    candidates = list(kinks)
    for low, high in pairwise(kinks):
        middle = (low + high) / 2
        slope, curve = beta1 - 2 * rho * anchor, 2 * rho
        for v, s, w in zip(y, score, a, strict=True):
            if loss(v, s + w * (middle - start)) > 0:
                slope += 2 * w * (s - w * start - loss.goal(v))
                curve += 2 * w * w
        if curve > 0:
            candidates.append(min(max(-slope / curve, low), high))
    best = min(candidates, key=value)
    return best, value


def semantic_sweeps(S, A, Y, order, *, loss, beta1, rho, most, sweeps=1, rescale=False):
    """Coordinate descent over all (prototype, tag) pairs, every coordinate by brute force."""
    S, A, Y = (np.array(v, float) for v in (S, A, Y))
    for c in range(Y.shape[1]):
        anchor = S[:, c].copy()
        for _ in range(sweeps):
            for j in order:
                users = np.flatnonzero(A[:, j])
                S[j, c], _ = one_dimension(
                    A[users, j],
                    A[users] @ S[:, c],
                    Y[users, c],
                    loss=loss,
                    start=S[j, c],
                    beta1=beta1,
                    rho=rho,
                    anchor=anchor[j],
                    most=most,
                )
        if rescale and S[:, c].any():
            scores = A @ S[:, c]
            factor, _ = one_dimension(
                scores,
                scores,
                Y[:, c],
                loss=loss,
                start=1.0,
                beta1=beta1 * S[:, c].sum(),
                rho=0.0,
                anchor=0.0,
                most=most / S[:, c].max(),
            )
            S[:, c] *= factor
    return S


def tag_problem(S, A, Y, *, loss, beta1, rho=0.0, anchor=None):
    """What the semantic step lowers."""
    prox = 0.0 if anchor is None else rho * ((np.asarray(S, float) - anchor) ** 2).sum()
    return loss.total(Y, np.asarray(A, float) @ S) + beta1 * np.abs(S).sum() + prox


# -- whole programs --------------------------------------------------------------------------------


def encode(X, D, *, budget=1.0, cap=20):
    return np.array([lars(x, D, budget=budget, cap=cap).code for x in X])


def udl(X, Y, D, orders, *, most=5.0, cap=20):
    """Uncoupled dictionary learning from given centres: alternate, then read off the semantics."""
    lengths = np.linalg.norm(D, axis=1, keepdims=True)
    D = D / np.maximum(lengths, 1)
    A = encode(X, D, cap=cap)
    for order in orders:
        D = visual_sweep(D, X, A, np.ones(len(X)), order, sphere=False)
        A = encode(X, D, cap=cap)
    squared = (A**2).sum(axis=0)
    S = A.T @ Y / np.where(squared > 0, squared, 1)[:, None]
    return D, np.minimum(S, most), A


def mcdl(X, Y, D, S, A, orders, *, loss, beta1, eta, passes, rho, most=5.0, cap=20):
    """Algorithm 1 from a start: ``orders`` has a visual and a semantic order for each iteration."""
    lam = eta**2 / Y.shape[1]
    p = np.maximum(Y.sum(axis=1), 1)
    for iteration, (visual_order, semantic_order) in enumerate(orders, start=1):
        options = {"loss": loss, "passes": passes, "all_violated": iteration == 1, "cap": cap}
        A = np.array(
            [mcsc(X[i], Y[i], D, S, A[i], weight=lam / p[i], **options) for i in range(len(X))]
        )
        D = visual_sweep(D, X, A, p, visual_order, sphere=False)
        brake = rho * np.sqrt(len(D)) * iteration
        S = semantic_sweeps(S, A, Y, semantic_order, loss=loss, beta1=beta1, rho=brake, most=most)
    return D, S, A


def cdl(X, Y, D, S, A, orders, **options):
    """Coupled dictionary learning: the squared loss, and nothing for sparsity."""
    return mcdl(X, Y, D, S, A, orders, loss=Loss(0.0, None), beta1=0.0, **options)


# -- prototypes in eight bits ----------------------------------------------------------------------


def whole_numbers(v, most=127):
    """v = scale q + rest with whole numbers q: scale, q, |rest| and |scale q|, in float64."""
    v = np.asarray(v, np.float64)
    largest = np.abs(v).max(axis=-1, keepdims=True)
    scale = np.where(largest > 0, largest / most, 1.0)
    q = np.rint(v / scale)
    return (
        scale[..., 0],
        q,
        np.linalg.norm(v - scale * q, axis=-1),
        scale[..., 0] * np.linalg.norm(q, axis=-1),
    )


def compact_bounds(x, D):
    """Estimates of x D^T in eight bits, and what they may miss, n x k each."""
    s, q, rest, length = whole_numbers(D)
    u, p, missed, _ = whole_numbers(x)
    estimate = (p @ q.T) * u[:, None] * s
    norm = np.linalg.norm(x.astype(np.float64), axis=1)
    return estimate, norm[:, None] * rest + missed[:, None] * length


# -- rankings --------------------------------------------------------------------------------------


def rank_column(y, scores):
    """Average precision, AUC, the cut with the best F1 and the next lower score of one tag."""
    cuts = [(np.sum(y & (scores >= s)), np.sum(scores >= s), s) for s in np.unique(scores)[::-1]]
    right = [(hits, given, s) for hits, given, s in cuts if np.any(y & (scores == s))]
    f1 = [2 * hits / (given + y.sum()) for hits, given, _ in right]
    best = right[int(np.argmax(f1))][2]
    others = scores[~y] if not y.all() else scores
    above = [np.mean((s > others) + (s == others) / 2) for s in scores[y]]
    gains = np.diff([0, *(hits for hits, _, _ in right)])
    precision = gains @ np.array([hits / given for hits, given, _ in right]) / y.sum()
    lower = scores[scores < best].max(initial=-np.inf)
    return precision, np.mean(above), best, lower


# -- names of tags ---------------------------------------------------------------------------------


def kernel_with_constant(X, Z, gamma):
    return np.array([np.exp(-gamma * ((x - Z) ** 2).sum(axis=1)) + 1 for x in X])


def refit_kernel_ridge(X, T, gamma, penalty, Z):
    """Kernel ridge regression of T on X from nothing, evaluated at Z."""
    X, T, Z = (np.asarray(part, np.float64) for part in (X, T, Z))
    K = kernel_with_constant(X, X, gamma) + penalty * np.eye(len(X))
    return kernel_with_constant(Z, X, gamma) @ np.linalg.solve(K, T)


def held_out_with_names(X, T, M, weights, gamma, penalty):
    """Scores ``a M + K(T - a M)`` of each image by a regression refitted to all others.

    ``weights`` (n x t) are those that each image is scored with.
    """
    X = np.asarray(X, np.float64)
    K = kernel_with_constant(X, X, gamma)
    scores = np.empty(T.shape)
    for i in range(len(X)):
        others = np.delete(np.arange(len(X)), i)
        system = K[np.ix_(others, others)] + penalty * np.eye(len(others))
        dual = np.linalg.solve(system, T[others] - weights[i] * M[others])
        scores[i] = weights[i] * M[i] + K[i, others] @ dual
    return scores


def name_weights(T, scores, features, labeled, *, clip=1.5, least_variance=1e-4, rounds=50):
    """Weights of names by empirical Bayes, one tag after the other; and mean and variance."""
    n, t = T.shape
    own, noise, deviation = np.zeros(t), np.full(t, np.inf), np.zeros(t)
    for tag in range(t):
        share = min(max(T[:, tag].mean(), 1 / n), 1 - 1 / n)
        deviation[tag] = np.sqrt(share * (1 - share))
        used = np.flatnonzero(labeled[:, tag])
        u, e = features[used, tag], T[used, tag] - scores[used, tag]
        if u @ u > 1e-9:
            own[tag] = (e @ u) / (u @ u) / deviation[tag]
            noise[tag] = (e @ e) / len(used) / (u @ u) / deviation[tag] ** 2
    mean, variance = 0.0, 0.1
    informative = np.isfinite(noise)
    for _ in range(rounds if informative.any() else 0):
        w = 1 / (variance + noise[informative])
        mean = (w * own[informative]).sum() / w.sum()
        excess = (own[informative] - mean) ** 2 - noise[informative]
        variance = max((w**2 * excess).sum() / (w**2).sum(), least_variance)
    mean = max(mean, 0.0)
    weights = np.full(t, mean)
    for tag in np.flatnonzero(informative):
        trust = variance / (variance + noise[tag])
        weights[tag] = trust * own[tag] + (1 - trust) * mean
    return np.clip(weights, 0, clip) * deviation, mean, variance


def word_head(cosines, concept_of, dual, sharpness):
    """Head of a word: the mean of a Gaussian process, from its cosine with each name."""
    head = np.zeros(dual.shape[1])
    for concept in range(len(dual)):
        nearest = max(cosines[concept_of == concept])
        head += np.exp(sharpness * (nearest - 1)) * dual[concept]
    return head
