"""From the raw outputs of a model to probabilities or values."""

from __future__ import annotations

from typing import Literal

import numpy as np

Link = Literal["identity", "sigmoid", "softmax"]


def apply_link(raw: np.ndarray, link: Link) -> np.ndarray:
    """Probabilities or values from raw outputs, ``[graphs, outputs]`` float64."""
    if link == "identity":
        return raw
    if link == "sigmoid":
        return 0.5 * (1 + np.tanh(raw / 2))  # never overflows
    exp = np.exp(raw - raw.max(1, keepdims=True))
    return np.asarray(exp / exp.sum(1, keepdims=True))


def inverse_link(outputs: np.ndarray, link: Link) -> np.ndarray:
    """Raw outputs for these probabilities or values; probabilities must not be 0 or 1."""
    if link == "identity":
        return outputs
    return np.asarray(np.log(outputs) - (np.log1p(-outputs) if link == "sigmoid" else 0.0))
