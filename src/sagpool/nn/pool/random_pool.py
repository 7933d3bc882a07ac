"""Controls: nodes kept at random, and no pooling at all."""

import numpy as np
import torch
from torch import Tensor

from sagpool.graphs import Structure
from sagpool.nn.pool.pool import Context, Pool, Pooled, check_rows
from sagpool.nn.pool.selection import Ratio, SelectingPool, Selection, keep_top


class RandomPool(SelectingPool):
    """Keeps ⌈kN⌉ nodes of each graph at random, drawn anew at each call, and does not gate them.

    A baseline: the advantage of a learned pooling over it is due to the scores.

    Args:
        ratio: fraction of each graph's nodes to keep
        k: keep this many nodes of each graph instead
    """

    def __init__(self, ratio: Ratio = 0.5, *, k: int | np.ndarray | None = None) -> None:
        super().__init__(Selection(ratio, k))

    def forward(self, x: Tensor, structure: Structure, context: Context = Context()) -> Pooled:
        layout = structure.layout
        rank = context.streams_for(layout).uniform_of_nodes(layout)
        return keep_top(x, structure, rank, self.selection)

    def can_record(self, dtype: torch.dtype) -> bool:
        return True


class NoPool(Pool):
    """Leaves all nodes as they are."""

    leaves = "nodes"

    def forward(self, x: Tensor, structure: Structure, context: Context = Context()) -> Pooled:
        check_rows(x, structure.layout)
        return Pooled(x, structure)

    def rows_left(self, sizes: np.ndarray) -> np.ndarray:
        return sizes

    def can_record(self, dtype: torch.dtype) -> bool:
        return True
