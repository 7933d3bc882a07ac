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
    """``link(x W + b)``."""

    weight: np.ndarray  # [columns, outputs] float32
    bias: np.ndarray  # [outputs] float64
    mean: np.ndarray  # [columns] float32, mean of the training graphs
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
        """``[graphs, outputs]`` float64."""
        return apply_link(self.raw(matrix), self.link)

    def amounts(self, matrix: np.ndarray, output: int) -> np.ndarray:
        """The amount that each column adds to a raw output, relative to the mean training graph.

        ``[graphs, columns]`` float64. A softmax does not change if all logits move by the same
        amount, so for a softmax the mean over outputs is subtracted.
        """
        return (matrix.astype(np.float64) - self.mean) * self._weight(output)

    def base(self, output: int) -> float:
        """The raw output for the mean of the training graphs."""
        bias = self.bias[output] - (self.bias.mean() if self.link == "softmax" else 0.0)
        return float(self.mean.astype(np.float64) @ self._weight(output) + bias)

    def _weight(self, output: int) -> np.ndarray:
        weight = self.weight.astype(np.float64)
        shift = weight.mean(1) if self.link == "softmax" else 0.0
        return np.asarray(weight[:, output] - shift)

    def raw(self, matrix: np.ndarray | csr_array) -> np.ndarray:
        """``[graphs, outputs]`` float64, before the link."""
        return np.asarray(matrix @ self.weight.astype(np.float64)) + self.bias
