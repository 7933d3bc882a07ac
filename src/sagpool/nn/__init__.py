"""Layers: convolutions, scores, pooling, readout; all of them for one model or a whole fleet."""

from sagpool.nn.conv import ChebConv, Conv, GATConv, GCNConv, GINConv, MLPConv, SAGEConv
from sagpool.nn.conv.two_hop import TwoHop
from sagpool.nn.from_graphs import FromGraphs, Standardise, StandardisedLinear, SumMeanMax
from sagpool.nn.linear import Linear
from sagpool.nn.norm import Norm
from sagpool.nn.pool import (
    AttentionScore,
    Context,
    DiffPool,
    GPool,
    LearnedRatioPool,
    NoPool,
    Pool,
    Pooled,
    PoolOutput,
    RandomPool,
    SAGPool,
    ScorePool,
    Scores,
    Selection,
    Set2Set,
    SortConv,
    SortPool,
    keep_top,
    readout,
    unpool,
)
from sagpool.nn.random import Dropout, Streams
from sagpool.nn.row_norm import RowNorm

__all__ = [
    "AttentionScore",
    "ChebConv",
    "Context",
    "Conv",
    "DiffPool",
    "Dropout",
    "FromGraphs",
    "GATConv",
    "GCNConv",
    "GINConv",
    "GPool",
    "LearnedRatioPool",
    "Linear",
    "MLPConv",
    "NoPool",
    "Norm",
    "Pool",
    "PoolOutput",
    "Pooled",
    "RandomPool",
    "RowNorm",
    "SAGEConv",
    "SAGPool",
    "ScorePool",
    "Scores",
    "Selection",
    "Set2Set",
    "SortConv",
    "SortPool",
    "Standardise",
    "StandardisedLinear",
    "Streams",
    "SumMeanMax",
    "TwoHop",
    "keep_top",
    "readout",
    "unpool",
]
