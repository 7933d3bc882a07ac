"""The batch vector of PyG's call: in any order, with graphs that have no node."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from sagpool.errors import SagpoolError
from sagpool.nn.pool.pyg_interface import PoolOutput


class GraphOrder(NamedTuple):
    """The rows sorted by graph, and the graphs numbered without gaps: what a packed batch needs."""

    order: Tensor  # [rows] int64, the given row of each sorted one
    graph: Tensor  # [rows] int64, of the sorted rows: 0, 1, 2, ... with none left out

    def renumber(self, edge_index: Tensor) -> Tensor:
        """The edges between sorted rows; what is no edge stays as it is, to be refused later."""
        if edge_index.dtype != torch.int64:
            return edge_index
        place = torch.empty_like(self.order)
        place[self.order] = torch.arange(len(place), device=place.device)
        there = (edge_index >= 0) & (edge_index < len(place))
        return torch.where(there, place[edge_index.where(there, 0)], edge_index)

    def restore(self, pooled: PoolOutput, batch: Tensor) -> PoolOutput:
        """With the numbers that the caller gave to nodes and graphs; rows stay sorted by graph."""
        perm = self.order[pooled.perm]
        return pooled._replace(perm=perm, batch=batch[perm])


def graph_order(batch: Tensor, rows: int) -> GraphOrder | None:
    """Check a batch vector; None if it is sorted and each of its graphs has a node."""
    if batch.shape != (rows,) or batch.dtype != torch.int64:
        raise SagpoolError(
            f"batch must have one int64 entry for each of {rows} nodes, not {batch.dtype} of "
            f"shape {tuple(batch.shape)}."
        )
    steps = batch.diff()
    if bool(((steps == 0) | (steps == 1)).all() & (batch[0] == 0)):
        return None
    if bool((batch < 0).any()):
        raise SagpoolError(f"batch names graph {int(batch.min())}; graphs are numbered from 0.")
    ordered, order = torch.sort(batch, stable=True)
    return GraphOrder(order, torch.unique_consecutive(ordered, return_inverse=True)[1])
