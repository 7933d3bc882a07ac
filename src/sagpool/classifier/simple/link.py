"""From the raw outputs of a model to probabilities or values."""

from __future__ import annotations

from typing import Literal

import numpy as np

Link = Literal["identity", "sigmoid", "softmax"]


def apply_link(raw: np.ndarray, link: Link) -> np.ndarray:
    """``[graphs, outputs]`` float64, of the same shape"""
    if link == "identity":
        return raw
    if link == "sigmoid":
        return 0.5 * (1 + np.tanh(raw / 2))  # never overflows
    exp = np.exp(raw - raw.max(1, keepdims=True))
    return np.asarray(exp / exp.sum(1, keepdims=True))
