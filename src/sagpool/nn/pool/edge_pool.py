"""EdgePool: contraction of edges."""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from sagpool.graphs import Adjacency, Structure
from sagpool.nn.linear import Linear
from sagpool.nn.pool.pool import Context, Pool, Pooled, check_rows
from sagpool.ops import exchange_rows, segment_max, segment_sum
from sagpool.ops.matching import greedy_matching, merged_csr
from sagpool.ops.propagate import sum_of_rows
from sagpool.ops.ragged import without_spare

NEVER = -1e30  # replaces a row's score of itself: finite, so that gradients are not NaN


class EdgePool(Pool):
    """EdgePool (Diehl, 2019).

    The score of an edge from j to i is ``s_ij = 0.5 + softmax_j(W [x_i ‖ x_j])`` over all j with an
    edge to i. Edges are contracted by descending score, unless one of their ends already belongs to
    another contracted edge. The new node has ``s_ij (x_i + x_j)`` and the edges of both; other
    nodes stay.

    In the softmax the half of W for x_i and the bias cancel out, so they are left out. Of the two
    directions of an edge, the higher score counts. Edges of equal score come in an order that
    depends only on the positions of their nodes in the graph.

    The number of nodes left depends on the scores. So the rows of merged nodes stay, without edges
    and features, and do not count: see `Pooled.presence`.

    Args:
        in_channels: size of each input row
        members: how many models train side by side

    Shapes:
        x: ``[rows, in_channels]``, at least 0, because the readout ``max`` sees the zeros of merged
            nodes; result: the same shape
    """

    leaves = "clusters"
    absent_rows = True

    def __init__(self, in_channels: int, *, members: int = 1) -> None:
        super().__init__()
        self.score = Linear(in_channels, 1, bias=False, members=members)

    def reset_parameters(self) -> None:
        self.score.reset_parameters()

    def forward(self, x: Tensor, structure: Structure, context: Context = Context()) -> Pooled:
        check_rows(x, structure.layout)
        graphs, layout = structure.csr(), structure.layout
        raw = self.score(x).view(-1)
        total = _LogSums.apply(raw, graphs)
        row, col = graphs.entry_row, graphs.col
        with torch.no_grad():
            there = raw.index_select(0, col) - total.index_select(0, row)
            back = raw.index_select(0, row) - total.index_select(0, col)
            weight = torch.maximum(there, back)
            partner = greedy_matching(weight, graphs.row_ptr, col, layout)
        rows = torch.arange(len(x), device=x.device)
        merged = partner != rows
        of_partner = exchange_rows(torch.stack([raw, total], 1), partner)
        there, back = of_partner[:, 0] - total, raw - of_partner[:, 1]
        chosen = torch.where(merged, torch.maximum(there, back), 0).exp()
        gate = torch.where(merged, 0.5 + chosen, 1)
        name = torch.minimum(rows, partner)
        first = (name == rows)[:, None]
        both = x + torch.where(merged[:, None], exchange_rows(x, partner), 0)
        row_ptr, new_col = merged_csr(graphs.row_ptr, col, row, name)
        return Pooled(
            torch.where(first, both * gate[:, None], 0),
            Adjacency(layout, row_ptr, new_col, symmetric=graphs.symmetric),
            # A node that is left has an entry for itself.
            presence=(row_ptr.diff() > 0).to(x.dtype),
        )

    def rows_left(self, sizes: np.ndarray) -> np.ndarray:
        return sizes

    def can_record(self, dtype: torch.dtype) -> bool:
        return True

    def __repr__(self) -> str:
        return f"EdgePool({self.score.weight.shape[1]})"


class _LogSums(Function):
    """``[rows]``, ``log Σ_j exp(raw_j)`` over the neighbours j; a low number without neighbours.

    It has no second derivative.
    """

    @staticmethod
    def forward(ctx: Any, raw: Tensor, graphs: Adjacency) -> Tensor:
        row, col = graphs.entry_row, graphs.col
        energy = torch.where(row == col, NEVER, raw.index_select(0, col))[:, None]
        largest = segment_max(energy, graphs.row_ptr, row)
        has_entries = (graphs.row_ptr.diff() > 0)[:, None]
        largest = torch.where(has_entries, largest, 0)
        sums = segment_sum((energy - largest.index_select(0, row)).exp(), graphs.row_ptr, row)
        total = (largest + sums.clamp(min=1).log()).view(-1)
        ctx.save_for_backward(raw, total)
        ctx.graphs = graphs
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """The derivative of ``total_i`` by ``raw_j`` is ``exp(raw_j - total_i)``."""
        raw, total = ctx.saved_tensors
        graphs, grad = ctx.graphs, grads[0].contiguous()
        row, col = graphs.entry_row, graphs.col
        # From each row to its neighbours. With edges in both directions this is a sum over the
        # entries of row j, which needs no atomics.
        to, of = (row, col) if graphs.symmetric else (col, row)
        share = (raw.index_select(0, to) - total.index_select(0, of)).exp()
        share = torch.where(row == col, 0, share)
        if graphs.symmetric:
            return sum_of_rows(grad[:, None], graphs.row_ptr, col, share).view(-1), None
        sent = without_spare(share * grad.index_select(0, of), graphs.row_ptr)
        return torch.zeros_like(raw).index_add_(0, to, sent), None
