"""DiffPool and the pooled graphs that it makes; see README.md."""

from sagpool.nn.pool.diffpool.cluster_adjacency import ClusterAdjacency
from sagpool.nn.pool.diffpool.layer import DiffPool

__all__ = ["ClusterAdjacency", "DiffPool"]
