"""Graphs of equal size with a weighted adjacency, as DiffPool makes them."""

from __future__ import annotations

from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from sagpool.graphs import Adjacency
from sagpool.nn.pool.diffpool.device import kernels_for
from sagpool.nn.pool.diffpool.segments import Blocks, Spans
from sagpool.ops import Rows

Value = TypeVar("Value")


class kept(cached_property[Value]):  # noqa: N801, as its base
    """A cached property of a `PooledAdjacency`, but what has lost its gradient is not kept."""

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        value = super().__get__(instance, owner)
        if instance is not None and instance.source.requires_grad and not torch.is_grad_enabled():
            del instance.__dict__[str(self.attrname)]
        return value


class PooledAdjacency(Rows):
    """Acts as the `Adjacency` of graphs that all have the same number of nodes, the clusters."""

    @property
    def clusters(self) -> int:
        raise TypeError(f"{type(self).__name__} must say how many clusters there are.")

    @property
    def source(self) -> Tensor:
        """What its numbers depend on."""
        raise TypeError(f"{type(self).__name__} must say what it depends on.")

    @property
    def degree(self) -> Tensor:
        """``[rows]`` row sums."""
        raise TypeError(f"{type(self).__name__} must know degrees.")

    def gcn(self, x: Tensor) -> Tensor:
        """``D̃^-1/2 (A' + I) D̃^-1/2 x``"""
        raise TypeError(f"{type(self).__name__} must define gcn(x).")

    def gcn_relu(self, x: Tensor, bias: Tensor) -> Tensor:
        """``relu(gcn(x) + b)`` for b of ``[members, 1, channels]``."""
        return (self.gcn(x).view(len(bias), -1, x.shape[1]) + bias).relu().view_as(x)

    def neighbour_sum(self, x: Tensor) -> Tensor:
        """``A' x``"""
        raise TypeError(f"{type(self).__name__} must define neighbour_sum(x).")

    @property
    def sizes(self) -> np.ndarray:  # type: ignore[override]
        return np.full((self.members, self.graphs), self.clusters)

    @cached_property
    def rows(self) -> int:
        return self.graphs * self.clusters

    @cached_property
    def node_ptr(self) -> Tensor:
        end = self.members * self.rows + 1
        return torch.arange(0, end, self.clusters, device=self.device)

    def _by_graph(self, x: Tensor) -> Tensor:
        return x.view(-1, self.clusters, x.shape[1])  # [graphs, clusters, channels]


def blocks_of(base: Adjacency, share: Tensor) -> Blocks | Spans:
    """The rows of each graph before the first pooling, for products with ``share``."""
    if share.dtype == torch.float32 and kernels_for(share) is not None:
        return Spans.of(base)
    sizes = base.sizes.copy()
    starts = sizes.cumsum() - sizes.ravel()
    if base.filler:
        sizes[:, -1] = 1  # what becomes of a filler does not matter: the less, the better
    return Blocks.of(share, starts, sizes.ravel())
