"""Sums over the nodes or edges of each graph, and columns that hold whole numbers."""

from __future__ import annotations

import numpy as np
from torch import Tensor


def graph_sums(values: np.ndarray, ptr: np.ndarray) -> np.ndarray:
    """Sums of the rows ``ptr[g]:ptr[g + 1]`` for each g, ``[graphs, columns]`` float64."""
    from scipy.sparse import csr_array

    rows = len(values)
    ones = csr_array((np.ones(rows), np.arange(rows), ptr), shape=(len(ptr) - 1, rows))
    return np.asarray(ones @ values.astype(np.float64))


def whole_columns(values: Tensor | None) -> np.ndarray:
    """``[columns]`` bool: whether all values of a column are whole numbers."""
    if values is None:
        return np.zeros(0, bool)
    array = values.cpu().numpy()
    return np.asarray((array == np.floor(array)).all(0))
