"""Layers: convolutions, scores, pooling, readout; all of them for one model or a whole fleet."""

from sagpool.nn.conv.cheb import ChebConv
from sagpool.nn.conv.gat import GATConv
from sagpool.nn.conv.gcn import GCNConv
from sagpool.nn.conv.sage import SAGEConv
from sagpool.nn.conv.two_hop import TwoHop
from sagpool.nn.dropout import Dropout
from sagpool.nn.linear import Linear
from sagpool.nn.pool.attention import AttentionScore, Scores
from sagpool.nn.pool.diffpool import ClusterAdjacency, DiffPool, DiffPooled
from sagpool.nn.pool.gpool import GPool
from sagpool.nn.pool.keep import Pooled, keep_top, unpool
from sagpool.nn.pool.pyg_interface import PoolOutput
from sagpool.nn.pool.random_pool import RandomPool
from sagpool.nn.pool.sag_pool import SAGPool
from sagpool.nn.pool.score_pool import ScorePool
from sagpool.nn.pool.selection import Selection
from sagpool.nn.pool.set2set import Set2Set
from sagpool.nn.pool.sort_pool import SortConv, SortPool
from sagpool.nn.readout import readout
from sagpool.nn.streams import Streams

__all__ = [
    "AttentionScore",
    "ChebConv",
    "ClusterAdjacency",
    "DiffPool",
    "DiffPooled",
    "Dropout",
    "GATConv",
    "GCNConv",
    "GPool",
    "Linear",
    "PoolOutput",
    "Pooled",
    "RandomPool",
    "SAGEConv",
    "SAGPool",
    "ScorePool",
    "Scores",
    "Selection",
    "Set2Set",
    "SortConv",
    "SortPool",
    "Streams",
    "TwoHop",
    "keep_top",
    "readout",
    "unpool",
]
