"""`LearnedRatioPool`: the number of kept nodes is learnt and depends on the graph."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function

from sagpool.errors import SagpoolError
from sagpool.graphs import Adjacency, Structure
from sagpool.nn.pool.attention_score import AttentionScore
from sagpool.nn.pool.pool import Context, Fused, Pool, Pooled, check_rows
from sagpool.nn.pool.score_loss import score_losses
from sagpool.nn.pool.selection import Ratio, Selection, keep_selected, select_top
from sagpool.ops import Layout, gate_rows, matmul_with_passthrough, segment_sum


@dataclass(frozen=True, eq=False)
class ThinnedGraphs(Structure):
    """Graphs in which some nodes are partly or fully absent.

    The rows of absent nodes stay, so that the host knows all shapes. Their features are zero, so
    they send nothing; here they do not count as neighbours either.

    Args:
        base: the graphs with all their nodes
        presence: ``[rows]`` from 0 to 1
    """

    base: Adjacency
    presence: Tensor

    @property
    def layout(self) -> Layout:  # type: ignore[override]
        return self.base.layout

    @cached_property
    def degree(self) -> Tensor:
        # A filler's row may have no entry in A + I; minus I, its sum is negative.
        return self.base.neighbour_sum(self.presence[:, None]).view(-1).clamp(min=0)

    @cached_property
    def _gcn_scale(self) -> Tensor:
        """``[rows]``, ``D̃^-1/2``"""
        return (self.degree + 1).rsqrt()

    def gcn(self, x: Tensor) -> Tensor:
        scale = self._gcn_scale.to(x.dtype)
        return self.base.scaled_sum(x, scale, scale, with_self=True)

    def neighbour_sum(self, x: Tensor) -> Tensor:
        return self.base.neighbour_sum(x)

    def neighbour_mean(self, x: Tensor) -> Tensor:
        share = 1 / self.degree.to(x.dtype).clamp(min=1)
        return self.base.scaled_sum(x, of_row=share, with_self=False)

    def sum_with_self(self, x: Tensor) -> Tensor:
        return self.base.sum_with_self(x)

    def csr(self) -> Adjacency:
        raise SagpoolError(
            "A layer that needs single edges cannot work on graphs with a learnt ratio."
        )


class LearnedRatioPool(Pool):
    """Keeps all nodes with positive scores.

    ``g = σ(s + GNN(X, A))``, ``X_out = X ⊙ g`` for the nodes whose gate is at least one half. The
    other nodes are treated as absent: they send nothing, have no weight in a mean, and stay absent
    on all later levels. In the backward pass every node counts with its gate (a straight-through
    estimator), so a dropped node can come back. Training and prediction compute the same: with
    gates that were soft only in training, validation and training losses differed so much that
    trainings stopped too early.

    The loss includes ``budget`` times the fraction of kept nodes, so nodes that do not help to tell
    the classes apart are dropped. Without a budget none are, since no node does harm on graphs like
    those of the training.

    Args:
        in_channels: size of each input row
        conv: convolution of the score, a key of `CONVS`
        budget: cost of keeping all nodes of a graph
        start: s. Scores are near 0 at first, so s = 3 begins with all nodes, and s = 0 with a
            random half of them
        max_ratio: keep at most this fraction of the nodes, those with the highest scores; the rows
            of the others are removed
        supervision: weight of `score_losses`, which training then adds; 0 for no such loss
        members: how many models train side by side
    """

    leaves = "nodes"
    learned = True
    absent_rows = True
    straight_through = True
    takes_factor = True

    def __init__(
        self,
        in_channels: int,
        conv: str = "gcn",
        *,
        budget: float = 0.01,
        start: float = 3.0,
        max_ratio: Ratio = 1.0,
        supervision: float = 0.0,
        members: int = 1,
    ) -> None:
        super().__init__()
        self.budget, self.start = check_budget(budget), start
        if not supervision >= 0:
            raise SagpoolError(f"supervision must be at least 0, not {supervision}.")
        self.supervision = supervision
        self.selection = Selection(max_ratio)
        self.attention = AttentionScore(in_channels, conv, members=members)

    def reset_parameters(self) -> None:
        self.attention.reset_parameters()

    def score_weight(self) -> Tensor | None:
        return self.attention.score_weight()

    def forward(self, x: Tensor, structure: Structure, context: Context = Context()) -> Pooled:
        rows, weight, factor = x, self.score_weight(), context.factor
        if weight is None:
            rows = rows if factor is None else rows * factor[:, None]
            rank, factor = self.attention(rows, structure).rank + self.start, None
        else:
            projected = context.projected if context.projected_rows is x else None
            if projected is None:
                projected, rows = matmul_with_passthrough(x, weight)
            projected = projected if factor is None else projected * factor[:, None]
            rank = self.attention(x, structure, projected).rank + self.start
        pooled = keep_positive(rows, structure, rank, self.selection, self.budget, factor=factor)
        if not self.supervision or not self.training:
            return pooled
        target = context.node_target()
        if target is None:
            raise SagpoolError("Supervision of scores needs graphs with node targets.")
        assert pooled.auxiliary is not None
        losses = score_losses(rank, target, structure.layout)
        return replace(pooled, auxiliary=pooled.auxiliary + self.supervision * losses)

    def rows_left(self, sizes: np.ndarray) -> np.ndarray:
        return self.selection.counts(sizes)

    def can_record(self, dtype: torch.dtype) -> bool:
        return not self.attention.needs_pairs


def check_budget(budget: float) -> float:
    if not budget >= 0:
        raise SagpoolError(f"The budget must be at least 0, not {budget}.")
    return budget


class _StraightThrough(Function):
    @staticmethod
    def forward(ctx: Any, soft: Tensor, hard: Tensor) -> Tensor:
        return hard.view_as(hard)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return grads[0], None


def presence_and_gate(soft: Tensor) -> tuple[Tensor, Tensor]:
    """Whether each node is kept, 0 or 1, and its factor; see `LearnedRatioPool`.

    Both have the gradient of the gate.

    Args:
        soft: ``[rows]``, the gate
    """
    kept = (soft.detach() >= 0.5).to(soft.dtype)
    return (
        _StraightThrough.apply(soft, kept),
        _StraightThrough.apply(soft, soft.detach() * kept),
    )


def keep_positive(
    x: Tensor,
    structure: Structure,
    rank: Tensor,
    selection: Selection,
    budget: float,
    *,
    factor: Tensor | None = None,
) -> Pooled:
    """The nodes with positive ranks, times their gates; see `LearnedRatioPool`.

    Args:
        x: ``[rows, channels]``
        structure: structure of the rows
        rank: ``[rows]``; the gate is its sigmoid
        selection: the most nodes to keep
        budget: cost of keeping all nodes of a graph
        factor: ``[rows]``, a pending factor of x, if any
    """
    check_rows(x, structure.layout)
    layout = structure.layout
    present, gate = presence_and_gate(rank.sigmoid())
    before = structure.presence if isinstance(structure, ThinnedGraphs) else None
    base = structure.base if isinstance(structure, ThinnedGraphs) else structure.csr()
    if before is not None:
        present, gate = present * before, gate * (before > 0)
    whole = gate if factor is None else gate * factor
    if selection.fraction < 1 or selection.k is not None:
        if before is not None:  # so that absent nodes come last
            rank = torch.where(before > 0, rank, torch.finfo(rank.dtype).min)
        left = keep_selected(x, base, select_top(layout, rank, whole, selection))
        base, kept, source, fused = left.structure.csr(), left.x, left.perm, None
        present = present.index_select(0, source)
        sums = segment_sum(present[:, None], base.layout.node_ptr, base.layout.graph).view(-1)
    else:
        kept, sums, mean_max = gate_rows(x, whole, present, layout)
        fused = Fused(kept, mean_max, divisor=sums.clamp(min=1))
        source = torch.arange(len(x), device=x.device)
    return Pooled(
        kept,
        ThinnedGraphs(base, present),
        source=source,
        gate=gate,
        presence=present,
        auxiliary=budget * (sums / layout.node_ptr.diff().to(x.dtype)),
        fused=fused,
    )
