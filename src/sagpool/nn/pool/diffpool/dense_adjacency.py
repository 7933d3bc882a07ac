"""Pooled graphs whose adjacency is a matrix in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from sagpool.graphs import Adjacency
from sagpool.nn.pool.diffpool.matmul import inner, outer, segment_matmul
from sagpool.nn.pool.diffpool.pooled_adjacency import PooledAdjacency, kept
from sagpool.nn.pool.diffpool.segments import Blocks, Spans
from sagpool.ops import Rows


@dataclass(frozen=True, eq=False)
class DenseAdjacency(PooledAdjacency):
    """Acts as the `Adjacency` A'.

    Args:
        before: the graphs as they were, as many as they are now
        matrix: A', ``[members * graphs, clusters, clusters]``
    """

    before: Rows
    matrix: Tensor

    @staticmethod
    def of(base: Adjacency, share: Tensor, clusters: int, blocks: Blocks | Spans) -> DenseAdjacency:
        """``Tᵀ A T``.

        Args:
            base: A, the graphs before the first pooling
            share: T, ``[rows of base, clusters]``; where there are kernels it may have more
                columns, which are zero
            clusters: how many there are
            blocks: of the rows of ``base``
        """
        if base.symmetric:
            matrix = _Form.apply(share, clusters, base, blocks)
        else:
            share = share[:, :clusters]
            matrix = segment_matmul(share, base.neighbour_sum(share), blocks)
        return DenseAdjacency(base, matrix)

    @property
    def clusters(self) -> int:
        return self.matrix.shape[1]

    @property
    def source(self) -> Tensor:
        return self.matrix

    @property
    def members(self) -> int:
        return self.before.members

    @property
    def graphs(self) -> int:
        return self.before.graphs

    @property
    def device(self) -> torch.device:
        return self.matrix.device

    @kept
    def degree(self) -> Tensor:
        # A filler's row may have no entry in A + I, not even its own; less I, that is below zero.
        return self.matrix.sum(2).clamp(min=0).view(-1)

    @property
    def trace(self) -> Tensor:
        """The trace of A' of each graph, ``[graphs]``."""
        return self.matrix.diagonal(dim1=1, dim2=2).sum(1)

    @property
    def squared_norm(self) -> Tensor:
        """‖A'‖² of each graph, ``[graphs]``."""
        return self.matrix.square().sum((1, 2))

    def gcn(self, x: Tensor) -> Tensor:
        return torch.bmm(self._normalised, self._by_graph(x)).view_as(x)

    def neighbour_sum(self, x: Tensor) -> Tensor:
        return torch.bmm(self.matrix, self._by_graph(x)).view_as(x)

    def pool(self, share: Tensor) -> DenseAdjacency:
        """``Sᵀ A' S``, for S of ``[rows, clusters]``."""
        s = self._by_graph(share)
        matrix = torch.bmm(s.transpose(1, 2), torch.bmm(self.matrix, s))
        return DenseAdjacency(self.before, matrix)

    @kept
    def _normalised(self) -> Tensor:
        """``D̃^-1/2 (A' + I) D̃^-1/2``"""
        scale = (self.degree + 1).rsqrt().view(-1, self.clusters)
        loops = torch.eye(self.clusters, dtype=scale.dtype, device=self.device)
        return scale[:, :, None] * (self.matrix + loops) * scale[:, None, :]


class _Form(Function):
    """``Tᵀ A T`` for a symmetric A: both factors get their gradients from the same product."""

    @staticmethod
    def forward(
        ctx: Any, share: Tensor, clusters: int, base: Adjacency, blocks: Blocks | Spans
    ) -> Tensor:
        if isinstance(blocks, Spans):
            share = share.contiguous()
            spread = blocks.kernels.neighbour_sum(share, base.row_ptr, base.col)
        else:
            spread = base.neighbour_sum(share)
        ctx.save_for_backward(spread)
        ctx.blocks = blocks
        return inner(share, spread, blocks)[:, :clusters, :clusters]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (spread,) = ctx.saved_tensors
        both = grads[0] + grads[0].transpose(1, 2)
        if isinstance(spans := ctx.blocks, Spans):
            of_share = spans.kernels.segment_outer(
                spread, both, spans.ptr, spans.tiles, spans.period, columns=spread.shape[1]
            )
        else:
            of_share = outer(ctx.blocks, (spread, both))
        return of_share, None, None, None
