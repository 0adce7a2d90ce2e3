"""EfficientNet-Lite from its original float32 weights, step by step in NumPy: slow and plain.

Shares nothing with the conversion but the weights: batch normalisation is applied where it stands,
padding is done by hand, a convolution is a sum over shifted pictures.
"""

from __future__ import annotations

import numpy as np

Weights = dict[str, np.ndarray]


def vectors(weights: Weights, pixels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pixels (n x h x w x 3, uint8) -> averages of the last map, and of two inner ones."""
    x = (pixels.astype(np.float32) - 127) / 128
    x = np.clip(_normalise(weights, "_bn0", _convolve(x, weights["_conv_stem.weight"], 2)), 0, 6)
    halving = (1, 3, 5, 11) if "_blocks.16._bn1.weight" not in weights else (1, 4, 7, 15)
    for block in range(16 if halving[-1] == 11 else 21):
        name = f"_blocks.{block}."
        if block == halving[-1]:
            wide = _convolve(x, weights[f"{name}_expand_conv.weight"], 1)
            wide = np.clip(_normalise(weights, f"{name}_bn0", wide), 0, 6)
        x = _block(weights, name, x, stride=2 if block in halving else 1)
    inner = np.hstack([wide.mean(axis=(1, 2)), x.mean(axis=(1, 2))])
    x = np.clip(_normalise(weights, "_bn1", _convolve(x, weights["_conv_head.weight"], 1)), 0, 6)
    return x.mean(axis=(1, 2)), inner


def _block(weights: Weights, name: str, x: np.ndarray, stride: int) -> np.ndarray:
    entered = x
    if f"{name}_expand_conv.weight" in weights:
        x = _convolve(x, weights[f"{name}_expand_conv.weight"], 1)
        x = np.clip(_normalise(weights, f"{name}_bn0", x), 0, 6)
    x = _convolve(x, weights[f"{name}_depthwise_conv.weight"], stride)
    x = np.clip(_normalise(weights, f"{name}_bn1", x), 0, 6)
    x = _convolve(x, weights[f"{name}_project_conv.weight"], 1)
    x = _normalise(weights, f"{name}_bn2", x)
    return x + entered if x.shape == entered.shape else x


def _normalise(weights: Weights, name: str, x: np.ndarray) -> np.ndarray:
    part = {
        key: weights[f"{name}.{key}"] for key in ("weight", "bias", "running_mean", "running_var")
    }
    scaled = (x - part["running_mean"]) / np.sqrt(part["running_var"] + np.float32(1e-3))
    return scaled * part["weight"] + part["bias"]


def _convolve(x: np.ndarray, kernel: np.ndarray, stride: int) -> np.ndarray:
    """x: n x h x w x c; kernel: out x (c or 1) x k x k; TensorFlow's SAME padding."""
    k = kernel.shape[-1]
    outs = [-(-size // stride) for size in x.shape[1:3]]
    pads = [max((n - 1) * stride + k - size, 0) for n, size in zip(outs, x.shape[1:3], strict=True)]
    x = np.pad(x, ((0, 0), *((pad // 2, pad - pad // 2) for pad in pads), (0, 0)))
    total: np.ndarray | float = 0.0
    for row in range(k):
        for column in range(k):
            seen = x[:, row : row + (outs[0] - 1) * stride + 1 : stride]
            seen = seen[:, :, column : column + (outs[1] - 1) * stride + 1 : stride]
            part = kernel[:, :, row, column]
            total = total + (
                seen * part[:, 0]
                if len(part) == x.shape[3] and part.shape[1] == 1
                else seen @ part.T
            )
    return np.asarray(total)
