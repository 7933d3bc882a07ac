"""DiffPool and the pooled graphs that it makes; see README.md."""

from sagpool.nn.pool.clusters.cluster_adjacency import ClusterAdjacency
from sagpool.nn.pool.clusters.diffpool import DiffPool

__all__ = ["ClusterAdjacency", "DiffPool"]
