"""Products of two blocks of rows for each graph, where graphs differ in size."""

import numpy as np
import torch
from torch import Tensor

from sagpool.ops.transfer import to_device


def segment_matmul(a: Tensor, b: Tensor, starts: np.ndarray, sizes: np.ndarray) -> Tensor:
    """``a_gᵀ b_g`` for the rows of each graph g.

    Graphs of about the same size share one batched product, with at most as many rows of padding
    as there are rows: no graph is padded to the size of the largest.

    Args:
        a: ``[rows, m]``
        b: ``[rows, n]``
        starts: ``[graphs]`` first row of each graph, on the host
        sizes: ``[graphs]`` rows of each graph, on the host

    Returns:
        ``[graphs, m, n]``
    """
    width = 2 ** np.ceil(np.log2(np.maximum(sizes, 1))).astype(np.int64)
    order, products = [], []
    for bucket in np.unique(width):
        graphs = np.flatnonzero(width == bucket)
        column = np.arange(sizes[graphs].max())
        inside = column < sizes[graphs][:, None]
        # Padding repeats a row of the same graph, so that one graph's NaN stays its own.
        rows = starts[graphs][:, None] + np.where(inside, column, 0)  # [graphs, padded rows]
        index = to_device(rows, a.device)
        mask = to_device(inside, a.device)
        left = a[index].masked_fill(~mask[..., None], 0)
        products.append(left.transpose(1, 2) @ b[index])
        order.append(graphs)
    place = to_device(np.argsort(np.concatenate(order)), a.device)
    return torch.cat(products)[place]
