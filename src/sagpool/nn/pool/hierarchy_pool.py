"""`HierarchyPool`: pools to clusters that were computed once for the whole data set."""

from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from sagpool.errors import SagpoolError
from sagpool.graphs import Coarsening, Structure, coarser
from sagpool.nn.pool.pool import Context, Pool, Pooled, check_rows
from sagpool.ops import cluster_sum, entries_max

Reduce = Literal["max", "mean", "sum"]


class HierarchyPool(Pool):
    """The nodes of each cluster become one node; clusters and weights are known beforehand.

    They depend only on the graphs, so all members share them, and nothing is learnt here.

    Args:
        coarsening: computes the graphs of a level from the previous level
        reduce: how the rows of each cluster are combined

    Shapes:
        x: ``[rows, channels]``, result: ``[new rows, channels]``
    """

    leaves = "clusters"

    def __init__(self, coarsening: Coarsening, reduce: Reduce = "mean") -> None:
        super().__init__()
        if reduce not in get_args(Reduce):
            known = ", ".join(get_args(Reduce))
            raise SagpoolError(f"reduce must be one of {known}, not '{reduce}'.")
        self.coarsening, self.reduce = coarsening, reduce

    def forward(self, x: Tensor, structure: Structure, context: Context = Context()) -> Pooled:
        check_rows(x, structure.layout)
        left, clusters = coarser(structure, self.coarsening)
        if self.reduce == "max":
            return Pooled(entries_max(x, clusters.ptr, clusters.child), left)
        return Pooled(cluster_sum(x, *clusters, mean=self.reduce == "mean"), left)

    def rows_left(self, sizes: np.ndarray) -> None:
        """None: it depends on the graphs, not only on their sizes."""

    def can_record(self, dtype: torch.dtype) -> bool:
        return True

    def __repr__(self) -> str:
        return f"HierarchyPool({self.coarsening}, reduce={self.reduce})"
