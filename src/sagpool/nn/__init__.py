"""Layers: convolutions, scores, pooling, readout; all of them for one model or a whole fleet."""

from sagpool.nn.cheb_conv import ChebConv
from sagpool.nn.diff_pool import DiffPool, DiffPooled
from sagpool.nn.drop_in import PoolOutput
from sagpool.nn.dropout import Dropout
from sagpool.nn.gat_conv import GATConv
from sagpool.nn.gcn_conv import GCNConv
from sagpool.nn.linear import Linear
from sagpool.nn.pooled import Pooled, keep_top, unpool
from sagpool.nn.pooled_adjacency import PooledAdjacency
from sagpool.nn.random_pool import RandomPool
from sagpool.nn.readout import readout
from sagpool.nn.sag_pool import SAGPool
from sagpool.nn.sage_conv import SAGEConv
from sagpool.nn.score import AttentionScore, Scores
from sagpool.nn.select import Selection
from sagpool.nn.set2set import Set2Set
from sagpool.nn.sort_pool import SortConv, SortPool
from sagpool.nn.streams import Streams
from sagpool.nn.top_pool import TopPool
from sagpool.nn.topk_pool import TopKPool
from sagpool.nn.two_hop import TwoHop

__all__ = [
    "AttentionScore",
    "ChebConv",
    "DiffPool",
    "DiffPooled",
    "Dropout",
    "GATConv",
    "GCNConv",
    "Linear",
    "PoolOutput",
    "Pooled",
    "PooledAdjacency",
    "RandomPool",
    "SAGEConv",
    "SAGPool",
    "Scores",
    "Selection",
    "Set2Set",
    "SortConv",
    "SortPool",
    "Streams",
    "TopKPool",
    "TopPool",
    "TwoHop",
    "keep_top",
    "readout",
    "unpool",
]
