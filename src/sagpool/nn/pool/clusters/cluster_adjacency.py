"""The pooled graphs of cluster methods: equal numbers of nodes, with a weighted adjacency."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import torch
from torch import Tensor

from sagpool.graphs import Adjacency, Structure
from sagpool.ops import Layout, UniformLayout

Value = TypeVar("Value")


class grad_cached_property(cached_property[Value]):  # noqa: N801, as its base
    """A cached property of a `ClusterAdjacency` that does not cache values without a gradient.

    Otherwise a first use under `torch.no_grad` would cut all later uses off from autograd.
    """

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        value = super().__get__(instance, owner)
        if instance is not None and instance.source.requires_grad and not torch.is_grad_enabled():
            del instance.__dict__[str(self.attrname)]
        return value


@dataclass(frozen=True, eq=False)
class ClusterAdjacency(Structure, ABC):
    """The structure A' of graphs whose nodes are clusters.

    Args:
        base: the graphs before the first pooling
        clusters: nodes of each pooled graph
    """

    base: Adjacency
    clusters: int

    @property
    @abstractmethod
    def source(self) -> Tensor:
        """The tensor that all values are computed from."""

    @property
    @abstractmethod
    def trace(self) -> Tensor:
        """The trace of A' of each graph, ``[graphs]``."""

    @property
    @abstractmethod
    def squared_norm(self) -> Tensor:
        """‖A'‖² of each graph, ``[graphs]``."""

    @cached_property
    def layout(self) -> Layout:  # type: ignore[override]
        base = self.base.layout
        return UniformLayout(base.members, base.graphs, self.clusters, base.device)

    def _by_graph(self, x: Tensor) -> Tensor:
        return x.view(-1, self.clusters, x.shape[1])  # [graphs, clusters, channels]
