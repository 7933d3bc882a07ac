"""Methods that make clusters, and their pooled graphs; see README.md."""

from sagpool.nn.pool.clusters.cluster_adjacency import ClusterAdjacency
from sagpool.nn.pool.clusters.diffpool import DiffPool
from sagpool.nn.pool.clusters.dmon import DMoNPool
from sagpool.nn.pool.clusters.hosc import HOSCPool
from sagpool.nn.pool.clusters.just_balance import JustBalancePool
from sagpool.nn.pool.clusters.mincut import MinCutPool
from sagpool.nn.pool.clusters.soft_pool import SoftPool

__all__ = [
    "ClusterAdjacency",
    "DMoNPool",
    "DiffPool",
    "HOSCPool",
    "JustBalancePool",
    "MinCutPool",
    "SoftPool",
]
