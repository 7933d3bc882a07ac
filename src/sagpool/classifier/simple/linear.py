"""Linear models: regularised logistic regression, or ridge regression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sagpool.classifier.simple.link import Link, apply_link
from sagpool.classifier.simple.saved import Arrays, take

if TYPE_CHECKING:
    from scipy.sparse import csr_array


@dataclass(frozen=True)
class Linear:
    """``link(x W + b)``"""

    weight: np.ndarray  # [columns, outputs] float32
    bias: np.ndarray  # [outputs] float64
    mean: np.ndarray  # [columns] float32, of the training graphs
    link: Link

    @staticmethod
    def from_saved(arrays: Arrays, columns: int, outputs: int, link: Link) -> Linear:
        return Linear(
            take(arrays, "weight", np.float32, columns, outputs),
            take(arrays, "bias", np.float64, outputs),
            take(arrays, "mean", np.float32, columns),
            link,
        )

    def to_saved(self) -> dict[str, np.ndarray]:
        return {"weight": self.weight, "bias": self.bias, "mean": self.mean}

    def predict(self, matrix: np.ndarray | csr_array) -> np.ndarray:
        """``[graphs, outputs]`` float64"""
        raw = np.asarray(matrix @ self.weight.astype(np.float64)) + self.bias
        return apply_link(raw, self.link)
