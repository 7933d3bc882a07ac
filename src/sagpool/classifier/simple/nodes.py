"""Sums over the nodes of each graph, and columns of nodes that hold whole numbers."""

from __future__ import annotations

import numpy as np

from sagpool.graphs.graphs import Graphs


def graph_sums(values: np.ndarray, ptr: np.ndarray) -> np.ndarray:
    """Sums of the rows ``ptr[g]:ptr[g + 1]`` for each g, ``[graphs, columns]`` float64."""
    from scipy.sparse import csr_array

    rows = len(values)
    ones = csr_array((np.ones(rows), np.arange(rows), ptr), shape=(len(ptr) - 1, rows))
    return np.asarray(ones @ values.astype(np.float64))


def whole_columns(graphs: Graphs) -> np.ndarray:
    """``[attributes]`` bool: whether a column of ``node_attr`` is a label or a count."""
    if graphs.node_attr is None:
        return np.zeros(0, bool)
    values = graphs.node_attr.cpu().numpy()
    whole = np.asarray((values == np.floor(values)).all(0))
    whole[: graphs.continuous] = False
    return whole
