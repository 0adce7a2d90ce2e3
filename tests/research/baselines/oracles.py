"""Slow reference implementations of the baselines: loops over images and tags, as in the papers."""

from __future__ import annotations

import numpy as np
from scipy.special import expit, softmax


def distances(x, X):
    """Squared distances of one vector to all, in float64."""
    return np.square(np.asarray(X, float) - np.asarray(x, float)).sum(axis=1)


def nearest(x, X, count, own=-1):
    order = [int(j) for j in np.argsort(distances(x, X), kind="stable") if j != own]
    return order[:count]


def nearest_by_tag(x, X, Y, count, own=-1):
    """The union of the ``count`` nearest of each tag, in the order in which they are found."""
    found = []
    order = [int(j) for j in np.argsort(distances(x, X), kind="stable") if j != own]
    for tag in range(Y.shape[1]):
        for j in [j for j in order if Y[j, tag]][:count]:
            if j not in found:
                found.append(j)
    return found


def even_scale(X, groups):
    """Columns over the root of their group's mean squared distance, times the number of groups."""
    X = np.asarray(X, float)
    names = sorted(set(groups))
    scale = np.empty(X.shape[1])
    for name in names:
        columns = [c for c, group in enumerate(groups) if group == name]
        part = X[:, columns]
        apart = np.mean([distances(row, part).mean() for row in part])
        scale[columns] = 1 / np.sqrt(len(names) * apart)
    return scale


def votes(x, X, Y, found, sharpness):
    d = distances(x, X)
    scores, total = np.zeros(Y.shape[1]), 0.0
    for j in found:
        weight = np.exp(-sharpness * d[j])
        scores += weight * Y[j]
        total += weight
    return scores / total if total else scores


def jec(x, X, Y, count, own=-1):
    """Greedy transfer of labels as one score; Y without image ``own`` is what is known."""
    found = nearest(x, X, count, own)
    known = np.delete(Y, own, axis=0) if own >= 0 else Y
    frequency = known.sum(axis=0)
    first, rest = found[0], found[1:]
    scores = np.zeros(Y.shape[1])
    for tag in range(Y.shape[1]):
        if Y[first, tag]:
            scores[tag] = 1 + frequency[tag] / max(frequency.max(), 1)
            continue
        local = sum(Y[j, tag] for j in rest) / max(len(rest), 1)
        partners = [b for b in range(Y.shape[1]) if Y[first, b]]
        together = [(known[:, b] * known[:, tag]).sum() / max(frequency[b], 1) for b in partners]
        scores[tag] = local * (np.mean(together) if together else 0.0)
    return scores


def margin_loss(v, X, Y, images, count, push):
    """2PKNN's large margin, mean over images, pair by pair."""
    scaled = X * np.sqrt(v)
    total = 0.0
    for p in images:
        d = distances(scaled[p], scaled)
        union = nearest_by_tag(scaled[p], scaled, Y, count, own=p)
        targets = set()
        for tag in np.flatnonzero(Y[p]):
            having = [j for j in np.argsort(d, kind="stable") if Y[j, tag] and j != p]
            targets |= {int(j) for j in having[:count]}
        impostors = [r for r in union if r not in targets]
        if not targets:
            continue
        total += np.mean([d[q] for q in targets])
        pairs = max(len(targets) * len(impostors), 1)
        for q in targets:
            for r in impostors:
                lacks = 1 - (Y[p] * Y[r]).sum() / Y[r].sum()
                total += push * lacks * max(1 + d[q] - d[r], 0) / pairs
    return total / len(images)


def tagprop_likelihood(X, Y, count, *, w=None, gamma=None, sigmoids=None, group=None):
    """The weighted log-likelihood of all tags, image by image."""
    group = np.zeros(X.shape[1], int) if group is None else group
    epsilon = 1e-5
    n_present = Y.sum()
    n_absent = Y.size - n_present
    total = 0.0
    for i in range(len(X)):
        found = nearest(X[i], X, count, own=i)
        if gamma is not None:
            pi = np.asarray(gamma)
        else:
            groups = range(group.max() + 1)
            parts = [
                (group.max() + 1) * distances(X[i][group == g], X[:, group == g]) for g in groups
            ]
            pi = softmax([-sum(w[g] * parts[g][j] for g in groups) for j in found])
        for tag in range(Y.shape[1]):
            x = sum(weight * Y[j, tag] for weight, j in zip(pi, found, strict=True))
            if sigmoids is None:
                p = sum(
                    weight * (1 - epsilon if Y[j, tag] else epsilon)
                    for weight, j in zip(pi, found, strict=True)
                )
            else:
                p = expit(sigmoids[0][tag] * x + sigmoids[1][tag])
            total += np.log(p) / n_present if Y[i, tag] else np.log(1 - p) / n_absent
    return total


def fasttag(X, Y, *, strength, corruption, reconstruction, rounds=3000):
    """The paper's alternation: B from W, W from B, until nothing changes; images count alike."""
    n, m = X.shape
    t = Y.shape[1]
    S = Y.T @ Y / n
    P = (1 - corruption) * S
    Q = (1 - corruption) ** 2 * S + corruption * (1 - corruption) * np.diag(np.diag(S))
    penalty = np.diag(np.append(np.full(m - 1, strength), 1e-6))
    W = np.zeros((m, t))
    for _ in range(rounds):
        B = np.linalg.solve(S + reconstruction * Q, Y.T @ X @ W / n + reconstruction * P)
        before, W = W, np.linalg.solve(X.T @ X / n + penalty, X.T @ Y @ B / n)
        if np.abs(W - before).max() < 1e-12:
            break
    return B, W


def fasttag_loss(B, W, X, Y, *, strength, corruption, reconstruction, rng, draws=2000):
    """The loss itself, its expectation over blanked tags by drawing them."""
    n = len(X)
    fit = np.square(Y @ B - X @ W).sum() / n
    kept = rng.random((draws, *Y.shape)) >= corruption
    blanked = np.square(Y - (Y * kept) @ B).sum(axis=(1, 2)).mean() / n
    return fit + reconstruction * blanked + strength * np.square(W[:-1]).sum()


def group_lasso_codes(X, D, sizes, weights, *, sparsity=0.0, ridge=0.0, nonnegative=False):
    """Codes of the sparse group lasso, group by group with tiny steps, image by image."""
    X, D = np.asarray(X, float), np.asarray(D, float)
    limits = np.concatenate([[0], np.cumsum(sizes)])
    codes = np.zeros((len(X), len(D)))
    for a, x, weight in zip(codes, X, np.broadcast_to(weights, (len(X), len(sizes))), strict=True):
        for _ in range(2000):
            for g, size in enumerate(sizes):
                own = slice(limits[g], limits[g] + size)
                curvature = np.linalg.norm(D[own] @ D[own].T, 2) + ridge
                slope = D[own] @ (a @ D - x) + ridge * a[own]
                free = a[own] - slope / curvature
                threshold = sparsity / curvature
                shrunk = np.sign(free) * np.maximum(np.abs(free) - threshold, 0)
                if nonnegative:
                    shrunk = np.maximum(free - threshold, 0)
                length = np.linalg.norm(shrunk)
                factor = max(0.0, 1 - weight[g] / curvature / length) if length else 0.0
                a[own] = factor * shrunk
    return codes


def dual_svm(X, present, upper, margin):
    """The SVM of one tag, by many sweeps over its dual variables in float64."""
    X = np.asarray(X, float)
    sign = np.where(present, 1.0, -1.0)
    alpha, w = np.zeros(len(X)), np.zeros(X.shape[1])
    for _ in range(3000):
        for i, x in enumerate(X):
            slope = sign[i] * (w @ x) - margin[i]
            value = min(max(alpha[i] - slope / (x @ x), 0.0), upper[i])
            w += (value - alpha[i]) * sign[i] * x
            alpha[i] = value
    return w, alpha
