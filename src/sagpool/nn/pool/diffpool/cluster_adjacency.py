"""The pooled graphs that DiffPool makes: equally many nodes each, with a weighted adjacency."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from sagpool.ops import Rows

Value = TypeVar("Value")


class grad_cached_property(cached_property[Value]):  # noqa: N801, as its base
    """A cached property of a `ClusterAdjacency` that does not cache values without a gradient.

    Otherwise a first use under `torch.no_grad` would cut all later ones off from autograd.
    """

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        value = super().__get__(instance, owner)
        if instance is not None and instance.source.requires_grad and not torch.is_grad_enabled():
            del instance.__dict__[str(self.attrname)]
        return value


@dataclass(frozen=True, eq=False)
class ClusterAdjacency(Rows, ABC):
    """Acts as the `Adjacency` A' of graphs whose nodes are clusters.

    Args:
        base: the graphs before the first pooling
        clusters: nodes of each pooled graph
    """

    base: Rows
    clusters: int

    @property
    @abstractmethod
    def source(self) -> Tensor:
        """The tensor that all values are computed from."""

    @property
    @abstractmethod
    def degree(self) -> Tensor:
        """``[rows]`` row sums."""

    @property
    @abstractmethod
    def trace(self) -> Tensor:
        """The trace of A' of each graph, ``[graphs]``."""

    @property
    @abstractmethod
    def squared_norm(self) -> Tensor:
        """‖A'‖² of each graph, ``[graphs]``."""

    @abstractmethod
    def gcn(self, x: Tensor) -> Tensor:
        """``D̃^-1/2 (A' + I) D̃^-1/2 x``"""

    def gcn_relu(self, x: Tensor, bias: Tensor) -> Tensor:
        """``relu(gcn(x) + b)`` for b of ``[members, 1, channels]``."""
        return (self.gcn(x).view(len(bias), -1, x.shape[1]) + bias).relu().view_as(x)

    @abstractmethod
    def neighbour_sum(self, x: Tensor) -> Tensor:
        """``A' x``"""

    @property
    def members(self) -> int:
        return self.base.members

    @property
    def graphs(self) -> int:
        return self.base.graphs

    @property
    def device(self) -> torch.device:
        return self.base.device

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
